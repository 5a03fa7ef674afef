"""One number a setting, and on which side of the margin each lies: settings are the sample.

The estimand is the share of settings whose measured effect lies where the sentence says. Its interval is exact whatever
the shape of the effects, as is that of their median; a mean over settings would miss where a few settings differ.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from normexp.claims.judge.comparison import PRACTICAL_MARGINS, TRENDS, Comparison
from normexp.claims.judge.estimate import SeedMean, median_interval, moderators, p_of_share, share_interval
from normexp.claims.judge.outcomes import Arm, Outcomes, Setting, paired_runs
from normexp.claims.judge.plain_words import DIVIDED, REFUTED, SUPPORTED, UNDECIDED

FAILED = "failed"
FEWEST = 6  # drawn settings for a word
QUARTERS = (0.25, 0.75)  # an interval of the share between these that holds one half says "divided"
MOST_SEEDS = 4  # of a setting near its margin
CLAIMED = {"greater": 1, "increasing": 1, "smaller": -1, "decreasing": -1}  # signs
RULES = {  # behind every word over settings; a registered protocol holds them
    "judge": "settings are the sample",
    "settings for a word, at least": FEWEST,
    "divided: the interval of the share within": list(QUARTERS),
    "seeds of a setting within a standard error of its margin": MOST_SEEDS,
    "fresh seeds of the worst setting of a universal sentence": 10,  # of a rule that is gone; hashes of rows hold it
    "margins of practice": list(PRACTICAL_MARGINS),
}


@dataclass(frozen=True, kw_only=True)
class SettingNumber:
    """The effect of one comparison in one setting.

    `number` is the mean over seeds of the arm's value minus the baseline's, or of their log ratio; a failed run counts
    as a guess. None if every run failed, or one did and the value of guessing is not known.
    """

    name: str
    number: float | None
    error: float  # its standard error over seeds; nan with one seed
    margin: float
    side: str  # `beyond` the margin, `within`, `opposite`, or `failed` where there is no number
    trained: float | None  # the number over the seeds at which every run trained; None if there is none
    seeds: int  # number of pairs
    failures: dict[str, int]  # arm -> failed runs, over all levels
    holds: bool = False  # whether the comparison is true here; `side` alone does not say it of an equivalence


def number_in(setting: Setting, comparison: Comparison) -> SettingNumber:
    """The number of a setting. Raises ValueError for logarithms of values of 0 or below."""
    by_arm = comparison.reads(setting.outcomes)
    together, with_guesses = paired_runs(by_arm), runs_with_guesses(setting, by_arm)
    mean = _mean(with_guesses, setting, comparison) if with_guesses else None
    seeds = _seeds(by_arm)
    margin = comparison.margin_in(with_guesses or {}, setting.measure)
    side = comparison.side(mean.effect, margin) if mean else FAILED
    failures = Counter[str]()
    for (arm, _), outcomes in by_arm.items():
        failures[arm] += int(outcomes.failed.sum())
    return SettingNumber(
        name=setting.name,
        number=mean.effect if mean else None,
        error=mean.error if mean and seeds > 1 else math.nan,
        margin=margin,
        side=side,
        trained=_mean(together, setting, comparison).effect if _seeds(together) else None,
        seeds=seeds,
        failures=dict(failures),
        holds=side == comparison.holds_if,
    )


def _seeds(by_arm: Mapping[Arm, Outcomes]) -> int:
    return len(next(iter(by_arm.values())).seeds)


def runs_with_guesses(setting: Setting, by_arm: Mapping[Arm, Outcomes]) -> dict[Arm, Outcomes] | None:
    """The runs with failed ones counted as guesses; None if every run failed, which answers only what is asked of the
    failures of one arm. Where the value of guessing is not known, those of the seeds at which all trained; None if
    there are none."""
    answer = setting.measure == "failed" and len({arm for arm, _ in by_arm}) == 1
    if all(outcomes.failed.all() for outcomes in by_arm.values()) and not answer:
        return None
    if setting.guess is not None:
        return {arm: outcomes.guessing(setting.guess) for arm, outcomes in by_arm.items()}
    paired = paired_runs(by_arm)
    return paired if _seeds(paired) else None


def _with_half(
    by_arm: Mapping[Arm, Outcomes], setting: Setting, comparison: Comparison
) -> Mapping[Arm, Outcomes]:
    """The runs with half an answer more, where logarithms of errors are taken: no error has one, too."""
    if not (comparison.log and setting.answer):
        return by_arm
    return {arm: replace(own, values=own.values + setting.answer / 2) for arm, own in by_arm.items()}


def _mean(by_arm: Mapping[Arm, Outcomes], setting: Setting, comparison: Comparison) -> SeedMean:
    return SeedMean.of(comparison.effects(_with_half(by_arm, setting, comparison)))


def count(settings: Sequence[Setting], comparison: Comparison, level: float) -> dict[str, Any]:
    """The counts of a comparison over settings, and the settings behind them, as plain values. Keys:

    - `n`, `beyond`, `within`, `opposite`, `failed`: counts of settings. Those of `failed` have no number, so they
      cannot be asked.
    - `asked`: the others; `holds`: those in which the comparison is true; `share` of those asked, `share_interval`
    - `median` and `median_interval`
    - `trained`: the second line, given that every run trained: `n`, `holds`, `median`
    - `direction`, `ceiling`, `moderators`: see these functions
    - `learned`, `others`: `holds`, `asked` and `share_interval` among settings that networks learn, and the rest; None
      where that is known of no setting
    - `failures`: arm -> failed runs; `runs`: runs of each arm
    - `unfitted`: arm -> settings in which it had not learned to an end
    """
    rows = [number_in(setting, comparison) for setting in settings]
    sides = [row.side for row in rows]
    failures_asked = any(
        setting.measure == "failed" for setting in settings
    )  # then no run that trained says more
    trained = [(row.trained, row.margin) for row in rows if row.trained is not None and not failures_asked]
    failures, runs = Counter[str](), Counter[str]()
    for row, setting in zip(rows, settings, strict=True):
        failures.update(row.failures)
        for (arm, _), outcomes in comparison.reads(setting.outcomes).items():
            runs[arm] += len(outcomes.seeds)
    told = [
        asdict(row) | {"labels": dict(setting.labels), "learned": setting.learned}
        for row, setting in zip(rows, settings, strict=True)
    ]
    unfitted = Counter(arm for setting in settings for arm in setting.unfitted)
    asked = [row for row in told if row["side"] != FAILED]
    known = any(row["learned"] is not None for row in told)
    numbers = np.array([row["number"] for row in asked])
    return {
        "comparison": comparison.shown(),
        "n": len(rows),
        **{side: sides.count(side) for side in ("beyond", "within", "opposite", FAILED)},
        **_share(asked, level),
        "median": float(np.median(numbers)) if asked else None,
        "median_interval": median_interval(numbers, level) if asked else None,
        "direction": direction(numbers, comparison),
        "learned": _share([row for row in asked if row["learned"]], level) if known else None,
        "others": _share([row for row in asked if not row["learned"]], level) if known else None,
        "ceiling": ceiling(settings, rows, comparison),
        "moderators": moderators(asked),
        "trained": {
            "n": len(trained),
            "holds": sum(comparison.side(*own) == comparison.holds_if for own in trained),
            "median": float(np.median([effect for effect, _ in trained])) if trained else None,
        },
        "failures": dict(failures),
        "runs": dict(runs),
        "unfitted": {arm: unfitted[arm] for arm in failures if arm in unfitted},
        "settings": told,
    }


def _share(rows: Sequence[Mapping[str, Any]], level: float) -> dict[str, Any]:
    """The share of these settings in which the comparison holds, with its interval."""
    holds, n = sum(row["holds"] for row in rows), len(rows)
    interval = share_interval(holds, n, level)
    return {"holds": holds, "asked": n, "share": holds / n if n else math.nan, "share_interval": interval}


def direction(numbers: np.ndarray, comparison: Comparison) -> dict[str, Any] | None:
    """In how many settings the effect has the claimed sign, whatever its size, with the exact binomial p against one
    half. An effect of 0 has no sign. None for a sentence that claims none, as of a value against a number."""
    alone = comparison.baseline is None and comparison.kind not in TRENDS
    signs = np.sign(numbers[numbers != 0])
    if comparison.kind not in CLAIMED or comparison.size < 0 or alone or not len(signs):
        return None
    claimed = int((signs == CLAIMED[comparison.kind]).sum())
    return {"claimed": claimed, "of": len(signs), "p": p_of_share(claimed, len(signs))}


def ceiling(settings: Sequence[Setting], rows: list[SettingNumber], comparison: Comparison) -> float | None:
    """The expected number of the settings with a number in which an arm and its copy with other seeds lie within the
    margin. None where the sentence is no equivalence of two arms, or a setting has one seed.

    The difference of two seeds of one arm, divided by the root of the number n of seeds, has the variance of the
    difference of two means over n seeds. All pairs of seeds of both arms are taken.
    """
    if comparison.kind != "equivalent" or comparison.baseline is None:
        return None
    expected = 0.0
    for setting, row in zip(settings, rows, strict=True):
        if (guessed := runs_with_guesses(setting, comparison.reads(setting.outcomes))) is None:
            continue
        runs = _with_half(guessed, setting, comparison)
        arms = [comparison.values(runs, arm).mean(1) for arm in (comparison.named_arm, comparison.baseline)]
        pairs = np.array([pair for own in arms for pair in combinations(own, 2)])
        if not len(pairs):
            return None
        differences = (pairs[:, 0] - pairs[:, 1]) / math.sqrt(len(arms[0]))
        expected += float((np.abs(differences) <= row.margin).mean())
    return expected


def word_of(share: tuple[float, float]) -> str:
    """Supported: the interval of the share lies above one half; refuted: below; divided: it holds one half and lies
    within a quarter and three quarters; else undecided."""
    low, high = share
    if low > 0.5:
        return SUPPORTED
    if high < 0.5:
        return REFUTED
    return DIVIDED if low >= QUARTERS[0] and high <= QUARTERS[1] else UNDECIDED


def is_near_margin(setting: Setting, comparisons: Sequence[Comparison]) -> bool:
    """Whether a setting needs two more seeds: it has fewer than four, and its number lies within a standard error of a
    margin that decides, on whichever side. With two seeds, these are the settings whose seeds disagree."""

    def is_near(row: SettingNumber, comparison: Comparison) -> bool:
        if row.number is None or row.seeds >= MOST_SEEDS:
            return False
        ends = [end for part in comparison.region(row.margin) for end in part]
        return any(abs(row.number - end) <= row.error for end in ends)  # false of an error that is no number

    return any(is_near(number_in(setting, comparison), comparison) for comparison in comparisons)
