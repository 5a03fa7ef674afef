"""What claims lack of their evidence, trained in rounds: what is missing of each grid, then what a wider one asks."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from normexp.claims.evidence.disk import DiskRuns, complete_cells
from normexp.claims.evidence.registry import registration
from normexp.claims.gather import Evidence, Failed, count_runs, gathered, noted, to_train
from normexp.claims.spec.claim import Claim
from normexp.config.process import FAILED
from normexp.config.run_spec import RunSpec
from normexp.format import pluralize, tell
from normexp.sweeps.options import Options

NO_NUMBER = ("crashed", "skipped")  # a missing run may be skipped once, where another process finished it
MOST_TIMES = 2  # that one run ends so; then its claims get no verdict


class Rounds:
    """The claims of one `command`, as it was typed, whose evidence is not whole. `out` is the folder of verdicts, and
    `out/cache` has the runs that all claims share; `folder` that of kept runs, None to judge from this disk alone."""

    def __init__(
        self, claims: Sequence[Claim], out: Path, command: str, folder: Path | None,
        registries: Sequence[Path] | None = None,
    ):  # fmt: skip
        self.out, self.command, self.folder, self.registries = out, command, folder, registries
        self.failed = Failed()
        self.disks: dict[str, DiskRuns] = {}  # of the claims that wait for runs
        self.found: dict[str, Evidence] = {}
        self._ended: Counter[tuple[Path, str]] = Counter()
        for claim in claims:
            with noted(self.failed, claim.id):
                self.disks[claim.id] = DiskRuns(complete_cells(claim), out / "cache")

    def look(self) -> dict[str, pd.DataFrame]:
        """Read what is finished, tell what a wider grid asks, and return claim -> the rows of its grid that are
        missing."""
        self.disks = {name: disk for name, disk in self.disks.items() if name not in self.failed}
        for name, disk in self.disks.items():
            before = self.found.get(name)
            grid = before.grid if before else None
            with noted(self.failed, name):
                found = self.found[name] = gathered(disk.claim, self.folder, disk, grid)
                if before and len(found.grid) > len(before.grid):
                    more = pluralize(count_runs(found.missing), "more run")
                    tell(f"  {name}: {more}: best rates at an edge, or means near the margin")
        return {name: self.found[name].missing for name in self.disks if name not in self.failed}

    def show_plan(self, options: Options) -> None:
        """Print what is missing, what would train before it is registered, and with `options.plan` the first round."""
        todo = self.look()
        for name, rows in todo.items():
            claim = self.disks[name].claim
            tell(f"  {to_train(self.found[name])}")
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

    def run(self, options: Options) -> Iterator[Evidence]:
        """Train in rounds what is missing; the evidence of each claim comes when nothing is."""
        while self.disks:
            todo = self.look()
            for name in [name for name, rows in todo.items() if rows.empty]:
                del self.disks[name], todo[name]
                yield self.found[name]
            self._run(todo, options)

    def _run(self, todo: dict[str, pd.DataFrame], options: Options) -> None:
        if not any(map(len, todo.values())):
            return
        from normexp.sweeps.run import launch_folder, run  # loads torch

        runs: list[tuple[RunSpec, str]] = []
        users = defaultdict[Path, list[str]](list)
        for name, rows in todo.items():
            disk = self.disks[name]
            for spec, row in zip(disk.specs(rows), rows.itertuples(index=False), strict=True):
                runs.append((spec, disk.name_of(row)))
                users[spec.folder].append(name)
        if not options.plan:  # runs in the user's repository would make its checkout a changed one
            self.out.mkdir(parents=True, exist_ok=True)
            if not (self.out / ".gitignore").exists():
                (self.out / ".gitignore").write_text("*\n")
        specs, names = zip(*runs, strict=True)
        folder = launch_folder(self.out)
        for cell in run(specs, options, folder=folder, names=names, command=self.command, brief=True):
            self._ended[cell.spec.folder, cell.state] += 1
            if cell.state in NO_NUMBER and self._ended[cell.spec.folder, cell.state] >= MOST_TIMES:
                why = f"{cell.error or cell.state} ({cell.job.log})"
                if cell.state == "skipped":
                    why = f"{cell.spec.folder} is finished and lacks what the claim reads; give another out="
                for name in users[cell.spec.folder]:
                    self.failed.setdefault(name, (f"{cell.name}: {why}", FAILED))
