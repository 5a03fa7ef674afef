"""What training claims still need, round by round: what is missing of each grid is trained, and the grid widened."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.disk import DiskRuns, complete_cells
from normexp.claims.evidence.grid import RUN, grid_of, missing
from normexp.claims.evidence.registry import registration
from normexp.claims.evidence.settings import widen
from normexp.claims.evidence.table import NO_RUNS, kept_grid, read, runs_in
from normexp.claims.spec.claim import Claim
from normexp.config.errors import status_of, why
from normexp.config.process import FAILED
from normexp.config.run_spec import RunSpec
from normexp.format import pluralize, tell
from normexp.sweeps.options import Options

MOST_FAILURES = 2  # of one run; then its claims get no verdict


class Training:
    """One claim, its grid as far as its finished runs have widened it, and their table. `evidence` is the folder of
    kept runs, None to judge from this disk alone; `cache` that of the runs that all claims of a user share."""

    def __init__(self, claim: Claim, evidence: Path | None, cache: Path):
        self.claim = complete_cells(claim)
        self.evidence, self.disk = evidence, DiskRuns(self.claim, cache)
        kept = kept_grid(self.claim, runs_in(evidence)) if claim.settings else NO_RUNS
        self.is_kept = bool(claim.settings) and set(kept.get("setting", ())) == set(claim.settings)
        self.grid = kept if self.is_kept else grid_of(self.claim)
        self.table = NO_RUNS

    def update(self) -> pd.DataFrame:
        """Read what is finished, widen the grid by it, and return the rows that are missing."""
        while True:
            self.table = read(self.evidence, self.grid, self.claim)
            if len(todo := missing(self.grid, self.table)):
                self.table = read(self.evidence, self.grid, self.claim, self.disk.read(todo))
            wider = self.grid if self.is_kept else widen(self.claim, self.grid, self.table)
            if len(wider) == len(self.grid):
                return missing(self.grid, self.table)
            self.grid = wider

    def specs(self, todo: pd.DataFrame) -> dict[Path, tuple[RunSpec, Any]]:
        """Folder -> the run and its row of the grid. Arms with equal overrides share runs."""
        rows = todo.itertuples(index=False)
        return {spec.folder: (spec, row) for spec, row in zip(self.disk.specs(todo), rows, strict=True)}


class Rounds:
    """The training claims of one `command`, as it was typed, trained in rounds. `out` is the folder of verdicts, and
    `out/cache` has the runs that all claims share."""

    def __init__(
        self, claims: Sequence[Claim], out: Path, command: str, evidence: Path | None,
        registries: Sequence[Path] | None = None,
    ):  # fmt: skip
        self.out, self.command, self.registries = out, command, registries
        self.failed: dict[str, tuple[str, int]] = {}  # claim -> why it has no verdict, and the exit status
        self.claims: dict[str, Training] = {}
        self._failures: Counter[Path] = Counter()
        for claim in claims:
            if (made := self._try(claim.id, Training, claim, evidence, out / "cache")) is not None:
                self.claims[claim.id] = made

    def _try(self, name: str, call: Callable[..., Any], *given: Any) -> Any:
        """What a call gives; None, with the reason in `failed`, if the claim cannot run. Others go on."""
        if name in self.failed:
            return None
        try:
            return call(*given)
        except Exception as error:
            self.failed[name] = why(error), status_of(error)
            return None

    def todo(self) -> dict[str, pd.DataFrame]:
        """Claim -> the rows of its grid that are missing."""
        rows = {name: self._try(name, training.update) for name, training in self.claims.items()}
        return {name: missing_rows for name, missing_rows in rows.items() if missing_rows is not None}

    def show_plan(self, options: Options) -> None:
        """Print what is missing, what would train before it is registered, and with `options.plan` the first round."""
        todo = self.todo()
        for name, rows in todo.items():
            claim = self.claims[name].claim
            tell(f"  {name}: {_count(rows)} of {_count(self.claims[name].grid)} runs to train")
            reason = registration(claim, self.registries)[1] if claim.drawn else ""
            if len(rows) and reason:
                tell(
                    f"  {name}: {reason}, so its word stays unregistered; to fix its protocol first: normexp register "
                    f"claim={name} reason=..."
                )
            for setting, runs in rows.groupby("setting", sort=False) if options.plan and claim.cells else ():
                labels = claim.cells[str(setting)].labels
                what = f"{labels['model']} on {labels['data']}"
                tell(f"    {name} {setting} ({what}): {pluralize(len(runs), 'run')}")
        if options.plan:
            self._run(todo, options)

    def run(self, options: Options, finished: Callable[[Claim, Training], Any]) -> None:
        """Train in rounds what is missing; `finished` is called for each claim when nothing is."""
        sizes = {name: len(training.grid) for name, training in self.claims.items()}
        while self.claims:
            todo = self.todo()
            for name, training in self.claims.items():
                if len(training.grid) > sizes[name]:
                    sizes[name], more = len(training.grid), _count(todo.get(name, NO_RUNS))
                    tell(
                        f"  {name}: {pluralize(more, 'more run')}: best rates at an edge, or means near the margin"
                    )
            for name in [name for name in self.claims if name in self.failed or not len(todo.get(name, ()))]:
                training = self.claims.pop(name)
                self._try(name, finished, training.claim, training)
            if self.claims:
                self._run({name: todo[name] for name in self.claims}, options)

    def _run(self, todo: dict[str, pd.DataFrame], options: Options) -> None:
        if not any(map(len, todo.values())):
            return
        from normexp.sweeps.run import run  # loads torch

        runs: dict[Path, tuple[RunSpec, str]] = {}
        users: dict[Path, list[str]] = {}
        for name, rows in todo.items():
            training = self.claims[name]
            for folder, (spec, row) in training.specs(rows).items():
                runs.setdefault(folder, (spec, training.disk.name_of(row)))
                users.setdefault(folder, []).append(name)
        if not options.plan:  # runs in the user's repository would make its checkout a changed one
            self.out.mkdir(parents=True, exist_ok=True)
            if not (self.out / ".gitignore").exists():
                (self.out / ".gitignore").write_text("*\n")
        launch = self.out / "cache" / ".sweeps" / f"{datetime.now():%Y-%m-%d_%H-%M-%S-%f}"
        specs, names = zip(*runs.values(), strict=True)
        for cell in run(specs, options, folder=launch, names=names, command=self.command, brief=True):
            if cell.state != "crashed":
                continue
            self._failures[cell.spec.folder] += 1
            if self._failures[cell.spec.folder] >= MOST_FAILURES:
                for name in users[cell.spec.folder]:
                    reason = f"{cell.name}: {cell.error or cell.state} ({cell.job.log})"
                    self.failed.setdefault(name, (reason, FAILED))


def _count(rows: pd.DataFrame) -> int:
    """The runs of these rows; arms may share one."""
    return len(rows.drop_duplicates(RUN))
