"""One number a setting, and on which side of the margin each lies: settings are the sample.

The estimand is the share of settings whose measured effect lies where the sentence says. Its interval is exact whatever
the shape of the effects, as is that of their median; a mean over settings would miss where a few settings differ.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from normexp.claims.judge.beside import ceiling, direction, moderators
from normexp.claims.judge.comparison import DIFFERENCES, PRACTICAL_MARGINS, Comparison
from normexp.claims.judge.estimate import Ends, SeedMean, median_interval, share_interval
from normexp.claims.judge.outcomes import Arm, Outcomes, Setting, paired_runs
from normexp.claims.judge.plain_words import DIVIDED, REFUTED, SUPPORTED, UNDECIDED

FAILED = "failed"
FEWEST = 6  # drawn settings for a word
QUARTERS = (0.25, 0.75)  # an interval of the share between these that holds one half says "divided"
MOST_SEEDS = 4  # of a setting near its margin
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

    Attributes:
        number: mean over seeds of the arm's value minus the baseline's, or of their log ratio; a failed run counts as a
            guess. None if every run failed, or one did and the value of guessing is not known.
        error: its standard error over seeds; nan with one seed.
        side: `beyond` the margin, `within`, `opposite`, or `failed` where there is no number.
        points: beside a log ratio the difference in errors or nats, beside a difference the log ratio.
        trained: the number over the seeds at which every run trained; None if there is none.
        seeds: number of pairs.
        failures: arm -> failed runs, over all levels.
        holds: whether the comparison is true here; `side` alone does not say it of an equivalence.
    """

    name: str
    number: float | None
    error: float
    margin: float
    side: str
    points: float | None
    trained: float | None
    seeds: int
    failures: dict[str, int]
    holds: bool = False


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
        points=_beside(with_guesses, setting, comparison) if with_guesses else None,
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
    paired = paired_runs(dict(by_arm))
    return paired if _seeds(paired) else None


def _mean(by_arm: Mapping[Arm, Outcomes], setting: Setting, comparison: Comparison) -> SeedMean:
    if comparison.log and setting.answer:
        by_arm = {arm: replace(o, values=o.values + setting.answer / 2) for arm, o in by_arm.items()}
    return SeedMean.of(comparison.effects(by_arm))


def _beside(by_arm: Mapping[Arm, Outcomes], setting: Setting, comparison: Comparison) -> float | None:
    """The difference beside a log ratio, or the log ratio beside a difference, of errors and losses."""
    pair = comparison.kind in DIFFERENCES and comparison.baseline
    if setting.measure not in ("error", "loss") or not pair:
        return None
    other = comparison.model_copy(update={"log": not comparison.log, "margin": 0.0})
    return _mean(by_arm, setting, other).effect


def count(settings: Sequence[Setting], comparison: Comparison, level: float) -> dict[str, Any]:
    """The counts of a comparison over settings, and the settings behind them, as plain values. Keys:

    - `n`, `beyond`, `within`, `opposite`, `failed`: counts of settings. Those of `failed` have no number, so they
      cannot be asked.
    - `asked`: the others; `holds`: those in which the comparison is true; `share` of those asked, `share_interval`
    - `median` and `median_interval`, `middle` (the middle 80% of settings); the same of `points`, beside them
    - `trained`: the second line, given that every run trained: `n`, `holds`, `median`
    - `direction`, `moderators`, `ceiling`: see `normexp.claims.judge.beside`
    - `learned`, `others`: `holds`, `asked` and `share_interval` among settings that networks learn, and the rest; None
      where that is known of no setting
    - `failures`: arm -> failed runs; `runs`: runs of each arm
    - `unfitted`: arm -> settings in which it had not learned to an end
    """
    rows = [number_in(setting, comparison) for setting in settings]
    sides = [row.side for row in rows]
    trained = [(effect, row.margin) for row in rows if (effect := row.trained) is not None]
    failures, runs = Counter[str](), Counter[str]()
    for row, setting in zip(rows, settings, strict=True):
        failures.update(row.failures)
        for (arm, _), outcomes in comparison.reads(setting.outcomes).items():
            runs[arm] += len(outcomes.seeds)
    told = [
        asdict(row) | {"labels": dict(setting.labels), "learned": setting.learned}
        for row, setting in zip(rows, settings, strict=True)
    ]
    asked = [row for row in told if row["side"] != FAILED]
    known = any(row["learned"] is not None for row in told)
    return {
        "comparison": comparison.shown(),
        "n": len(rows),
        **{side: sides.count(side) for side in ("beyond", "within", "opposite", FAILED)},
        **_share(asked, level),
        **_spread("", [row.number for row in rows], level),
        **_spread("points_", [row.points for row in rows], level),
        "direction": direction(asked, comparison),
        "learned": _share([row for row in asked if row["learned"]], level) if known else None,
        "others": _share([row for row in asked if not row["learned"]], level) if known else None,
        "moderators": moderators(asked),
        "ceiling": ceiling(
            [setting for setting, row in zip(settings, rows, strict=True) if row.side != FAILED],
            [row.margin for row in rows if row.side != FAILED],
            comparison,
        ),
        "trained": {
            "n": len(trained),
            "holds": sum(
                comparison.side(*effect_and_margin) == comparison.holds_if for effect_and_margin in trained
            ),
            "median": float(np.median([effect for effect, _ in trained])) if trained else None,
        },
        "failures": dict(failures),
        "runs": dict(runs),
        "unfitted": {
            arm: lost for arm in failures if (lost := sum(arm in setting.unfitted for setting in settings))
        },
        "settings": told,
    }


def _share(rows: Sequence[Mapping[str, Any]], level: float) -> dict[str, Any]:
    """The share of these settings in which the comparison holds, with its interval."""
    holds, n = sum(row["holds"] for row in rows), len(rows)
    return {
        "holds": holds,
        "asked": n,
        "share": holds / n if n else math.nan,
        "share_interval": share_interval(holds, n, level),
    }


def _spread(name: str, numbers: Sequence[float | None], level: float) -> dict[str, Any]:
    """Median, its interval and the middle 80%, of the settings that have a number."""
    values = np.array([number for number in numbers if number is not None])
    if not len(values):
        return dict.fromkeys((f"{name}median", f"{name}median_interval", f"{name}middle"))
    return {
        f"{name}median": float(np.median(values)),
        f"{name}median_interval": median_interval(values, level),
        f"{name}middle": tuple(np.quantile(values, [0.1, 0.9]).tolist()),
    }


def word_of(share: Ends) -> str:
    """Supported: the interval of the share lies above one half; refuted: below; divided: it holds one half and lies
    within a quarter and three quarters; else undecided."""
    low, high = share
    if low > 0.5:
        return SUPPORTED
    if high < 0.5:
        return REFUTED
    return DIVIDED if low >= QUARTERS[0] and high <= QUARTERS[1] else UNDECIDED


def p_of_share(holds: int, n: int) -> float:
    """The exact two-sided binomial p of a share of one half."""
    return float(stats.binomtest(holds, n).pvalue)


def near_margin(settings: Sequence[Setting], comparisons: Sequence[Comparison]) -> list[str]:
    """Names of the settings that need two more seeds: those with fewer than four whose number lies within a standard
    error of a margin that decides, on whichever side. With two seeds, these are the settings whose seeds disagree."""

    def is_near(setting: Setting, comparison: Comparison) -> bool:
        row = number_in(setting, comparison)
        if row.number is None or row.seeds >= MOST_SEEDS:
            return False
        ends = [end for part in comparison.region(row.margin) for end in part]
        return any(abs(row.number - end) <= row.error for end in ends)  # false of an error that is no number

    return [setting.name for setting in settings if any(is_near(setting, c) for c in comparisons)]
