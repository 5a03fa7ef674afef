"""The table of a swap: one row a layer, and the way back."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from normexp.format import pluralize


@dataclass(frozen=True)
class Swap:
    """One normalization layer: its place, the old layer and the new one.

    Attributes:
        path: of the layer in the network. A layer that is used at several places has several, separated by commas.
        new: None if the old layer stays; `note` says why.
        carried: what the new layer kept: gain, shift, running statistics, eps.
        note: what could not be kept, and what else was changed.
    """

    path: str
    old: str
    new: str | None
    carried: str
    note: str = ""


class SwapTable(Sequence[Swap]):
    """The rows of a swap. `print` shows a table. `undo()` puts the old layers back."""

    def __init__(
        self, rows: list[Swap], ways_back: list[Callable[[], None]], in_place: Callable[[], bool]
    ) -> None:
        self.rows, self._ways_back, self._in_place = rows, ways_back, in_place

    def undo(self) -> None:
        """Put the old layers back. A network that was not trained since the swap then computes the same as before, bit
        for bit. The new layers keep what they learned. A second call does nothing.

        Raises ValueError if other layers stand where the new ones did, as after a later swap."""
        if self._ways_back and not self._in_place():
            raise ValueError("table: other layers stand in place of its own; undo the later swap first")
        while self._ways_back:
            self._ways_back.pop()()

    @property
    def left(self) -> list[Swap]:
        """The layers that could not be swapped."""
        return [row for row in self.rows if row.new is None]

    def __getitem__(self, index):
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Swap]:
        return iter(self.rows)

    def notes(self) -> list[str]:
        """What a user should know before training: the layers that stay, and what others could not keep, each with the
        number of its layers: `its running statistics are lost (20 layers)`."""
        found: Counter[str] = Counter()
        for row in self.rows:
            if row.new is None:
                found[f"{row.old} stays: {row.note}"] += 1
            else:
                found.update(note for note in row.note.split("; ") if note)
        return [f"{note} ({pluralize(n, 'layer')})" for note, n in found.items()]

    def __str__(self) -> str:
        head = ("path", "old", "new", "carried over", "note")
        cells = [head, *((r.path, r.old, r.new or "stays", r.carried, r.note) for r in self.rows)]
        widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells
        ]
        return "\n".join(lines)

    __repr__ = __str__
