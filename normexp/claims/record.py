"""A verdict as `verdict.json`: its values, and beside them what `words` says of them. Nothing reads it back."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from normexp.claims import words
from normexp.claims.evidence.registry import protocol_of
from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.limits import few_of, limits_of
from normexp.claims.judge.verdict import Check, Count, Judgement, Verdict
from normexp.claims.units import effect_name

# Keys with the name of an attribute: of the claim, of its verdict, of one over settings, of its first comparison there.
OF_CLAIM = (
    "id", "name", "sentence", "measure", "source", "evidence", "kind", "paper_effect", "bank", "covers", "expected",
)  # fmt: skip
OF_VERDICT = (
    "arms", "failures", "p", "seconds", "command", "as_expected", "effect", "interval", "n_seeds", "comparison",
    "settings",
)  # fmt: skip
OVER_SETTINGS = ("needed", "repeated", "registered", "unregistered_because", "late")
OF_COUNT = ("share", "share_interval", "holds", "asked", "n")


def to_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict as plain values. JSON has no infinity, so numbers that are not finite become text."""
    claim, limits = verdict.claim, limits_of(verdict.claim)
    found: dict[str, Any] = {name: getattr(claim, name) for name in OF_CLAIM} | {
        "verdict": verdict.word,
        "scope": words.scope(verdict),
        "note": words.note(verdict),
        "does_not_show": words.does_not_show(limits),
        **{name: getattr(verdict, name) for name in OF_VERDICT},
        "level": verdict.confidence,
        "comparisons": [_of_comparison(result) for result in verdict.comparisons],
        "means": claim.note,
        "limits": limits,
        "protocol": protocol_of(claim),
    }
    if verdict.counts or claim.withdrawn:
        found["withdrawn"] = claim.withdrawn
    if verdict.runs:
        found |= {"runs": verdict.runs, "numerics": verdict.numerics}
    if verdict.devices:
        found["devices"] = verdict.devices
    if verdict.counts:
        found |= {name: getattr(verdict, name) for name in OVER_SETTINGS}
        found |= {name: getattr(verdict.counts[0], name) for name in OF_COUNT}
        found |= {"drawn": claim.drawn, "early": claim.early, "few": few_of(claim)}
        found["manipulation"] = verdict.manipulation and _of_comparison(verdict.manipulation)
    else:
        found |= {"cases": verdict.cases, "searched": claim.search is not None}
        found["method"] = words.method(verdict.deciding)
    return plain(found)


def _of_comparison(result: Count | Judgement) -> dict[str, Any]:
    node = vars(result).copy()
    if not result.unreached:
        node.pop("unreached")
    if isinstance(result, Judgement):
        english = {"note": words.note_of_values(result), "method": words.method(result)}
        return {"verdict": node.pop("word")} | node | english
    return node | {"note": words.not_held(result)} if isinstance(result, Check) else node


def plain(value: Any) -> Any:
    """The values of JSON."""
    if dataclasses.is_dataclass(value):
        return plain(vars(value))
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
