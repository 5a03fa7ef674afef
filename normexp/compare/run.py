"""Train a comparison look by look until it is decided, its seeds are spent or its budget is."""

import dataclasses
import itertools
import math
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.disk import row_of as numbers_of
from normexp.claims.evidence.rates import MOST_WIDENINGS, tuned_runs, widened_rates
from normexp.claims.judge.outcomes import Setting
from normexp.compare.judged import Design, Look, at, look
from normexp.config.run_spec import RunSpec, specs
from normexp.format import pluralize, tell
from normexp.runs import failed, finished_summary
from normexp.sweeps.options import Options
from normexp.sweeps.run import run


@dataclasses.dataclass(frozen=True)
class Result:
    """A finished comparison: its looks, its runs (`chosen`: each seed's own best) and why it ended."""

    design: Design
    looks: list[Look]
    runs: pd.DataFrame
    chosen: pd.DataFrame
    ended: str

    @property
    def last(self) -> Look:
        return self.looks[-1]


def compare(design: Design, out: Path, command: str, options: Options) -> Result | None:
    """Do all planned looks, or fewer. None if only the plan was asked for. Raises ValueError with one line."""
    looks: list[Look] = []
    ended, widenings, runs = f"all {design.looks[-1]} seeds are trained", 0, pd.DataFrame()
    rates = design.rates
    for seeds in design.looks:
        if looks:
            new = (seeds - looks[-1].seeds) * len(design.norms) * len(design.levels) * len(rates)
            if runs["seconds"].sum() + new * runs["seconds"].mean() > 60 * design.budget:
                ended = f"the budget of {design.budget:g} minutes of one core would not hold {seeds} seeds"
                break
        while True:
            planned = grid(design, rates, seeds, out)
            folder = out / "cache" / ".sweeps" / f"{datetime.now():%Y-%m-%d_%H-%M-%S-%f}"
            names = [name_of(spec) for spec in planned]
            cells = run(planned, options, folder=folder, names=names, command=command, brief=True)
            if options.plan:
                most = pluralize(len(grid(design, rates, design.looks[-1], out)), "run")
                tell(
                    f"looks at {', '.join(map(str, design.looks))} seeds, until all is decided: at most {most}"
                )
                return None
            if lost := [cell for cell in cells if cell.state == "crashed"]:
                raise ValueError(f"{pluralize(len(lost), 'run')} crashed, the first: {lost[0].error}")
            runs = pd.DataFrame(map(row_of, planned))
            wider = tuple(float(f"{rate:.3g}") for rate in widened_rates(runs, design.measure))
            if len(wider) == len(rates) or widenings == MOST_WIDENINGS:
                break
            rates, widenings = wider, widenings + 1
        check_learned(runs)
        chosen = tuned_runs(runs, design.measure)
        looks.append(look(setting_of(chosen, design), design))
        words = (f"{own.norm}{at(own.level)} {own.word}" for own in looks[-1].differences)
        compared = f"{design.measure} against {design.baseline}"
        tell(f"look {len(looks)} of {len(design.looks)}, {seeds} seeds, {compared}: {', '.join(words)}")
        if not looks[-1].open:
            ended = "every difference is decided"
            break
    return Result(design, looks, runs, chosen, ended)


def grid(design: Design, rates: tuple[float, ...], seeds: int, out: Path) -> list[RunSpec]:
    """The runs of a look: every norm, batch size, rate and seed."""
    own = [f"outputs={out / 'cache'}", "name=runs", "monitor=none"]
    return [
        spec
        for norm, level in itertools.product(design.norms, design.levels)
        for spec in specs(
            [*design.words, *own, f"norm={norm}", *([f"batch_size={level}"] if level else [])],
            seeds=range(seeds),
            rates=rates,
        )
    ]


def name_of(spec: RunSpec) -> str:
    """What tells a run of a comparison apart."""
    own = {key: spec.config[key] for key in ("batch_size", "lr", "seed")}
    return " ".join(f"{key}={value}" for key, value in {"norm": spec.choices["norm"], **own}.items())


def row_of(spec: RunSpec) -> dict[str, Any]:
    """A finished run as one flat row; its status is `failed` if it learned no more than guessing gives."""
    summary = finished_summary(spec.folder)
    row, guess = numbers_of(summary), summary["chance_loss"] or math.inf
    learned = row["train_loss"] < guess and not failed(summary)
    return row | {
        "setting": "",
        "arm": spec.choices["norm"],
        "level": spec.config["batch_size"],
        **{key: spec.config[key] for key in ("lr", "seed")},
        "status": "failed" if not learned and row["status"] == "completed" else row["status"],
        "guess": guess,
        "folder": str(spec.folder),
    }


def check_learned(runs: pd.DataFrame) -> None:
    """Raise ValueError with one line if every run failed: then there is nothing to judge."""
    if (runs["status"] == "completed").any():
        return
    rates = ",".join(f"{rate:g}" for rate in sorted(runs["lr"].unique()))
    diverged = (runs["status"] == "diverged").all()
    why = (
        "diverged; write lower rates=" if diverged else "failed to learn; train longer, or write other rates="
    )
    raise ValueError(f"rates={rates}: every run of {' and '.join(runs['arm'].unique())} {why}")


def setting_of(chosen: pd.DataFrame, design: Design) -> Setting:
    """The chosen runs for the judge."""
    value = 1 - chosen["test_accuracy"] if design.measure == "error" else chosen["test_loss"]
    level = "" if design.levels == ("",) else chosen["level"]
    guess = float(chosen["guess"].max())
    lost = chosen["status"] != "completed"
    return Setting.of_table(
        chosen.assign(factor=level, value=value.astype(float), failed=lost),
        "here",
        measure=design.measure,
        guess=guess if design.measure == "loss" else 1 - math.exp(-guess),
    )
