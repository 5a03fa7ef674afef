"""The verdict of a claim, as in `verdict.json`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from normexp.claims.judge import plain_words as words
from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.estimate import ALPHA, Ends, SeedMean, holm, p_of_share
from normexp.claims.judge.limits import few, limits
from normexp.claims.judge.outcomes import Arm, Outcomes, Setting, paired_runs
from normexp.claims.judge.settings_count import FEWEST, count, word_of
from normexp.runs.table import FEWEST_SEEDS

if TYPE_CHECKING:
    from normexp.claims.evidence.registry import Row
    from normexp.claims.spec.claim import Claim, Manipulation


def judge(
    evidence: pd.DataFrame | list[Setting],
    claim: "Claim",
    *,
    row: "Row | None" = None,
    drawn: bool = False,
    asked: int = FEWEST,
    late: str = "",
    passed_over: str = "",
    manipulation: list[Setting] | None = None,
) -> dict[str, Any]:
    """Judge a claim's evidence. `comparisons` has the counts of each comparison; see `count`. Each comparison of a
    sentence over drawn settings has a `word` and `p` of its own, and the sentence of several has none: two sentences
    that hold in most settings need not hold together in most.

    Args:
        evidence: over one setting a table with the columns arm, factor, seed and value; over several the runs of every
            arm in each of them.
        row: the claim's registration with the alpha of its verdict. None: the scope says "unregistered".
        drawn: whether a written seed drew the settings from a distribution. A list that somebody chose makes no word.
        asked: the number of drawn settings without which there is no word. Nothing is counted before: a setting near
            its margin is finished later than others, so a count of the first ones would be biased.
        late: words for the scope if the row came after some of the runs.
        passed_over: words for the note if draws were the same network as an earlier one.
        manipulation: the settings with the values of the manipulation check.
    """
    if isinstance(evidence, pd.DataFrame):
        return _one_setting(claim, evidence)
    level = 1 - (row.alpha if row else ALPHA)
    counts = [count(evidence, comparison, level) for comparison in claim.comparisons]
    first, n = counts[0], len(evidence)
    cause = claim.manipulation
    check = _manipulation(cause, manipulation, level, drawn) if cause and manipulation else None
    begun = drawn and n < (asked or FEWEST)
    for result in counts:
        result["word"], result["p"] = _word(result, check) if drawn and not begun else (words.COUNTED, None)
    word, p = (first["word"], first["p"]) if len(counts) == 1 else (words.COUNTED, None)
    what, notes = _scope(counts, "drawn" if drawn else "hand-picked"), list[str]()
    if begun:
        word, what = words.BEGUN, f"{n} of {max(asked, FEWEST)} drawn settings are finished"
    elif drawn:
        too_few = any(result["asked"] < FEWEST for result in counts)
        no_word = f"no word is possible with fewer than {FEWEST} settings" * too_few
        notes = [passed_over, no_word, few(claim)]
    if check and not check["held"]:
        notes.insert(0, check["note"])
    if claim.withdrawn and not begun:
        word, p = words.WITHDRAWN_WORD, None
        notes.insert(0, f"withdrawn: {claim.withdrawn}")
    registered = (late if row else "unregistered") if drawn else ""
    return {
        **_head(claim, word, ", ".join(filter(None, (what, registered)))),
        "effect": first["median"] if drawn else None,
        "interval": first["median_interval"] if drawn else None,
        "level": level,
        **{key: first[key] for key in ("share", "share_interval", "holds", "asked", "n")},
        "drawn": drawn,
        "early": claim.early,
        "p": p,
        "n_seeds": max((s["seeds"] for s in first["settings"]), default=0),
        "note": "; ".join(filter(None, notes)),
        "comparison": first["comparison"],
        "comparisons": counts,
        "arms": arm_means(evidence),
        "settings": first["settings"],
        "failures": _failures(evidence),
        "manipulation": check,
        "registered": row and {"row": row.number, "date": row.date, "alpha": row.alpha},
    }


def _word(result: dict[str, Any], check: dict[str, Any] | None) -> tuple[str, float | None]:
    """The word of a comparison over drawn settings, and its p. Without the cause that it names there is none."""
    if result["asked"] < FEWEST:
        return words.COUNTED, None
    if check and not check["held"]:
        return words.UNDECIDED, None
    return word_of(result["share_interval"]), p_of_share(result["holds"], result["asked"])


def _scope(counts: list[dict[str, Any]], kind: str) -> str:
    """In how many settings each comparison holds, in words."""
    parts = []
    for result in counts:
        comparison = words.comparison_in(result)
        name = f"{words.effect_name(comparison)}: " if len(counts) > 1 else ""
        word = f"{result['word']}, " if len(counts) > 1 and result["word"] != words.COUNTED else ""
        where = f"{words.holds_in(comparison)} in {result['holds']} of {result['asked']} {kind} settings"
        cannot = f", cannot be asked in {result['failed']}" if result["failed"] else ""
        parts.append(f"{name}{word}{where}{cannot}")
    return "; ".join(parts)


def _manipulation(
    cause: "Manipulation", settings: list[Setting], level: float, drawn: bool
) -> dict[str, Any]:
    """The manipulation check: a causal sentence needs it to hold, in most drawn settings or in all hand-picked ones."""
    counts = count(settings, cause.comparison, level)
    held = counts["share_interval"][0] > 0.5 if drawn else counts["holds"] == counts["n"]
    text = f"the manipulation check holds in {counts['holds']} of {counts['asked']}"
    note = "" if held else f"{text}, so nothing is said of the cause ({cause.measure})"
    return counts | {"measure": cause.measure, "held": held, "note": note}


def _one_setting(claim: "Claim", table: pd.DataFrame) -> dict[str, Any]:
    """The verdict from one setting. A law has no scope. Cases never support a universal sentence that mathematics does
    not prove; it then has "no counterexample" among them. Networks show what holds in them, and no more."""
    trained, setting = claim.evidence == "training", Setting.of_table(table)
    judgements = judge_one_setting(table, claim.comparisons, trained=trained)
    decided = asdict(deciding(judgements))
    word, scope = decided.pop("verdict"), ""
    universal = all(comparison.kind == "every" for comparison in claim.comparisons)
    cases = np.logical_or.reduce([_asked(table, comparison) for comparison in claim.comparisons]).sum()
    if claim.search and word == words.REFUTED:
        scope = f"by a counterexample, after a search of {cases} cases"
    elif universal and word == words.SUPPORTED and claim.expected != words.SUPPORTED:
        word, scope = words.NO_COUNTEREXAMPLE, f"in {cases} cases"
    elif claim.evidence != "law" and not universal:
        unseen = words.NOT_SEEN if math.isfinite(decided["effect"]) else words.UNDECIDED
        word = words.SEEN if word == words.SUPPORTED else unseen
    return {
        **_head(claim, word, scope),
        **decided,
        "level": 1.0 if decided["comparison"]["kind"] == "every" else 1 - ALPHA,
        "p": None,
        "comparisons": [asdict(judgement) for judgement in judgements],
        "arms": arm_means([setting]),
        "settings": [],
        "failures": _failures([setting] if trained else []),
    }


def _failures(settings: Sequence[Setting]) -> dict[str, dict[str, int]]:
    """Arm -> its runs, and how many of them failed, over all levels and settings."""
    failures: dict[str, dict[str, int]] = {}
    for setting in settings:
        for (arm, _), outcomes in setting.outcomes.items():
            lost = failures.setdefault(arm, {"failed": 0, "of": 0})
            lost["failed"] += int(outcomes.failed.sum())
            lost["of"] += len(outcomes.seeds)
    return failures


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The result of one comparison in one setting. The interval of a universal sentence is the range of all values."""

    verdict: str
    effect: float
    interval: Ends
    n_seeds: int
    method: str
    note: str = ""
    comparison: dict[str, Any]


def judge_one_setting(
    table: pd.DataFrame, comparisons: list[Comparison], *, trained: bool = False
) -> list[Judgement]:
    """Judge every comparison of a claim. The comparisons of one claim are one Holm family.

    A comparison supports its sentence if the whole 95% interval lies where the sentence puts the effect, and refutes it
    if the whole interval lies elsewhere. For values that were `trained`, the effect is the mean over the seeds at which
    every compared run gave a number, and equal effects are no proof; those of laws and of initial networks are exact.

    Raises ValueError with fewer than five seeds, because fewer rank nothing.
    """
    n = table["seed"].nunique()
    if n < FEWEST_SEEDS:
        raise ValueError(f"seeds={n}: fewer than {FEWEST_SEEDS} seeds rank nothing; add seeds")
    outcomes = Setting.of_table(table).outcomes
    means = [None if c.kind == "every" else _mean(outcomes, c, trained) for c in comparisons]
    pairs = list(zip(comparisons, means, strict=True))
    p = iter(holm([found[0].p_of(c, c.size) for c, found in pairs if found]))
    return [_decided(c, *found, next(p)) if found else _judge_universal(table, c) for c, found in pairs]


def deciding(judgements: list[Judgement]) -> Judgement:
    """The comparison that decides. A sentence holds if all its comparisons hold, and falls with one of them."""
    order = (words.REFUTED, words.UNDECIDED, words.SUPPORTED)
    return min(judgements, key=lambda judgement: order.index(judgement.verdict))


def _mean(outcomes: Mapping[Arm, Outcomes], comparison: Comparison, trained: bool) -> tuple[SeedMean, str]:
    """The effect over seeds, and what limits it: why nothing is known, or which seeds are left out."""
    seeds = len(next(iter(outcomes.values())).seeds)
    paired = paired_runs(comparison.reads(outcomes))
    n = len(next(iter(paired.values())).seeds) if paired else seeds
    unknown = SeedMean(math.nan, 0.0, n - 1.0)
    if n < seeds and not trained:
        return unknown, f"{seeds - n} of {seeds} values are not finite"
    if n < FEWEST_SEEDS:
        return unknown, f"every arm trained at {n} of {seeds} seeds"
    effects = comparison.effects(paired)
    notes = [f"{seeds - n} of {seeds} seeds are left out, in which a run failed"] * (n < seeds)
    notes += ["all effects are equal, so the measure resolves too little"] * (trained and not np.ptp(effects))
    return SeedMean.of(effects, exact=not trained), "; ".join(notes)


def _decided(comparison: Comparison, mean: SeedMean, note: str, p: float) -> Judgement:
    word = words.UNDECIDED
    if p <= ALPHA:  # so the whole interval lies on one side
        holds = comparison.side(mean.effect, comparison.size) == comparison.holds_if
        word = words.SUPPORTED if holds else words.REFUTED
    return Judgement(
        verdict=word, effect=mean.effect, interval=mean.interval(1 - ALPHA), n_seeds=int(mean.df) + 1,
        method="paired t", note=note, comparison=comparison.shown(),
    )  # fmt: skip


def _judge_universal(table: pd.DataFrame, comparison: Comparison) -> Judgement:
    """A universal sentence: one counterexample refutes, and any number of examples only supports.

    Each single value is checked against its bound. The effect is the value that fails most, or passes most narrowly.
    A value that is not a number fails.
    """
    rows = table[_asked(table, comparison)]
    levels = list(dict.fromkeys(table["factor"]))
    excess = np.array([outside(comparison, row, levels) for row in rows.itertuples(index=False)])
    worst, failing = rows.iloc[int(np.argmax(excess))], int((excess > 0).sum())
    one = rows["factor"][excess > 0].nunique() == 1 < rows["factor"].nunique()  # level that has all failures
    before = "with" if isinstance(worst["factor"], str) else "at level"
    only = f", all {before} {worst['factor']}" if one else ""
    level = f", {worst['factor']}" if worst["factor"] != "" and not one else ""
    where = worst["case"] if "case" in rows else f"{worst['arm']}{level}, seed {worst['seed']}"
    return Judgement(
        verdict=words.REFUTED if failing else words.SUPPORTED,
        effect=float(worst["value"]),
        interval=(float(rows["value"].min()), float(rows["value"].max())),
        n_seeds=table["seed"].nunique(),
        method="counterexample" if failing else f"no counterexample in {len(rows)} cases",
        note=f"{failing} of {len(rows)} cases fail{only}, the worst: {where}" if failing else "",
        comparison=comparison.shown(),
    )


def _asked(table: pd.DataFrame, comparison: Comparison) -> np.ndarray:
    """Which rows a universal sentence speaks of."""
    arm = comparison.arm is None or table["arm"] == comparison.arm
    level = comparison.at is None or table["factor"] == comparison.at
    return np.full(len(table), True) & arm & level


def outside(comparison: Comparison, row: Any, levels: list) -> float:
    """How far a value lies outside its bound; 0 or below if it lies within."""
    if np.isnan(row.value):
        return math.inf  # a value that is not a number fails

    def bound(limit: Any) -> Any:
        limit = limit[row.arm] if isinstance(limit, dict) else limit
        return limit[levels.index(row.factor)] if isinstance(limit, list) else limit

    excesses = []
    if comparison.at_most is not None:
        excesses.append(row.value - bound(comparison.at_most))
    if comparison.at_least is not None:
        excesses.append(bound(comparison.at_least) - row.value)
    if comparison.equals is not None:
        excesses.append(abs(row.value - bound(comparison.equals)) - comparison.tolerance)
    return max(excesses)


def arm_means(settings: list[Setting]) -> dict[str, dict[str, float]]:
    """Mean value of each arm in each setting, over the seeds at which it trained; nan if it never did."""
    means: dict[str, dict[str, float]] = {}
    for setting in settings:
        for (arm, level), outcomes in setting.outcomes.items():
            trained = outcomes.values[~outcomes.failed]
            name = f"{setting.name} {level}".strip()
            means.setdefault(arm, {})[name] = float(trained.mean()) if len(trained) else math.nan
    return means


def _head(claim: "Claim", word: str, scope: str) -> dict[str, Any]:
    """The keys that every verdict has, from the claim and its word."""
    keys = ("measure", "source", "evidence", "kind", "paper_effect", "bank")
    expected = claim.expected if word not in (words.COUNTED, words.BEGUN) else None
    return {
        **{"id": claim.id, "name": claim.name, "sentence": claim.sentence, "verdict": word, "scope": scope},
        **{key: getattr(claim, key) for key in keys},
        "covers": list(claim.covers),
        "means": claim.note,
        "does_not_show": limits(claim),
        "expected": claim.expected,
        "as_expected": None if expected is None else word == expected,
    }
