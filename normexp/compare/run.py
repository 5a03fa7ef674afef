"""Train a comparison look by look until it is decided, its seeds are spent or its budget is."""

import dataclasses
import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.rates import EDGE_SHARE, MOST_WIDENINGS, tuned_runs, widened_rates
from normexp.compare.judged import Design, Look, Results, look
from normexp.compare.sentences import at
from normexp.compare.training import Training, chosen_curves
from normexp.format import pluralize, tell
from normexp.runs.files import write_json
from normexp.sweeps.options import Options
from normexp.sweeps.run import run

OWN = "own"  # the measure of `rates.SCORES` by which runs are chosen
DESIGN = "design.json"


@dataclasses.dataclass(frozen=True)
class Trained:
    """A finished comparison: its looks, its runs (`chosen`: each seed's own best), why it ended, what to note, and
    why rates were `added`."""

    design: Design
    looks: list[Look]
    runs: pd.DataFrame
    chosen: pd.DataFrame
    results: Results
    ended: str
    notes: tuple[str, ...]
    added: tuple[str, ...]

    @property
    def last(self) -> Look:
        return self.looks[-1]


def compare(design: Design, training: Training, out: Path, command: str, options: Options) -> Trained | None:
    """Do all planned looks, or fewer. None if only the plan was asked for. Raises ValueError with one line."""
    looks: list[Look] = []
    added: list[str] = []
    ended, widenings, runs = f"all {design.looks[-1]} seeds are trained", 0, pd.DataFrame()
    rates, wider = design.rates, design.rates
    for seeds in design.looks:
        if looks:
            new = (seeds - looks[-1].seeds) * len(design.norms) * len(design.levels) * max(len(rates), 1)
            if runs["seconds"].sum() + new * runs["seconds"].mean() > 60 * design.budget:
                ended = f"the budget of {design.budget:g} minutes of one core would not hold {seeds} seeds"
                break
        while True:
            planned = training.grid(design.norms, design.levels, rates, seeds)
            folder = out / "cache" / ".sweeps" / f"{datetime.now():%Y-%m-%d_%H-%M-%S-%f}"
            names = [name_of(spec) for spec in planned]
            cells = run(planned, options, folder=folder, names=names, command=command, brief=True)
            if options.plan:
                most = len(planned) // seeds * design.looks[-1]
                looks_at = ", ".join(map(str, design.looks))
                tell(
                    f"looks at {looks_at} seeds, until all is decided: at most {pluralize(most, 'run')}, and more where"
                    " the best rate is the lowest or the highest"
                )
                return None
            if lost := [cell for cell in cells if cell.state == "crashed"]:
                raise ValueError(f"{pluralize(len(lost), 'run')} crashed, the first: {lost[0].error}")
            runs = pd.DataFrame(map(training.row, planned)).assign(setting="")
            if design.levels == ("",):
                runs["level"] = ""
            wider = tuple(float(f"{rate:.3g}") for rate in widened_rates(runs, OWN)) if rates else ()
            if len(wider) == len(rates) or widenings == MOST_WIDENINGS:
                break
            more = len(planned) // len(rates) * len(wider)
            added.append(
                f"{edges(runs, design)}: {', '.join(f'{own:g}' for own in wider if own not in rates)} comes on top"
                f" for every arm, so {pluralize(len(planned), 'run')} become {more}"
            )
            tell(added[-1])
            rates, widenings = wider, widenings + 1
        check_learned(runs)
        chosen = tuned_runs(runs, OWN)
        results = results_of(chosen, training)
        looks.append(look(results, design))
        words = (f"{own.norm}{at(design, own.level)} {own.word}" for own in looks[-1].differences)
        compared = f"{design.metric.name} against {design.baseline}"
        tell(f"look {len(looks)} of {len(design.looks)}, {seeds} seeds, {compared}: {', '.join(words)}")
        if not looks[-1].open:
            ended = "every difference is decided"
            break
    final = dataclasses.replace(design, rates=rates)
    still = len(wider) > len(rates)
    notes = [f"{edges(runs, final)}, and there it stayed: a rate beyond may be better"] if still else []
    notes += [diverged(runs)] if (runs["status"] == "diverged").any() else []
    return Trained(final, looks, runs, chosen, results, ended, tuple(notes), tuple(added))


def name_of(spec: Any) -> str:
    """What tells a run of a comparison apart."""
    if hasattr(spec, "arguments"):
        return " ".join(f"{key}={value}" for key, value in spec.arguments.items())
    own = {key: spec.config[key] for key in ("batch_size", "lr", "seed")}
    return " ".join(f"{key}={value}" for key, value in {"norm": spec.choices["norm"], **own}.items())


def edges(runs: pd.DataFrame, design: Design) -> str:
    """Which arms have their best rate at an edge of those tried, in how many seeds."""
    best = tuned_runs(runs, OWN)
    said = []
    ends = {"lowest": runs["lr"].min(), "highest": runs["lr"].max()}
    for (arm, level), rows in best[best["status"] == "completed"].groupby(["arm", "level"], sort=False):
        counts = {name: int((rows["lr"] == edge).sum()) for name, edge in ends.items()}
        if sum(counts.values()) > EDGE_SHARE * len(rows):
            where = [f"the {name} ({ends[name]:g}) in {count}" for name, count in counts.items() if count]
            said.append(f"{arm}{at(design, level)} is {' and '.join(where)} of {len(rows)} seeds")
    return f"the best rate of {', of '.join(said)}"


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
    rates = ",".join(f"{rate:g}" for rate in sorted(runs["lr"].dropna().unique()))
    why = "failed to learn; train longer, or write other rates="
    if (runs["status"] == "diverged").all():
        why = "diverged; write lower rates="
    raise ValueError(f"rates={rates}: every run of {' and '.join(runs['arm'].unique())} {why}")


def results_of(chosen: pd.DataFrame, training: Training) -> Results:
    """The chosen runs for the judge."""
    guess = float(chosen["guess"].max())
    runs = chosen[["arm", "level", "seed", "value"]].assign(failed=chosen["status"] != "completed")
    return Results(
        runs,
        guess=None if guess != guess else guess,
        curves=chosen_curves(training, chosen),
        curve=training.curve,
    )


def own_folder(out: Path, name: str, design: Design) -> Path:
    """out/NAME, or out/NAME-2, ... where that has the page of another comparison. It notes whose page it has."""
    content = dataclasses.asdict(dataclasses.replace(design, name="", budget=0.0))
    digest, number, place = hashlib.sha256(json.dumps(content).encode()).hexdigest(), 1, out / name
    while (place / DESIGN).exists() and json.loads((place / DESIGN).read_text()).get("digest") != digest:
        number += 1
        place = out / f"{name}-{number}"
    place.mkdir(parents=True, exist_ok=True)
    write_json(place / DESIGN, {"digest": digest, **content})
    return place
