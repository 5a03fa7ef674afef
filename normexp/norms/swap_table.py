"""What a swap of norms did, layer by layer, and the way back."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Swap:
    """One normalization layer: where it is, what it was, what stands there now.

    Attributes:
        path: of the layer in the network; one that is used at several places has them all, with commas.
        new: None where the old layer stays, and `note` says why.
        carried: what the new layer took over: gain, shift, running statistics, eps.
        note: what could not be taken over, and what else was changed.
    """

    path: str
    old: str
    new: str | None
    carried: str
    note: str = ""


class SwapTable(Sequence[Swap]):
    """The rows of a swap. Printed, it is a table; `undo()` puts back the very layers that were there."""

    def __init__(self, rows: list[Swap], ways_back: list[Callable[[], None]]):
        self.rows, self._ways_back = rows, ways_back

    def undo(self) -> None:
        """Put the old layers back as they were: a network that was not trained since computes what it did, bit for
        bit. What the new layers learned stays with them. A second call does nothing."""
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

    def __str__(self) -> str:
        head = ("path", "old", "new", "carried over", "note")
        cells = [head, *((r.path, r.old, r.new or "stays", r.carried, r.note) for r in self.rows)]
        widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells
        ]
        return "\n".join(lines)

    __repr__ = __str__


def put(network: nn.Module, path: str, module: nn.Module) -> None:
    """Let a module stand at a place of a network."""
    parent, _, name = path.rpartition(".")
    setattr(network.get_submodule(parent), name, module)
