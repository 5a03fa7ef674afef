"""Train the runs of several claims with one engine: each run once. A claim is judged when its runs are finished."""

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from normexp.claims.evidence.asking import Asking, Evidence
from normexp.claims.evidence.wanted import Wanted
from normexp.claims.outcome import why
from normexp.sweeps.cell import WAITING, Cell
from normexp.sweeps.launch import Launch
from normexp.sweeps.options import Options
from normexp.sweeps.places.choose import choose_place

if TYPE_CHECKING:
    from normexp.claims.evidence.train_call import TrainCall
    from normexp.claims.evidence.training_runs import Runs


def train_one(asking: Asking, out: Path, command: str) -> Evidence:
    """Train the runs of one claim. Returns its table and verdict, or raises ValueError with one line."""
    training = Training([asking], out / "cache", Options(), command)
    training.prepare()
    for _ in training.run():
        pass
    if training.launch and (status := training.launch.end()) > 128:
        sys.exit(status)
    for line in training.failed.values():
        raise ValueError(line)
    assert asking.evidence is not None
    return asking.evidence


def train_cells(
    all_runs: "Sequence[tuple[Runs, Sequence[Wanted]]]", cache: Path, options: Options, command: str
) -> int:
    """Train the missing ones of these runs, all at once; returns the exit status."""
    from normexp.claims.evidence.train_call import train

    found = [(cell, runs, together) for runs, wanted in all_runs for cell, together in runs.cells(wanted)]
    if not found:
        return 0
    of = {id(cell): (runs, together) for cell, runs, together in found}
    firsts = {id(runs): runs.trainer(together[0]) for _, runs, together in found}
    folder = cache / ".sweeps" / f"{datetime.now():%Y-%m-%d_%H-%M-%S-%f}"
    place = choose_place(train, options, list(firsts.values()), len(found), folder)
    launch = Launch(place, lambda cell: of[id(cell)][0].call(of[id(cell)][1]), folder, command)
    launch.add(cell for cell, _, _ in found)
    launch.show_plan(what="runs")
    if options.plan:
        return 0
    for _ in launch.run():
        pass
    return launch.end()


class Training:
    """Args:
    cache: the folder of all runs of claims, and of the logs and the ledger of this launch.
    command: the typed command line.
    """

    def __init__(self, asking: Sequence[Asking], cache: Path, options: Options, command: str):
        self.asking, self.options = list(asking), options
        self.folder = cache / ".sweeps" / f"{datetime.now():%Y-%m-%d_%H-%M-%S-%f}"
        self.command = command
        self.failed: dict[str, str] = {}  # claim -> reason why it has no verdict
        self.launch: Launch | None = None
        self._of: dict[int, tuple[Runs, list[Wanted]]] = {}  # what a cell trains
        self._waits: dict[str, list[Cell]] = {}  # claim -> cells that it waits for

    def at_most(self) -> dict[str, int]:
        """Claim -> most runs that it still has to train. A claim that cannot run is omitted."""
        found = {}
        for own in self.asking:
            try:
                found[own.claim.id] = own.at_most()
            except Exception as error:
                self.failed[own.claim.id] = why(error)
        return found

    def prepare(self) -> None:
        """Find the missing runs, and show their plan if there are any."""
        found = [(own, missing) for own in self.asking if (missing := self._missing(own))]
        if not found:
            return
        from normexp.claims.evidence.train_call import train

        trainers = [own.runs.trainer(missing[0]) for own, missing in found]
        count = sum(len(missing) for _, missing in found)
        place = choose_place(train, self.options, trainers, count, self.folder)
        self.launch = Launch(place, self._payload, self.folder, self.command)
        for own, _ in found:
            self._is_done(own)
        self.launch.show_plan(what="runs")

    def run(self) -> Iterator[Asking]:
        """Yield each claim when it has its evidence or has failed."""
        for own in self.asking:
            if own.claim.id not in self._waits:
                yield own
        if self.launch is None:
            return
        for cell in self.launch.run():
            if cell.state in WAITING:
                continue
            for own in self.asking:
                cells = self._waits.get(own.claim.id, ())
                if (
                    cell in cells
                    and not any(other.state in WAITING for other in cells)
                    and self._is_done(own)
                ):
                    yield own

    def _missing(self, own: Asking) -> list[Wanted]:
        try:
            return own.missing()
        except Exception as error:  # a claim that cannot run must not stop the others
            self.failed[own.claim.id] = why(error)
            return []

    def _is_done(self, own: Asking) -> bool:
        """Whether a claim has its evidence or has failed. If not, gives the engine the runs that it needs next."""
        assert self.launch is not None
        cells = self._waits.pop(own.claim.id, [])
        while True:
            broken = next((cell for cell in cells if cell.state in ("failed", "interrupted")), None)
            if broken is not None:
                self.failed[own.claim.id] = f"{broken.run}: {broken.error or broken.state} ({broken.log})"
                return True
            if not (missing := self._missing(own)):
                return True
            found = own.runs.cells(missing)
            self._of |= {id(cell): (own.runs, runs) for cell, runs in found}
            cells = self.launch.add(cell for cell, _ in found)
            if any(cell.state in WAITING for cell in cells):
                self._waits[own.claim.id] = cells
                return False
            if own.runs.missing(missing):
                self.failed[own.claim.id] = f"{cells[0].run}: its folder was removed; ask again"
                return True

    def _payload(self, cell: Cell) -> "TrainCall":
        runs, together = self._of[id(cell)]
        return runs.call(together)
