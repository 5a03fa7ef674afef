"""The rows of a split on the training device, and batches of them."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

Chosen = Tensor | slice  # numbers of rows, or a stretch of them
Batch = tuple[Tensor, Tensor]
AT_ONCE = 2**19  # numbers of inputs that are taken at once, at least one batch
ALIGNMENT = 16  # numbers: 64 bytes, where memory of its own would start


class Rows:
    """Inputs and targets as the network takes them: (N, ...) each, one row per sample."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self._x, self.y = x, y

    @property
    def x(self) -> Tensor:
        """All inputs at once."""
        return self._x

    def __iter__(self) -> Iterator[Tensor]:
        yield self.x
        yield self.y

    def __len__(self) -> int:
        return len(self.y)

    @property
    def device(self) -> torch.device:
        """Device of the batches."""
        return self.y.device

    @property
    def index_device(self) -> torch.device:
        """Device that row numbers must be on."""
        return self.y.device

    def begin(self, epoch: int) -> None:
        """Prepare for the batches of this epoch, if rows differ between epochs."""

    def to(self, device: torch.device) -> "Rows":
        return self if device == self.device else Rows(self._x.to(device), self.y.to(device))

    def take(self, chosen: Chosen) -> Batch:
        if isinstance(chosen, slice):
            return self._x[chosen], self.y[chosen]
        return self._x.index_select(0, chosen), self.y.index_select(0, chosen)

    def batches(self, chosen: Iterable[Chosen]) -> Iterator[Batch]:
        """The batches of these rows. Small batches are taken several at once, and handed out as views: each call costs
        some microseconds after a backward pass that filled the caches."""
        if not isinstance(chosen, Tensor):
            for rows in chosen:
                yield self.take(rows)
            return
        size = chosen.shape[1]
        numbers = max(1, size * self._x[:1].numel())
        together = 1 if numbers % ALIGNMENT else max(1, AT_ONCE // numbers)
        for some in chosen.split(together):
            x, y = self.take(some.flatten())
            yield from zip(x.split(size), y.split(size), strict=True)


class Windows(Rows):
    """Windows of a text, (N, T): views of one stream. Tokens are kept in a small type; batches are int64.

    Args:
        device: of the batches, if the stream does not fit there.
    """

    def __init__(self, x: Tensor, y: Tensor, device: torch.device) -> None:
        super().__init__(x, y)
        self._wanted = device

    @property
    def device(self) -> torch.device:
        return self._wanted

    def take(self, chosen: Chosen) -> Batch:
        x, y = super().take(chosen)
        return x.to(self._wanted).long(), y.to(self._wanted).long()
