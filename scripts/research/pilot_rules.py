"""How pilots find a setting's length and learning rates: from finished runs to the next ones, or to an end.

Every arm first searches its best rate at the first length, on validation. Then the length doubles, each arm at that
rate, until every arm that did not fail is fitted: its error on the training split is below a share of guessing's
(images), or twice the length lowers its error (text: its loss) on validation by less than a share. A bank may add that
a text is not fitted while counts of a few tokens predict it better. An arm that is fitted at one length is fitted at
all longer ones. No rule compares arms.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from normexp.claims.evidence.rates import neighbor
from normexp.claims.spec.population import Length


@dataclass(frozen=True, order=True)
class PilotRun:
    """A run that a pilot asks for."""

    norm: str
    rate: float
    updates: int


@dataclass(frozen=True)
class Result:
    """What a finished run came to: `score`, error on validation (of a text its loss); `learned`, error on the training
    split over that of guessing (infinite of a text, since none is learned); and whether it `failed`."""

    score: float
    learned: float
    failed: bool


@dataclass(frozen=True)
class Rules:
    """The rules of one setting: the rates of its first search, the first length in updates, the core-seconds of an
    update, and the score of counts, above which no arm is fitted by what it gains."""

    norms: Sequence[str]
    rates: Sequence[float]
    start: int
    step_seconds: float
    length: Length
    most_score: float = math.inf

    def costs_too_much(self, updates: int) -> bool:
        return updates * self.step_seconds > self.length.seconds


@dataclass
class Progress:
    """Where a pilot is: the runs `to_train` next, or none at an end; then the length in `updates`, or why it is
    `rejected`. `best`: rate of each arm; `fitted`: the length at which an arm first was, without those that failed."""

    to_train: list[PilotRun] = field(default_factory=list)
    updates: int = 0
    best: dict[str, float] = field(default_factory=dict)
    fitted: dict[str, int] = field(default_factory=dict)
    rejected: str = ""


def progress(rules: Rules, results: Mapping[PilotRun, Result]) -> Progress:
    """What the finished runs say; it is asked again when the wanted ones are finished."""
    state, cost = Progress(), rules.start * rules.step_seconds
    if cost > rules.length.start_seconds:
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
    for left in range(rules.length.widenings, -1, -1):
        runs = [PilotRun(norm, rate, rules.start) for rate in grid]
        if missing := [run for run in runs if run not in results]:
            state.to_train += missing
            return
        best = min(runs, key=lambda run: (results[run].failed, results[run].score, run.rate))
        state.best[norm] = best.rate
        if not left or results[best].failed or best.rate not in (grid[0], grid[-1]):
            return
        grid = sorted([*grid, neighbor(best.rate, 1 if best.rate == grid[-1] else -1)])


def _fit(updates: int, rules: Rules, results: Mapping[PilotRun, Result], state: Progress) -> bool:
    """Whether every arm that did not fail at this length is fitted; else `state` has what is missing."""
    if rules.costs_too_much(updates):
        state.rejected = f"not fitted at {updates // 2} updates, and a run of {updates} would cost too much"
        return False
    at = {norm: PilotRun(norm, state.best[norm], updates) for norm in rules.norms if norm not in state.fitted}
    if missing := [run for run in at.values() if run not in results]:
        state.to_train += missing
        return False
    trained = [norm for norm, run in at.items() if not results[run].failed]
    state.fitted |= {norm: updates for norm in trained if results[at[norm]].learned < rules.length.learned}
    doubled = {n: PilotRun(n, state.best[n], 2 * updates) for n in trained if n not in state.fitted}
    if doubled and rules.costs_too_much(2 * updates):
        cost = 2 * updates * rules.step_seconds
        state.rejected = (
            f"{', '.join(doubled)} not known to be fitted at {updates} updates, and twice as many would "
        )
        state.rejected += f"cost {cost:.0f} core-seconds"
        return False
    if missing := [run for run in doubled.values() if run not in results]:
        state.to_train += missing
        return False
    for norm, run in doubled.items():
        score = results[at[norm]].score
        gains_little = results[run].failed or results[run].score > (1 - rules.length.gain) * score
        if gains_little and score < rules.most_score:
            state.fitted[norm] = updates
    return bool(state.fitted) and all(norm in state.fitted for norm in trained)
