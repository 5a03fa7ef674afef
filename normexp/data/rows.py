"""The samples of a split, and batches of them on their way into the network. Samples lie in memory, as bytes on the
device, or in a mapped file."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from normexp.data.transforms import Batch, Scaling

Chosen = Tensor | slice  # numbers of rows, or a stretch of them
GATHERED_ELEMENTS = 2**19  # numbers of inputs that are taken at once, at least one batch
ALIGNMENT = 16  # numbers: 64 bytes, where memory of its own would start
SMALL_BYTES = 2**26  # bytes; a split up to this size is kept as the network's numbers, so a batch is one copy
DEVICE_BYTES = 2**32  # a larger split stays on the host, and each batch is moved


class Rows:
    """Inputs and targets: (N, ...) each, one row per sample. Of a text: its tokens and the next tokens."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self._x, self._y = x, y

    @property
    def x(self) -> Tensor:
        """All inputs at once."""
        return self._x

    @property
    def y(self) -> Tensor:
        """All targets at once."""
        return self._y

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

    def on(self, device: torch.device) -> "Rows":
        """These rows, for another device."""
        return Rows(self.x.to(device), self.y.to(device))

    def take(self, chosen: Chosen) -> Batch:
        if isinstance(chosen, slice):
            return self._x[chosen], self._y[chosen]
        return self._x.index_select(0, chosen), self._y.index_select(0, chosen)

    def batches(self, chosen: Iterable[Chosen]) -> Iterator[Batch]:
        """The batches of these rows. Small batches are taken several at once, and handed out as views: each call costs
        some microseconds after a backward pass that filled the caches."""
        if not isinstance(chosen, Tensor):
            for rows in chosen:
                yield self.take(rows)
            return
        size = chosen.shape[1]
        numbers = max(1, size * self._x[:1].numel())
        together = 1 if numbers % ALIGNMENT else max(1, GATHERED_ELEMENTS // numbers)
        for some in chosen.split(together):
            x, y = self.take(some.flatten())
            yield from zip(x.split(size), y.split(size), strict=True)


class Windows(Rows):
    """Windows of a text, (N, T): views of one stream. Tokens are kept in a small type; batches are int64."""

    def take(self, chosen: Chosen) -> Batch:
        x, y = super().take(chosen)
        return x.long(), y.long()


class PixelRows(Rows):
    """Images kept as bytes; each batch is turned into numbers.

    Args:
        pixels: uint8 (M, C, H, W), in memory, mapped from a file, or on a device.
        indices: the number of each row's image, int64 (N,), where the pixels are.
        y: targets (N,), where the pixels are.
        scaling: bytes to numbers.
        device: of the batches; None: where the pixels are.
    """

    def __init__(
        self,
        pixels: Tensor,
        indices: Tensor,
        y: Tensor,
        scaling: Scaling,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(pixels, y)
        self.pixels, self.indices = pixels, indices
        self._device = device or y.device
        self.scaling = scaling.to(self._device)

    @property
    def x(self) -> Tensor:
        return self.take(slice(None))[0]

    @property
    def device(self) -> torch.device:
        return self._device

    def on(self, device: torch.device) -> Rows:
        """Rows for a device: numbers if they take little room, else bytes if they fit, else each batch is moved."""
        nbytes = len(self) * self.pixels[0].numel()
        if 4 * nbytes <= SMALL_BYTES:
            return super().on(device)
        if device == self.device or nbytes > DEVICE_BYTES:
            return PixelRows(self.pixels, self.indices, self.y, self.scaling, device)
        pixels, y = self._bytes_of(slice(None))
        return PixelRows(
            pixels.to(device), torch.arange(len(self), device=device), y.to(device), self.scaling
        )

    def take(self, chosen: Chosen) -> Batch:
        pixels, y = (part.to(self._device, non_blocking=True) for part in self._bytes_of(chosen))
        return self.scaling(pixels), y

    def _bytes_of(self, chosen: Chosen) -> Batch:
        if isinstance(chosen, slice):
            return self.pixels.index_select(0, self.indices[chosen]), self.y[chosen]
        indices = self.indices.index_select(0, chosen)
        return self.pixels.index_select(0, indices), self.y.index_select(0, chosen)
