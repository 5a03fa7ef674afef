"""What comes out of a judgement, as values: the verdict of a claim, and under it a count for each comparison over
settings, or a judgement for each in one setting. `normexp.claims.words` says it in English."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.estimate import ALPHA, Ends, SeedMean
from normexp.claims.judge.kinds import Region
from normexp.claims.judge.moderators import Moderator
from normexp.claims.judge.outcomes import Failures
from normexp.claims.spec.claim import Claim
from normexp.runs.table import FEWEST_FOR_INTERVAL

FEWEST_SETTINGS = 6  # drawn settings for a word


class Word(StrEnum):
    """What a verdict says. docs/words.md explains each."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    DIVIDED = "divided"
    UNDECIDED = "undecided"
    NO_COUNTEREXAMPLE = "no counterexample"
    HOLDS_HERE = "holds here"
    NOT_SHOWN_HERE = "not shown here"
    COUNTED = "counted"  # of settings that make no word about a population
    BEGUN = "begun"  # fewer drawn settings are finished than the claim asks for
    NOT_RUN = "not yet run"
    WITHDRAWN = "withdrawn"  # as worded, by its file


@dataclass(frozen=True, kw_only=True)
class Share:
    """In how many settings a comparison holds."""

    holds: int  # settings in which it holds
    asked: int  # settings that have a number
    share: float  # `holds / asked`; nan of none
    share_interval: Ends  # Clopper and Pearson's interval of the share


@dataclass(frozen=True, kw_only=True)
class Signs:
    """In how many settings the effect has the claimed sign, whatever its size. An effect of 0 has none."""

    claimed: int  # settings with the claimed sign
    of: int  # settings with a sign
    p: float  # exact two-sided binomial p against one half


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The count over the seeds at which every compared run trained."""

    n: int  # settings that have such a seed
    holds: int  # settings in which it holds
    median: float | None  # of their effects; None without one


@dataclass(frozen=True, kw_only=True)
class SettingRow:
    """One comparison in one setting."""

    name: str  # of the setting
    # The effect: the mean over seeds of the arm's value minus the baseline's, or of their log ratio; a failed
    # run counts as a guess. None if every run failed, or one did and the value of guessing is not known.
    # Or if values are lower bounds, so that the effect may lie on another side.
    number: float | None
    error: float  # its standard error over seeds; nan with one seed
    margin: float  # the smallest effect that matters here
    side: str  # `beyond` the margin, `within`, `opposite`, or `failed` where there is no number
    trained: float | None  # the effect over the seeds at which every run trained; None if there is none
    seeds: int  # number of pairs
    failures: Mapping[str, int]  # arm -> failed runs, over all levels
    holds: bool = False  # whether the comparison is true here; `side` alone does not say it of an equivalence
    labels: Mapping[str, str] = field(default_factory=dict)  # data, model, depth and the like
    learned: bool | None = None  # whether networks learn this setting; None: not known

    @property
    def interval(self) -> Ends:
        """Student's t interval of the effect over seeds, with 95%; infinite with fewer than three seeds."""
        if self.number is None or self.seeds < FEWEST_FOR_INTERVAL:
            return -math.inf, math.inf
        return SeedMean(self.number, self.error, self.seeds - 1).interval(1 - ALPHA)


@dataclass(frozen=True, kw_only=True)
class Count(Share):
    """One comparison over settings."""

    comparison: Comparison
    n: int  # settings
    beyond: int  # settings in which the effect lies beyond the margin, as the sentence says
    within: int  # settings in which it lies within
    opposite: int  # settings in which it lies beyond the margin the other way
    failed: int  # in which it cannot be asked: without a number, or with a bound that decides nothing
    median: float | None  # of the effects; None without one
    median_interval: Ends | None  # of the sign test
    direction: Signs | None  # None for a sentence that claims no sign
    learned: Share | None  # among settings that networks learn; None where that is known of no setting
    others: Share | None  # among the rest
    # Settings in which an arm and its copy with other seeds are expected to be equivalent; None if not asked.
    ceiling: float | None
    moderators: tuple[Moderator, ...]  # what could be tested for a dependence
    trained: Trained  # the second line, given that every run trained
    failures: Mapping[str, int]  # arm -> failed runs
    runs: Mapping[str, int]  # arm -> runs
    unfitted: Mapping[str, int]  # arm -> settings in which it had not learned to an end
    settings: tuple[SettingRow, ...]  # the settings behind the counts
    word: Word = Word.COUNTED  # over enough drawn settings supported, refuted, divided or undecided
    p: float | None = None  # of the share against one half, where there is a word
    unreached: Mapping[str, int] = field(default_factory=dict)  # arm -> runs that never reached their target

    @property
    def clear(self) -> tuple[int, int, int] | None:
        """Settings whose own interval lies wholly where the sentence is true, wholly elsewhere, and neither; None where
        one of them has no interval."""
        rows = [row for row in self.settings if row.number is not None]
        if not rows or min(row.seeds for row in rows) < FEWEST_FOR_INTERVAL:
            return None
        rule = self.comparison.rule
        there = sum(_lies_in(row.interval, rule.region(row.margin)) for row in rows)
        elsewhere = sum(_lies_in(row.interval, rule.complement(row.margin)) for row in rows)
        return there, elsewhere, len(rows) - there - elsewhere


def _lies_in(interval: Ends, region: Region) -> bool:
    first, last = interval
    return math.isfinite(first) and any(low <= first and last <= high for low, high in region)


@dataclass(frozen=True, kw_only=True)
class Check(Count):
    """The count of a manipulation check."""

    measure: str  # the cause that a causal sentence names
    held: bool  # whether it was changed: in most drawn settings, or in all hand-picked ones


@dataclass(frozen=True)
class Case:
    """One single value of a universal sentence."""

    arm: str
    level: Any  # of the factor; "" if there is none
    seed: int
    text: str  # what a search tried; empty of other cases


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """One comparison in one setting: of a universal sentence all single values, else the mean over seeds."""

    comparison: Comparison
    word: Word  # supported, refuted or undecided
    effect: float  # the mean; of a universal sentence the value that fails most, or passes most narrowly
    interval: Ends  # Student's t interval of the mean; of a universal sentence the range of all values
    n_seeds: int  # seeds behind the effect
    seeds: int  # seeds that were run
    trained: bool = False  # whether the values are of trained networks; else they are exact
    # Whether all effects of trained networks are equal, so that the measure resolves too little.
    unresolved: bool = False
    cases: int = 0  # single values of a universal sentence; 0 of another
    failing: int = 0  # those outside their bound
    worst: Case | None = None  # the case that fails most, or passes most narrowly
    alone: bool = False  # whether all that fail have the level of the worst, though the factor has others
    # Arm -> level -> smallest and largest of its single values.
    ranges: Mapping[str, Mapping[str, Ends]] = field(default_factory=dict)
    unreached: Mapping[str, int] = field(default_factory=dict)  # arm -> runs that never reached their target


def deciding(judgements: Sequence[Judgement]) -> Judgement:
    """The judgement that decides. A sentence holds if all its comparisons hold, and falls with one of them."""
    order = (Word.REFUTED, Word.UNDECIDED, Word.SUPPORTED)
    return min(judgements, key=lambda judgement: order.index(judgement.word))


@dataclass(frozen=True, kw_only=True)
class Registered:
    """The row of the registry under which a verdict stands."""

    row: int
    date: str
    alpha: float


@dataclass(frozen=True, kw_only=True)
class RunsBeforeRegistration:
    """Runs, at all rates, that had started before the row was written."""

    early: int
    of: int  # all runs


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The runs behind a verdict."""

    count: int
    training_seconds: float


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict of a claim. `counts` has its comparisons over settings, `judgements` those in one setting."""

    claim: Claim
    word: Word
    confidence: float  # of all intervals; 1 for the range of a universal sentence
    # Arm -> setting and level -> mean value over the seeds at which it trained.
    arms: Mapping[str, Mapping[str, float]]
    failures: Mapping[str, Failures]
    counts: tuple[Count, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    cases: int = 0  # single values of a universal sentence
    repeated: int = 0  # draws that were the same network as an earlier one, which are passed over
    manipulation: Check | None = None
    registered: Registered | None = None
    unregistered_because: str = ""
    late: RunsBeforeRegistration | None = None
    runs: Cost | None = None  # None without trained networks
    numerics: tuple[int, ...] = ()  # versions of arithmetic that computed them
    devices: tuple[str, ...] = ()  # if runs of several are compared in one setting
    seconds: float = 0.0
    command: str = ""

    @property
    def comparisons(self) -> tuple[Count, ...] | tuple[Judgement, ...]:
        """The result of each comparison."""
        return self.counts or self.judgements

    @property
    def comparison(self) -> Comparison:
        """The first over settings; in one setting the one that decides."""
        return self.counts[0].comparison if self.counts else self.deciding.comparison

    @property
    def deciding(self) -> Judgement:
        """The judgement that decides in one setting."""
        return deciding(self.judgements)

    @property
    def p(self) -> float | None:
        """Of the share of its one comparison, where there is a word."""
        return self.counts[0].p if len(self.counts) == 1 and not self.claim.withdrawn else None

    @property
    def needed(self) -> int:
        """Drawn settings without which there is no word."""
        return self.claim.first - self.repeated

    @property
    def effect(self) -> float | None:
        """The median over drawn settings, or the effect in one setting."""
        if not self.counts:
            return self.deciding.effect
        return self.counts[0].median if self.claim.drawn else None

    @property
    def interval(self) -> Ends | None:
        """Of the effect."""
        if not self.counts:
            return self.deciding.interval
        return self.counts[0].median_interval if self.claim.drawn else None

    @property
    def settings(self) -> tuple[SettingRow, ...]:
        """The rows of the first comparison over settings."""
        return self.counts[0].settings if self.counts else ()

    @property
    def n_seeds(self) -> int:
        """Seeds behind the effect; over settings the most of one."""
        if not self.counts:
            return self.deciding.n_seeds
        return max((row.seeds for row in self.settings), default=0)

    @property
    def as_expected(self) -> bool | None:
        """Whether it is the word that mathematics gives; None where nothing is expected, or there is no such word."""
        no_word = self.word in (Word.COUNTED, Word.BEGUN, Word.NOT_SHOWN_HERE, Word.WITHDRAWN)
        if no_word or self.claim.expected is None:
            return None
        return self.claim.expected == (Word.SUPPORTED if self.word == Word.HOLDS_HERE else self.word)
