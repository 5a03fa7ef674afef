"""The verdict of a claim, as in `verdict.json`."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from normexp.claims.judge.estimate import ALPHA, share_interval
from normexp.claims.judge.one_setting import Judgement, judge_one_setting
from normexp.claims.judge.outcomes import Setting
from normexp.claims.judge.plain_words import (
    BEGUN,
    COUNTED,
    NO_COUNTEREXAMPLE,
    NOT_SEEN,
    REFUTED,
    SEEN,
    SUPPORTED,
    UNDECIDED,
    UNTESTABLE,
    every_one_of,
    few,
    limits,
)
from normexp.claims.judge.settings_count import (
    FEWEST,
    count,
    counterexample,
    p_of_share,
    word_of,
    worst_setting,
)
from normexp.format import ends, number
from normexp.runs.files import write_json

if TYPE_CHECKING:
    from normexp.claims.spec.claim import Claim
    from normexp.claims.spec.registry import Row

VERDICT = "verdict.json"
UNTUNED = "untuned"  # folder below a claim's verdict, for the verdict without tuning


def judge(
    evidence: pd.DataFrame | list[Setting],
    claim: "Claim",
    *,
    row: "Row | None" = None,
    drawn: bool = False,
    asked: int = FEWEST,
    waiting: str = "",
    late: str = "",
    manipulation: list[Setting] | None = None,
    again: Setting | None = None,
) -> dict[str, Any]:
    """Judge a claim's evidence. `comparisons` has the counts of each comparison; see `count`.

    Args:
        evidence: over one setting a table with the columns arm, factor, seed and value; over several the runs of every
            arm in each of them.
        row: the claim's registration with the alpha of its verdict. None: the scope says "unregistered".
        drawn: whether a written seed drew the settings from a distribution. A list that somebody chose makes no word.
        asked: the number of drawn settings without which there is no word. Nothing is counted before: a setting near
            its margin is finished later than others, so a count of the first ones would be biased.
        waiting: what the other drawn settings wait for, in words.
        late: words for the scope if the row came after some of the runs.
        manipulation: the settings with the values of the manipulation check.
        again: the worst setting of a universal sentence with fresh seeds.
    """
    if isinstance(evidence, pd.DataFrame):
        return _one_setting(claim, evidence)
    level = 1 - (row.alpha if row else ALPHA)
    counts = [count(evidence, comparison, level) for comparison in claim.comparisons]
    first, n = counts[0], len(evidence)
    holds = sum(own["holds"] for own in joint_settings(first | {"comparisons": counts}))
    what = f"{_holds_in(claim)} in {holds} of {n} {'drawn' if drawn else 'hand-picked'} settings"
    word, notes, p = COUNTED, [""], None
    if drawn and n >= max(asked, FEWEST):
        if claim.universal:
            word, notes[0] = _universal(claim, evidence, again)
        else:
            word, p = word_of(share_interval(holds, n, level)), p_of_share(holds, n)
    elif drawn and n >= asked > 0:
        notes = [f"no word is possible with fewer than {FEWEST} settings"]
    elif drawn:
        word, what = BEGUN, f"{n} of {max(asked, FEWEST)} drawn settings are finished"
        what += f", {waiting}" if waiting else ""
    check = _manipulation(claim, manipulation, level, drawn) if claim.manipulation and manipulation else None
    if check and not check["held"]:
        notes.append(check["note"])
        word, p = (word if word in (COUNTED, BEGUN) else UNDECIDED), None
    if drawn and word != BEGUN:
        notes.append(few(claim))
    registered = (late if row else "unregistered") if drawn else ""
    return {
        **_head(claim, word, ", ".join(filter(None, (what, registered)))),
        "effect": first["median"] if drawn else None,
        "interval": first["median_interval"] if drawn else None,
        "level": level,
        "share": holds / n if n else math.nan,
        "share_interval": share_interval(holds, n, level),
        "holds": holds,
        "n": n,
        "drawn": drawn,
        "p": p,
        "n_seeds": max((s["seeds"] for s in first["settings"]), default=0),
        "note": "; ".join(filter(None, notes)),
        "comparison": first["comparison"],
        "comparisons": counts,
        "arms": arm_means(evidence),
        "settings": first["settings"],
        "failures": {
            name: {"failed": own, "of": first["runs"][name]} for name, own in first["failures"].items()
        },
        "manipulation": check,
        "registered": row and {"row": row.number, "hash": row.hash, "date": row.date, "alpha": row.alpha},
    }


def joint_settings(verdict: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The settings of a verdict, with the numbers of its first comparison; the claim `holds` where all of them do."""
    rest = [own["settings"] for own in verdict["comparisons"][1:]] if verdict["settings"] else []
    rows = zip(verdict["settings"], *rest, strict=True)
    return [first | {"holds": all(own["holds"] for own in (first, *others))} for first, *others in rows]


def _holds_in(claim: "Claim") -> str:
    """What is counted, in words."""
    if len(claim.comparisons) > 1:
        return f"{every_one_of(len(claim.comparisons))} comparisons hold"
    own = claim.comparisons[0]
    if not isinstance(own.margin, str) and own.margin < 0:
        return "no worse than the margin"
    return f"{own.holds_if} the margin"


def _universal(claim: "Claim", settings: Sequence[Setting], again: Setting | None) -> tuple[str, str]:
    """The word of a universal sentence: its worst setting, with fresh seeds, refutes it at 5% there alone."""
    worst = worst_setting(settings, claim.comparisons[0])
    if again is None or again.name != worst:
        return UNDECIDED, f"the worst setting, {worst}, is to be trained again with fresh seeds"
    p, mean = counterexample(again, claim.comparisons[0], ALPHA)
    shown = f"{worst}, {mean.df + 1:.0f} fresh seeds: {number(mean.effect)}{ends(mean.interval(1 - ALPHA))}"
    return (
        (REFUTED, f"counterexample: {shown}") if p <= ALPHA else (NO_COUNTEREXAMPLE, f"the worst is {shown}")
    )


def _manipulation(claim: "Claim", settings: list[Setting], level: float, drawn: bool) -> dict[str, Any]:
    """The manipulation check: a causal sentence needs it to hold, in most drawn settings or in all hand-picked ones."""
    own = claim.manipulation
    assert own is not None
    found = count(settings, own.comparison, level)
    held = found["share_interval"][0] > 0.5 if drawn else found["holds"] == found["n"]
    text = f"the manipulation check holds in {found['holds']} of {found['n']}"
    note = "" if held else f"{text}, so nothing is said of the cause ({own.measure})"
    return found | {"measure": own.measure, "held": held, "note": note}


def _one_setting(claim: "Claim", table: pd.DataFrame) -> dict[str, Any]:
    """The verdict from one setting. A law has no scope. Cases never support a universal sentence that mathematics does
    not prove; it then has "no counterexample" among them. Networks show what was seen here, and no more."""
    trained, setting = claim.evidence == "training", Setting.of_table(table)
    judgements = judge_one_setting(table, claim.comparisons, trained=trained)
    decided = asdict(deciding(judgements))
    word, scope = decided.pop("verdict"), ""
    universal = all(comparison.kind == "every" for comparison in claim.comparisons)
    if claim.search and word == REFUTED:
        scope = f"by a counterexample, after a search of {len(table)} cases"
    elif universal and word == SUPPORTED and claim.expected != SUPPORTED:
        word, scope = NO_COUNTEREXAMPLE, f"in {len(table)} cases"
    elif claim.evidence != "law" and not universal:
        word = SEEN if word == SUPPORTED else NOT_SEEN
    failures: dict[str, dict[str, int]] = {}
    for (arm, _), own in setting.outcomes.items() if trained else ():
        before = failures.get(arm, {"failed": 0, "of": 0})
        failures[arm] = {
            "failed": before["failed"] + int(own.failed.sum()),
            "of": before["of"] + len(own.seeds),
        }
    return {
        **_head(claim, word, scope),
        **decided,
        "level": 1.0 if decided["comparison"]["kind"] == "every" else 1 - ALPHA,
        "p": None,
        "comparisons": [asdict(judgement) for judgement in judgements],
        "arms": arm_means([setting]),
        "settings": [],
        "failures": failures,
    }


def deciding(judgements: list[Judgement]) -> Judgement:
    """The comparison that decides. A sentence holds if all its comparisons hold, and falls with one of them."""
    for word in (REFUTED, UNDECIDED, SUPPORTED):
        for judgement in judgements:
            if judgement.verdict == word:
                return judgement
    raise ValueError("claim: it has no comparison; add one")


def arm_means(settings: list[Setting]) -> dict[str, dict[str, float]]:
    """Mean value of each arm in each setting, over the seeds at which it trained; nan if it never did."""
    means: dict[str, dict[str, float]] = {}
    for setting in settings:
        for (arm, level), own in setting.outcomes.items():
            trained = own.values[~own.failed]
            name = f"{setting.name} {level}".strip()
            means.setdefault(arm, {})[name] = float(trained.mean()) if len(trained) else float(np.nan)
    return means


def _head(claim: "Claim", word: str, scope: str) -> dict[str, Any]:
    """The keys that every verdict has, from the claim and its word."""
    own = ("measure", "source", "evidence", "kind", "paper_effect", "budget", "protocol")
    expected = claim.expected if word not in (COUNTED, BEGUN) else None
    return {
        **{"id": claim.id, "name": claim.name, "sentence": claim.sentence, "verdict": word, "scope": scope},
        **{key: getattr(claim, key) for key in own},
        "covers": list(claim.covers),
        "means": claim.note,
        "does_not_show": limits(claim),
        "expected": claim.expected,
        "as_expected": None if expected is None else word == expected,
    }


def untestable(claim: "Claim", command: str) -> dict[str, Any]:
    """The verdict for a sentence that no evidence can decide, with the reason."""
    return {
        **_head(claim, UNTESTABLE, ""),
        **{"effect": None, "interval": None, "level": None, "n_seeds": 0, "p": None, "note": ""},
        **{"reason": claim.reason, "settings": [], "failures": {}},
        **{"untuned": False, "seconds": 0.0, "command": command},
    }


def write_verdict(folder: Path, verdict: dict[str, Any]) -> None:
    """Write `verdict.json` atomically. Numbers that are not finite become text, because JSON has no infinity."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = json.loads(json.dumps(verdict), parse_constant=lambda word: str(float(word)))
    write_json(folder / VERDICT, plain)
