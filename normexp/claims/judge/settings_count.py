"""One number a setting, and on which side of the margin each lies: settings are the sample.

The estimand is the share of settings whose measured effect lies where the sentence says. Its interval is exact whatever
the shape of the effects, as is that of their median; a mean over settings would miss where a few settings differ.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from normexp.claims.judge.comparison import PRACTICAL_MARGINS, Comparison
from normexp.claims.judge.estimate import SeedMean, median_interval, p_of_share, share_interval
from normexp.claims.judge.moderators import moderators
from normexp.claims.judge.outcomes import ByArm, Setting, lost_runs, paired_runs, unreached_runs
from normexp.claims.judge.verdict import FEWEST_SETTINGS, Count, SettingRow, Share, Signs, Trained, Word

QUARTERS = (0.25, 0.75)  # an interval of the share between these that holds one half says "divided"
MOST_SEEDS = 4  # of a setting near its margin
RULES = {  # behind every word over settings; a registered protocol holds them
    "judge": "settings are the sample",
    "settings for a word, at least": FEWEST_SETTINGS,
    "divided: the interval of the share within": list(QUARTERS),
    "seeds of a setting within a standard error of its margin": MOST_SEEDS,
    "fresh seeds of the worst setting of a universal sentence": 10,  # of a rule that is gone; hashes of rows hold it
    "margins of practice": list(PRACTICAL_MARGINS),
}


def number_in(setting: Setting, comparison: Comparison) -> SettingRow:
    """The number of a setting. Raises ValueError for logarithms of values of 0 or below."""
    by_arm = comparison.reads(setting.outcomes)
    together, with_guesses = paired_runs(by_arm), runs_with_guesses(setting, by_arm)
    seeds, margin = _seeds(by_arm), comparison.margin_in(with_guesses or {}, setting.quantity)
    mean = _mean(with_guesses, setting, comparison, margin) if with_guesses else None
    sides = comparison.sides(mean.effect, margin, with_guesses or {}) if mean else set()
    side, mean = (sides.pop(), mean) if len(sides) == 1 else ("failed", None)
    return SettingRow(
        name=setting.name,
        number=mean.effect if mean else None,
        error=mean.error if mean and seeds > 1 else math.nan,
        margin=margin,
        side=side,
        trained=_mean(together, setting, comparison, margin).effect if _seeds(together) else None,
        seeds=seeds,
        failures={arm: runs.failed for arm, runs in lost_runs([by_arm]).items()},
        holds=side == comparison.rule.true_side,
        labels=dict(setting.labels),
        learned=setting.learned,
    )


def _seeds(by_arm: ByArm) -> int:
    return len(next(iter(by_arm.values())).seeds)


def runs_with_guesses(setting: Setting, by_arm: ByArm) -> ByArm | None:
    """The runs with failed ones counted as guesses; None if every run failed, which answers only what is asked of the
    failures of one arm. Where the value of guessing is not known, those of the seeds at which all trained; None if
    there are none."""
    answer = setting.quantity == "failed" and len({arm for arm, _ in by_arm}) == 1
    if all(outcomes.failed.all() for outcomes in by_arm.values()) and not answer:
        return None
    if setting.guess is not None:
        return {arm: outcomes.guessing(setting.guess) for arm, outcomes in by_arm.items()}
    paired = paired_runs(by_arm)
    return paired if _seeds(paired) else None


def _with_half(by_arm: ByArm, setting: Setting, comparison: Comparison) -> ByArm:
    """The runs with half an answer more, where logarithms of errors are taken: no error has one, too."""
    if not comparison.log:
        return by_arm
    return {arm: replace(runs, values=runs.values + setting.answer / 2) for arm, runs in by_arm.items()}


def _mean(by_arm: ByArm, setting: Setting, comparison: Comparison, margin: float) -> SeedMean:
    runs = _with_half(by_arm, setting, comparison)
    mean = SeedMean.of(comparison.effects(runs))
    return replace(mean, effect=comparison.settled(mean.effect, margin, runs))


def count(settings: Sequence[Setting], comparison: Comparison, confidence: float) -> Count:
    """One comparison over settings."""
    rows = [number_in(setting, comparison) for setting in settings]
    asked = [row for row in rows if row.number is not None]
    known = any(row.learned is not None for row in rows)
    numbers = np.array([row.number for row in asked])
    read = [comparison.reads(setting.outcomes) for setting in settings]
    failures, unreached = lost_runs(read), Counter[str]()
    for outcomes in read:
        unreached.update(unreached_runs(outcomes))
    unfitted = Counter(arm for setting in settings for arm in setting.unfitted)
    sides = Counter(row.side for row in rows)
    return Count(
        comparison=comparison,
        n=len(rows),
        beyond=sides["beyond"],
        within=sides["within"],
        opposite=sides["opposite"],
        failed=sides["failed"],
        **vars(share_of(asked, confidence)),
        median=float(np.median(numbers)) if asked else None,
        median_interval=median_interval(numbers, confidence) if asked else None,
        direction=direction(numbers, comparison),
        learned=share_of([row for row in asked if row.learned], confidence) if known else None,
        others=share_of([row for row in asked if not row.learned], confidence) if known else None,
        ceiling=ceiling(settings, rows, comparison),
        moderators=moderators([row.holds for row in asked], [row.labels for row in asked]),
        trained=trained(settings, rows, comparison),
        failures={arm: runs.failed for arm, runs in failures.items()},
        runs={arm: runs.of for arm, runs in failures.items()},
        unfitted={arm: unfitted[arm] for arm in failures if arm in unfitted},
        unreached=dict(unreached),
        settings=tuple(rows),
    )


def share_of(rows: Sequence[SettingRow], confidence: float) -> Share:
    """The share of these settings in which the comparison holds."""
    holds, n = sum(row.holds for row in rows), len(rows)
    interval = share_interval(holds, n, confidence)
    return Share(holds=holds, asked=n, share=holds / n if n else math.nan, share_interval=interval)


def trained(settings: Sequence[Setting], rows: Sequence[SettingRow], comparison: Comparison) -> Trained:
    """The count over the seeds at which every run trained. None of failures: no run that trained says more of them."""
    if any(setting.quantity == "failed" for setting in settings):
        return Trained(n=0, holds=0, median=None)
    rule = comparison.rule
    known = [(row.trained, row.margin) for row in rows if row.trained is not None]
    return Trained(
        n=len(known),
        holds=sum(rule.side(effect, margin) == rule.true_side for effect, margin in known),
        median=float(np.median([effect for effect, _ in known])) if known else None,
    )


def direction(numbers: np.ndarray, comparison: Comparison) -> Signs | None:
    """In how many settings the effect has the claimed sign. None for a sentence that claims none, as of a value against
    a number."""
    rule = comparison.rule
    alone = comparison.baseline is None and not rule.slope
    signs = np.sign(numbers[numbers != 0])
    if not rule.sign or comparison.size < 0 or alone or not len(signs):
        return None
    claimed = int((signs == rule.sign).sum())
    return Signs(claimed=claimed, of=len(signs), p=p_of_share(claimed, len(signs)))


def ceiling(settings: Sequence[Setting], rows: Sequence[SettingRow], comparison: Comparison) -> float | None:
    """The expected number of the settings with a number in which an arm and its copy with other seeds lie within the
    margin. None where the sentence is no equivalence of two arms, or a setting has one seed.

    The difference of two seeds of one arm, divided by the root of the number n of seeds, has the variance of the
    difference of two means over n seeds. All pairs of seeds of both arms are taken.
    """
    if not comparison.rule.within or comparison.rule.slope or comparison.baseline is None:
        return None
    expected = 0.0
    for setting, row in zip(settings, rows, strict=True):
        if (guessed := runs_with_guesses(setting, comparison.reads(setting.outcomes))) is None:
            continue
        runs = _with_half(guessed, setting, comparison)
        arms = [comparison.values(runs, arm).mean(1) for arm in (comparison.named_arm, comparison.baseline)]
        pairs = np.array([pair for values in arms for pair in combinations(values, 2)])
        if not len(pairs):
            return None
        differences = (pairs[:, 0] - pairs[:, 1]) / math.sqrt(len(arms[0]))
        expected += float((np.abs(differences) <= row.margin).mean())
    return expected


def with_word(result: Count, *, caused: bool) -> Count:
    """The count of a comparison over drawn settings with its word; undecided if the cause that it names was not
    `caused`, as its manipulation check says."""
    if result.asked < FEWEST_SETTINGS:
        return result
    if not caused:
        return replace(result, word=Word.UNDECIDED)
    return replace(result, word=word_of(result.share_interval), p=p_of_share(result.holds, result.asked))


def word_of(share: tuple[float, float]) -> Word:
    """Supported: the interval of the share lies above one half; refuted: below; divided: it holds one half and lies
    within a quarter and three quarters; else undecided."""
    low, high = share
    if low > 0.5:
        return Word.SUPPORTED
    if high < 0.5:
        return Word.REFUTED
    return Word.DIVIDED if low >= QUARTERS[0] and high <= QUARTERS[1] else Word.UNDECIDED


def is_near_margin(setting: Setting, comparisons: Sequence[Comparison]) -> bool:
    """Whether a setting needs two more seeds: it has fewer than four, and its number lies within a standard error of a
    margin that decides, on whichever side. With two seeds, these are the settings whose seeds disagree."""

    def is_near(row: SettingRow, comparison: Comparison) -> bool:
        if row.number is None or row.seeds >= MOST_SEEDS:
            return False
        ends = [end for part in comparison.rule.region(row.margin) for end in part]
        return any(abs(row.number - end) <= row.error for end in ends)  # false of an error that is no number

    return any(is_near(number_in(setting, comparison), comparison) for comparison in comparisons)
