"""Named figures: what makers of them use, and the work of the command: NAME.png and .json of each in a folder,
and a page that shows all.
"""

import contextlib
import importlib
import io
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from normexp.config.process import command
from normexp.figures.plot import Line, Plot, draw
from normexp.runs.files import write_text

if TYPE_CHECKING:
    import pandas as pd

    from normexp.api import Run
    from normexp.claims.laws.sites import SiteNetwork

MAKERS: "dict[str, Callable[[Lab], Plot]]" = {}


def figure(make: "Callable[[Lab], Plot]") -> "Callable[[Lab], Plot]":
    """Register a maker under the name of its function, which has a text in figures.yaml."""
    MAKERS[make.__name__] = make
    return make


@dataclass(frozen=True)
class Named:
    """A named figure.

    Attributes:
        title: what it asks.
        source: the figure that it follows, with its paper.
        paper: one sentence: what the paper's figure shows, and where this one differs.
        make: a `Lab` -> its numbers.
    """

    name: str
    title: str
    source: str
    paper: str
    make: "Callable[[Lab], Plot]"


@dataclass
class Lab:
    """Where a figure gets its numbers. Its runs lie under `folder`, so that the second time they are only read.

    Attributes:
        small: tiny sizes, which show that a figure works and nothing else.
        say: is told the words of each run before it starts.
    """

    folder: Path
    small: bool = False
    say: Callable[[str], None] = lambda run: None
    runs: list[Path] = field(default_factory=list)

    def size(self, full: int, small: int) -> int:
        """A number of steps, units, seeds or layers."""
        return small if self.small else full

    def train(self, *overrides: str, seeds: int = 1, rates: "Sequence[float] | None" = None) -> "list[Run]":
        """The runs that the words of `normexp train` ask for, trained if they are not there. Spaces separate words.

        Args:
            seeds: train with the seeds from 0 to that.
            rates: train at each of these learning rates.
        """
        from normexp.api import train

        asked = " ".join(overrides).split()
        self.say(" ".join(asked))
        with contextlib.redirect_stdout(io.StringIO()):
            shared = (*asked, f"outputs={self.folder}", "name=runs", "threads=1")
            runs = [
                train(*shared, f"seed={seed}", *(() if rate is None else (f"lr={rate}",)))
                for rate in rates or (None,)
                for seed in range(seeds)
            ]
        self.runs += [run.folder for run in runs if run.folder]
        return runs

    def network(self, *overrides: str, seed: int = 0) -> "SiteNetwork":
        """A network with its initial weights."""
        from normexp.claims.evidence.initial import network

        return network(tuple(" ".join(overrides).split()), seed)


def trained(run: "Run") -> Any:
    """A finished run's parts (`normexp.training.build.Parts`) with its last weights."""
    from normexp.training import result

    assert run.folder is not None
    return result.trained(run.folder, run.summary)


def recorded(runs: "Iterable[Run]", metric: str) -> "pd.DataFrame":
    """What runs recorded of the metrics that match a regular expression: step, metric, value, seed, one row each."""
    import pandas as pd

    rows = pd.concat([run.metrics for run in runs])
    return rows[rows["metric"].astype(str).str.fullmatch(metric)].sort_values("step")


def over_steps(runs: "Sequence[Run]", metric: str, name: str, scale: float = 1.0) -> Line:
    """The mean over runs of a metric against the step; the band of several is from smallest to largest."""
    values = recorded(runs, metric).groupby("step")["value"].agg(["mean", "min", "max"]) * scale
    low, high = (values[end].tolist() if len(runs) > 1 else None for end in ("min", "max"))
    return Line(name, [int(step) for step in values.index], values["mean"].tolist(), low, high)


def over_layers(runs: "Sequence[Run]", statistic: str, name: str, *, last: bool = True) -> Line:
    """The mean over runs of a metric of layers, in forward order, at the last or first step."""
    rows = recorded(runs, statistic)
    rows = rows[rows["step"] == (rows["step"].max() if last else rows["step"].min())]
    means = rows.groupby(rows["metric"].astype(str))["value"].mean().sort_index()
    return Line(name, list(range(1, len(means) + 1)), means.tolist(), look="points")


def figures() -> dict[str, Named]:
    """All figures by name, in the order of the page."""
    folder = Path(__file__).parent
    for file in sorted(folder.glob("of_*.py")):
        importlib.import_module(f"normexp.figures.{file.stem}")
    texts = yaml.safe_load((folder / "figures.yaml").read_text())
    return {name: Named(name, make=MAKERS[name], **text) for name, text in texts.items()}


def chosen(names: Sequence[str]) -> list[Named]:
    """The figures of these names; `all` means each. Raises ValueError for a name that is none, or without a name."""
    from normexp.config.options import suggest

    available = figures()
    if not names:
        raise ValueError(f"name a figure, or all; choose from: {', '.join(available)}")
    for word in names:
        if word not in (*available, "all"):
            if Path(word).is_dir():
                raise ValueError(
                    f"{word}: is a folder; `normexp report {word}` draws the figures of its runs"
                )
            raise ValueError(f"{word}: no such figure; {suggest(word, list(available))}")
    return list(available.values()) if "all" in names else [available[word] for word in names]


def make(
    entry: Named,
    folder: Path,
    *,
    small: bool = False,
    pdf: bool = False,
    say: Callable[[str], None] = lambda run: None,
) -> Plot:
    """Compute a figure and write its files. Its runs are kept under `folder`/runs and used again."""
    from normexp.report.drawing import Drawing, save
    from normexp.report.style import drawing_style

    began = time.process_time()
    plot = entry.make(Lab(folder, small=small, say=say))
    numbers = {
        **{key: getattr(entry, key) for key in ("name", "title", "source", "paper")}, **plot.numbers(), "small": small,
        "command": f"{command('figure')} {entry.name}", "cpu_seconds": round(time.process_time() - began, 1),
    }  # fmt: skip
    with drawing_style():
        save(Drawing(entry.name, entry.title, plot.seen, draw(plot)), folder, entry.source, pdf=pdf)
    write_text(folder / f"{entry.name}.json", json.dumps(numbers, indent=1))
    return plot


def write_page(folder: Path) -> Path:
    """`index.html` with every figure that lies in the folder: what is seen, what the paper shows, and the command."""
    from normexp.report.page import save_page

    records = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    made = {record.get("name"): record for record in records}
    shown = [made[name] for name in figures() if name in made]
    missing = [name for name in figures() if name not in made]
    return save_page(folder, "gallery.html.j2", figures=shown, missing=missing, start=command("figure"))
