"""Train the runs of several claims in rounds, each run once. A claim is judged when none is missing."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from normexp.claims.evidence.asking import Asking, Evidence
from normexp.claims.evidence.wanted import Wanted
from normexp.claims.outcome import why
from normexp.sweeps.cell import Cell
from normexp.sweeps.options import Options

if TYPE_CHECKING:
    from normexp.claims.evidence.training_runs import Runs


def train_one(asking: Asking, out: Path, command: str) -> Evidence:
    """Train the runs of one claim. Returns its table and verdict, or raises ValueError with one line."""
    training = Training([asking], out / "cache", Options(), command)
    for _ in training.run():
        pass
    for line in training.failed.values():
        raise ValueError(line)
    assert asking.evidence is not None
    return asking.evidence


def train_cells(
    all_runs: "Sequence[tuple[Runs, Sequence[Wanted]]]", cache: Path, options: Options, command: str
) -> int:
    """Train the missing ones of these runs, all at once; returns the exit status."""
    found = [(cell, runs) for runs, wanted in all_runs for cell, _ in runs.cells(wanted)]
    return _run(found, cache, options, command) if found else 0


def _run(found: "Sequence[tuple[Cell, Runs]]", cache: Path, options: Options, command: str) -> int:
    from normexp.sweeps.run import run  # loads torch

    folder = cache / ".sweeps" / f"{datetime.now():%Y-%m-%d_%H-%M-%S-%f}"
    of = {id(cell): runs for cell, runs in found}
    once: dict[Path, Cell] = {}
    for cell, _ in found:
        if not any(place in once for place in cell.folders):
            once |= dict.fromkeys(cell.folders, cell)
    cells = list({id(cell): cell for cell in once.values()}.values())
    return run(cells, options, folder, command, argv=lambda cell: of[id(cell)].argv(cell))


class Training:
    """Args:
    cache: the folder of all runs of claims, and of the logs of this launch.
    command: the typed command line.
    """

    def __init__(self, asking: Sequence[Asking], cache: Path, options: Options, command: str):
        self.asking, self.options, self.cache, self.command = list(asking), options, cache, command
        self.failed: dict[str, str] = {}  # claim -> reason why it has no verdict
        self.status = 0  # above 128 if a signal ended the training

    def at_most(self) -> dict[str, int]:
        """Claim -> most runs that it still has to train. A claim that cannot run is omitted."""
        found = {}
        for own in self.asking:
            try:
                found[own.claim.id] = own.at_most()
            except Exception as error:
                self.failed[own.claim.id] = why(error)
        return found

    def show_plan(self) -> None:
        """Print the runs of the next round."""
        found = [pair for own in self.asking for pair in self._cells(own)]
        if found:
            _run(found, self.cache, self.options, self.command)

    def run(self) -> Iterator[Asking]:
        """Train in rounds; yield each claim when it has its evidence or has failed."""
        waiting = list(self.asking)
        while waiting and self.status <= 128:
            cells = {own.claim.id: self._cells(own) for own in waiting}
            for own in [own for own in waiting if not cells[own.claim.id]]:
                waiting.remove(own)
                yield own
            if found := [pair for own in waiting for pair in cells[own.claim.id]]:
                self.status = _run(found, self.cache, self.options, self.command)
                for own in waiting:
                    self._note_failures(own, [cell for cell, _ in cells[own.claim.id]])

    def _cells(self, own: Asking) -> "list[tuple[Cell, Runs]]":
        if own.claim.id in self.failed:
            return []
        try:
            return [(cell, own.runs) for cell, _ in own.runs.cells(own.missing())]
        except Exception as error:  # a claim that cannot run must not stop the others
            self.failed[own.claim.id] = why(error)
            return []

    def _note_failures(self, own: Asking, cells: Sequence[Cell]) -> None:
        broken = next((cell for cell in cells if cell.state in ("failed", "interrupted")), None)
        if broken is not None:
            self.failed[own.claim.id] = f"{broken.run}: {broken.error or broken.state} ({broken.log})"
