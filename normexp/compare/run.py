"""Train a comparison look by look until it is decided, its seeds are spent or its budget is."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from normexp.claims.evidence.choose_rates import tuned_runs
from normexp.claims.evidence.plan import Known, most_missing, plan
from normexp.claims.rounds import Rounds
from normexp.compare.design import Design
from normexp.compare.judged import Look, at, look
from normexp.format import pluralize
from normexp.sweeps.estimate import Estimates, core_minutes
from normexp.sweeps.options import Options


@dataclasses.dataclass(frozen=True)
class Result:
    """A finished comparison: its looks, its runs (`chosen`: each seed's own best) and why it ended."""

    design: Design
    looks: list[Look]
    runs: pd.DataFrame
    chosen: pd.DataFrame
    ended: str
    measure: str
    seconds: float

    @property
    def last(self) -> Look:
        return self.looks[-1]


def compare(
    design: Design, out: Path, command: str, options: Options, say: Callable[[str], None] = print
) -> Result | None:
    """Do all planned looks, or fewer. None if only the plan was asked for. Raises ValueError with one line."""
    looks: list[Look] = []
    spent, estimates, ended = 0.0, Estimates(), ""
    for place, seeds in enumerate(design.looks):
        claim = dataclasses.replace(design.claim, seeds=seeds)
        rounds = Rounds([claim], out, command=command)
        known = require(rounds, claim.id)
        cost = seconds_of(known, estimates)
        if place == 0:
            for line in cost_lines(design, known, estimates):
                say(line)
            if options.plan:
                return None
        elif spent + cost > 60 * design.budget:
            held = f"the next look at {seeds} seeds"
            ended = f"the budget of {design.budget:g} minutes of one core would not hold {held}"
            break
        rounds.run(options, lambda claim, known: None)
        known = require(rounds, claim.id)
        runs, _ = known.cell_runs(known.claim.cells["here"], known.claim.seed_range)
        require_one(bool((runs["status"] == "completed").any()), runs, "diverged; write lower rates=")
        setting = known("", claim.settings)[0]
        learned = not all(outcomes.failed.all() for outcomes in setting.outcomes.values())
        require_one(learned, runs, "failed to learn; train longer, or write other rates=")
        looks.append(look(setting, known.claim, len(design.looks)))
        spent += cost
        words = ", ".join(
            f"{difference.norm}{at(difference.level)}: {difference.word}"
            for difference in looks[-1].differences
        )
        say(f"look {place + 1} of {len(design.looks)}, {seeds} seeds: {words}")
        if looks[-1].decided:
            ended = "every difference is decided"
            break
    ended = ended or f"all {design.looks[-1]} seeds are trained"
    chosen = tuned_runs(runs, known.measure)
    return Result(design, looks, runs, chosen, ended, known.measure, float(runs["seconds"].sum()))


def require(rounds: Rounds, name: str) -> Known:
    """What is known of the claim. Raises ValueError with the reason if it cannot run."""
    if name in rounds.failed:
        raise ValueError(rounds.failed[name])
    return rounds.known[name]


def require_one(good: bool, runs: pd.DataFrame, failed: str) -> None:
    """Raise ValueError with one line if no run is good: then there is nothing to judge."""
    if not good:
        rates = ",".join(f"{rate:g}" for rate in sorted(runs["lr"].unique()))
        raise ValueError(f"rates={rates}: every run of {' and '.join(runs['norm'].unique())} {failed}")


def seconds_of(known: Known, estimates: Estimates) -> float:
    """Seconds of one core for the runs that are missing; 0 for those on a GPU, which nobody can time beforehand."""
    return sum(estimates.seconds(spec) or 0.0 for spec in plan(known.claim, known))


def cost_lines(design: Design, known: Known, estimates: Estimates) -> list[str]:
    """The cost, before anything starts: of the first look, and of all."""
    missing, seconds = most_missing(known.claim, known), seconds_of(known, estimates)
    rates = known.claim.cells["here"].rates
    per_seed, looks = len(known.claim.arms) * len(known.claim.levels) * len(rates), design.looks
    shown = ", ".join(f"{rate:g}" for rate in rates)
    lines = [
        f"plan: {', '.join(known.claim.arms)} at {pluralize(len(rates), 'rate')} ({shown}), "
        "each seed at its own best on validation",
        f"  first look, {looks[0]} seeds: {missing} of {per_seed * looks[0]} runs to train, {core_minutes(seconds)}",
    ]
    if len(looks) > 1 and missing:
        most = core_minutes(seconds / missing * per_seed * looks[-1])
        lines.append(
            f"  looks at {', '.join(map(str, looks))} seeds, until all differences are decided: at most "
            f"{per_seed * looks[-1]} runs, {most}; budget {design.budget:g} minutes; more where a grid of rates widens"
        )
    return lines
