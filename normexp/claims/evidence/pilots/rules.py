"""How pilots find a setting's length and learning rates: from finished runs to the next ones, or to an end.

Every arm first searches its best rate at the first length, on validation. Then the length doubles, each arm at that
rate, until every arm that did not fail is fitted: its error on the training split is below a share of guessing's
(images), or twice the length lowers its error (text: its loss) on validation by less than a share. A bank may add that
a text is not fitted while counts of a few tokens in a row predict it better: a network that has learned pairs of
characters stays at their loss for a while, where twice the length gains little, and learns more afterwards. An arm
that is fitted at one length is fitted at all longer ones. No rule compares arms.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STEPS = (1.0, 3.0)  # of learning rates in each power of ten


@dataclass(frozen=True, order=True)
class PilotRun:
    """A run that a pilot asks for."""

    norm: str
    rate: float
    updates: int


@dataclass(frozen=True)
class Result:
    """What a finished run came to.

    Attributes:
        score: error on validation; of a text, its loss.
        learned: error on the training split divided by that of guessing; of a text infinite, since no text is learned.
        failed: by the rule of `sources.failed_runs`.
    """

    score: float
    learned: float
    failed: bool


@dataclass(frozen=True)
class Rules:
    """The rules of one setting.

    Args:
        rates: of the first search.
        start: the first length in updates.
        step_seconds: core-seconds of an update, the mean over the arms.
        length: as in the bank's yaml.
        most_score: an arm whose score is not below it is not fitted by what it gains.
    """

    norms: Sequence[str]
    rates: Sequence[float]
    start: int
    step_seconds: float
    length: Mapping[str, float]
    most_score: float = math.inf

    def costs_too_much(self, updates: int) -> bool:
        return updates * self.step_seconds > self.length["seconds"]


@dataclass
class Progress:
    """Where a pilot is.

    Attributes:
        to_train: the runs to train next; empty at an end.
        updates: the length that was found, or 0.
        best: the best rate of each arm at the first length.
        fitted: arm -> the length at which it was fitted first; arms that failed are absent.
        rejected: why the setting is rejected, or nothing.
    """

    to_train: list[PilotRun] = field(default_factory=list)
    updates: int = 0
    best: dict[str, float] = field(default_factory=dict)
    fitted: dict[str, int] = field(default_factory=dict)
    rejected: str = ""


def progress(rules: Rules, results: Mapping[PilotRun, Result]) -> Progress:
    """What the finished runs say; it is asked again when the wanted ones are finished."""
    state = Progress()
    cost = rules.start * rules.step_seconds
    if cost > rules.length["start_seconds"]:
        state.rejected = f"the first length, {rules.start} updates, costs {cost:.0f} core-seconds"
        return state
    for norm in rules.norms:
        _search(norm, rules, results, state)
    updates = rules.start
    while not state.to_train and not state.rejected:
        if _fit(updates, rules, results, state):
            state.updates = updates
            break
        updates *= 2
    return state


def _search(norm: str, rules: Rules, results: Mapping[PilotRun, Result], state: Progress) -> None:
    """The best rate of an arm at the first length. While it is the lowest or the highest, the grid grows there."""
    grid = sorted(rules.rates)
    for left in range(int(rules.length["widenings"]), -1, -1):
        runs = [PilotRun(norm, rate, rules.start) for rate in grid]
        if missing := [run for run in runs if run not in results]:
            state.to_train += missing
            return
        best = min(runs, key=lambda run: (results[run].failed, _number(results[run].score), run.rate))
        state.best[norm] = best.rate
        if not left or results[best].failed or best.rate not in (grid[0], grid[-1]):
            return
        grid = sorted([*grid, neighbor(best.rate, 1 if best.rate == grid[-1] else -1)])


def _fit(updates: int, rules: Rules, results: Mapping[PilotRun, Result], state: Progress) -> bool:
    """Whether every arm that did not fail at this length is fitted; else `state` has what is missing."""
    if rules.costs_too_much(updates):
        state.rejected = f"not fitted at {updates // 2} updates, and a run of {updates} would cost too much"
        return False
    open_ = [norm for norm in rules.norms if norm not in state.fitted]
    runs = {norm: PilotRun(norm, state.best[norm], updates) for norm in open_}
    if missing := [run for run in runs.values() if run not in results]:
        state.to_train += missing
        return False
    trained = [norm for norm in open_ if not results[runs[norm]].failed]
    for norm in trained:
        if results[runs[norm]].learned < rules.length["learned"]:
            state.fitted[norm] = updates
    doubled = {
        norm: PilotRun(norm, state.best[norm], 2 * updates) for norm in trained if norm not in state.fitted
    }
    if doubled and rules.costs_too_much(2 * updates):
        state.rejected = (
            f"{', '.join(doubled)} not known to be fitted at {updates} updates, and twice as many would "
        )
        state.rejected += f"cost {2 * updates * rules.step_seconds:.0f} core-seconds"
        scores = {norm: results[runs[norm]].score for norm in doubled}
        if behind := [f"{n} ({score:.3g})" for n, score in scores.items() if score >= rules.most_score]:
            state.rejected += f"; counts ({rules.most_score:.3g}) predict better than {', '.join(behind)}"
        return False
    if missing := [run for run in doubled.values() if run not in results]:
        state.to_train += missing
        return False
    for norm, run in doubled.items():
        score = results[runs[norm]].score
        gains_little = results[run].failed or _number(results[run].score) > (1 - rules.length["gain"]) * score
        if gains_little and score < rules.most_score:
            state.fitted[norm] = updates
    return bool(state.fitted) and all(norm in state.fitted for norm in trained)


def neighbor(rate: float, steps: int) -> float:
    """The next rate of 0.001, 0.003, 0.01, 0.03, ... in this direction."""
    place = round(math.log10(rate) * len(STEPS)) + steps
    power, step = divmod(place, len(STEPS))
    return float(f"{STEPS[step] * 10.0**power:g}")


def three_rates(best: float) -> list[float]:
    """The rates of the grid round the best one."""
    return [neighbor(best, -1), best, neighbor(best, 1)]


def _number(score: float) -> float:
    return score if math.isfinite(score) else math.inf


def shown(state: Progress, rules: Rules) -> dict[str, Any]:
    """The end of a pilot as plain values."""
    if state.rejected:
        return {"rejected": state.rejected}
    return {
        "updates": state.updates,
        "rates": {norm: three_rates(rate) for norm, rate in state.best.items()},
        "fitted": state.fitted,
        "failed": [norm for norm in rules.norms if norm not in state.fitted],
    }
