"""A verdict as `verdict.json`: its values, and beside them what `words` says of them, which is never read back."""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from normexp.claims import words
from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.verdict import Check, Count, Judgement, Verdict
from normexp.claims.units import effect_name

OVER_SETTINGS = {  # fields that a verdict in one setting has not
    "drawn", "early", "needed", "repeated", "few", "manipulation", "withdrawn", "registered", "unregistered_because",
    "late",
}  # fmt: skip
IN_ONE_SETTING = {"cases", "searched"}
# Fields that have another name in the file.
KEYS = {"before_registration": "late", "started": "early", "confidence": "level"}


def to_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict as plain values. JSON has no infinity, so numbers that are not finite become text."""
    found: dict[str, Any] = {
        "verdict": verdict.word,
        "scope": words.scope(verdict),
        "note": words.note(verdict),
        "does_not_show": words.does_not_show(verdict.limits),
        **{name: getattr(verdict, name) for name in ("as_expected", "effect", "interval", "n_seeds")},
        "comparison": verdict.comparison,
        "settings": verdict.settings,
        "comparisons": [_of_comparison(result) for result in verdict.comparisons],
    }
    left_out = {"word", "counts", "judgements"} | (IN_ONE_SETTING if verdict.counts else OVER_SETTINGS)
    if verdict.withdrawn:
        left_out.discard("withdrawn")
    if not verdict.runs:
        left_out |= {"runs", "numerics"}
    if not verdict.devices:
        left_out.add("devices")
    found = {name: value for name, value in _fields(verdict).items() if name not in left_out} | found
    if verdict.counts:
        first = verdict.counts[0]
        found |= {name: getattr(first, name) for name in ("share", "share_interval", "holds", "asked", "n")}
        found["manipulation"] = verdict.manipulation and _of_comparison(verdict.manipulation)
    else:
        found["method"] = words.method(verdict.deciding)
    return plain(found)


def _of_comparison(result: Count | Judgement) -> dict[str, Any]:
    node = _fields(result)
    if not result.unreached:
        node.pop("unreached")
    if isinstance(result, Judgement):
        english = {"note": words.note_of_values(result), "method": words.method(result)}
        return {"verdict": node.pop("word")} | node | english
    return node | {"note": words.not_held(result)} if isinstance(result, Check) else node


def _fields(value: Any) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(value)]
    return {KEYS.get(name, name): getattr(value, name) for name in names}


def plain(value: Any) -> Any:
    """The values of JSON."""
    if dataclasses.is_dataclass(value):
        return plain(_fields(value))
    if isinstance(value, Comparison):
        return plain(value.shown())
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def table_of_settings(verdict: Verdict) -> pd.DataFrame:
    """A row for each comparison in each setting: its effect, standard error and interval over seeds, margin, side, and
    what the setting is."""
    rows = []
    for result in verdict.counts:
        for row in result.settings:
            low, high = row.interval
            failed = {f"failed {arm}": n for arm, n in row.failures.items()}
            numbers = {"effect": row.number, "standard error": row.error, "low": low, "high": high}
            sides = {"margin": row.margin, "side": row.side, "holds": row.holds, "seeds": row.seeds}
            name = {"comparison": effect_name(result.comparison), "setting": row.name}
            rows.append(name | numbers | sides | failed | {"learned": row.learned} | dict(row.labels))
    return pd.DataFrame(rows)


def from_json(node: Mapping[str, Any]) -> Verdict:
    """The verdict that a `verdict.json` holds. Raises ValueError for one that lacks a field, as older ones do."""
    results = [{"word": result.get("verdict")} | result for result in node["comparisons"]]
    read = {**node, "word": node["verdict"], "confidence": node["level"]}
    read["counts" if "share" in node else "judgements"] = results
    if late := node.get("late"):
        read["before_registration"] = {"started": late.get("early"), "of": late.get("of")}
    return _adapter().validate_python(read)


@functools.cache
def _adapter() -> TypeAdapter[Verdict]:
    return TypeAdapter(Verdict)
