"""Train a comparison look by look until it is decided, its seeds are spent or its budget is."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from normexp.claims.evidence.rates import MOST_WIDENINGS, at_edges, tuned_runs, widened_rates
from normexp.compare.answer import Answer
from normexp.compare.judged import Design, Look, look
from normexp.compare.training import Training, curve_of
from normexp.format import duration, pluralize, tell
from normexp.runs import read_summary
from normexp.sweeps.estimate import seconds_of_each
from normexp.sweeps.options import Options
from normexp.sweeps.run import launch_folder, run

OWN = "own"  # the measure of `rates.SCORES` by which runs are chosen


def compare(design: Design, training: Training, out: Path, command: str, options: Options) -> Answer | None:
    """Do all planned looks, or fewer. None if only the plan was asked for. Raises ValueError with one line."""
    looks: list[Look] = []
    added: list[str] = []
    ended, runs = f"all {design.looks[-1]} seeds are trained", pd.DataFrame()
    rates, wider = design.rates, design.rates
    for seeds in design.looks:
        if looks:
            new = (seeds - looks[-1].seeds) * len(design.norms) * len(design.levels) * max(len(rates), 1)
            if runs["seconds"].sum() + new * runs["seconds"].mean() > 60 * design.budget:
                ended = f"the budget of {pluralize(design.budget, 'minute')} of one core would not hold {seeds} seeds"
                break
        while True:
            planned = training.grid(design, rates, seeds)
            names, folder = [name_of(key) for key in planned], launch_folder(out)
            cells = run([*planned.values()], options, folder=folder, names=names, command=command, brief=True)
            if options.plan:
                tell(plan(design, planned))
                return None
            if crashed := [cell for cell in cells if cell.state == "crashed"]:
                raise ValueError(f"{pluralize(len(crashed), 'run')} crashed, the first: {crashed[0].error}")
            runs = training.read(planned)
            wider = tuple(float(f"{rate:.3g}") for rate in widened_rates(runs, OWN)) if rates else ()
            if len(wider) == len(rates) or len(added) == MOST_WIDENINGS:
                break
            more = [f"{rate:g}" for rate in wider if rate not in rates]
            added.append(
                f"{edges(runs, design)}: {' and '.join(more)} {'comes' if len(more) == 1 else 'come'} on top for every"
                f" arm, so {pluralize(len(planned), 'run')} become {len(planned) // len(rates) * len(wider)}"
            )
            tell(added[-1])
            rates = wider
        check_learned(runs)
        chosen = tuned_runs(runs, OWN)
        ended_well = chosen["status"] == "completed"
        results = chosen[["arm", "level", "seed", "value"]].assign(
            failed=~ended_well, curve=chosen["folder"].where(ended_well).map(curve_of, na_action="ignore")
        )
        guess = None if chosen["guess"].isna().all() else float(chosen["guess"].max())
        looks.append(look(results, design, guess))
        decisions = (f"{diff.arm.name} {diff.word}" for diff in looks[-1].differences)
        compared = f"{design.metric.name} against {design.baseline}"
        tell(f"look {len(looks)} of {len(design.looks)}, {seeds} seeds, {compared}: {', '.join(decisions)}")
        if not looks[-1].open:
            ended = "every difference is decided"
            break
    design = dataclasses.replace(design, rates=rates)
    notes = list(added)
    if len(wider) > len(rates):
        notes.append(f"{edges(runs, design)}, and there it stayed: a rate beyond may be better")
    if (runs["status"] == "diverged").any():
        notes.append(diverged(runs))
    minutes = f"{runs['seconds'].sum() / 60:.1f} minutes of training"
    facts = [" ".join(design.words), f"{len(looks)} of {pluralize(len(design.looks), 'look')}", minutes]
    last = dataclasses.replace(looks[-1], design=design)
    return Answer(last, results, notes, ended, facts, {"runs": runs, "chosen": chosen})


def name_of(key: tuple) -> str:
    """What tells a run of a comparison apart."""
    named = zip(("arm", "batch_size", "lr", "seed"), key, strict=True)
    return " ".join(f"{name}={value}" for name, value in named if value not in ("", None))


def plan(design: Design, planned: Mapping[tuple, Any]) -> str:
    """How many runs a comparison has at most, and their time: as the finished ones took, else as timed steps say."""
    most = len(planned) // design.looks[0] * design.looks[-1]
    done = [summary["seconds"] for spec in planned.values() if (summary := read_summary(spec.folder))]
    each = done or [sum(summary.values()) for summary in seconds_of_each(list(planned.values()))]
    looks = ", ".join(map(str, design.looks))
    time = f", about {duration(most * float(np.mean(each)))} of one core" if each else ""
    wider = ", and more where the best rate is the lowest or the highest" if design.rates else ""
    return (
        f"looks at {looks} seeds, until all is decided: at most {pluralize(most, 'run')}{time}{wider}; no look begins"
        f" after {pluralize(design.budget, 'minute')} of one core (budget=)"
    )


def edges(runs: pd.DataFrame, design: Design) -> str:
    """Which arms have their best rate at an edge of those tried, in how many seeds."""
    ends, phrases = {"lowest": runs["lr"].min(), "highest": runs["lr"].max()}, []
    for row in at_edges(runs, OWN).reset_index().to_dict("records"):
        where = [f"the {name} ({rate:g}) in {row[name]}" for name, rate in ends.items() if row[name]]
        seeds = pluralize(row["of"], "seed")
        phrases.append(f"{design.named(row['arm'], row['level'])} is {' and '.join(where)} of {seeds}")
    return f"the best rate of {', of '.join(phrases)}"


def diverged(runs: pd.DataFrame) -> str:
    """At which rates runs diverged."""
    bad = runs[runs["status"] == "diverged"]
    where = bad["arm"] + bad["lr"].map(" at rate {:g}".format).where(bad["lr"].notna(), "")
    counts = [f"{name}: {count}" for name, count in where.value_counts(sort=False).items()]
    return f"diverged runs: {'; '.join(counts)}"


def check_learned(runs: pd.DataFrame) -> None:
    """Raise ValueError with one line if every run failed: then there is nothing to judge."""
    if (runs["status"] == "completed").any():
        return
    rates, arms = sorted(runs["lr"].dropna().unique()), " and ".join(runs["arm"].unique())
    if not rates:
        raise ValueError(f"every run of {arms} failed: none gave a finite number; mend the training")
    why = "failed to learn; train longer, or write other rates="
    if (runs["status"] == "diverged").all():
        why = "diverged; write lower rates="
    raise ValueError(f"rates={','.join(f'{rate:g}' for rate in rates)}: every run of {arms} {why}")
