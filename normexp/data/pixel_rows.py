"""Images kept as bytes; each batch is turned into numbers."""

import torch
from torch import Tensor

from normexp.data.rows import Batch, Chosen, Rows
from normexp.data.scaling import Scaling


class PixelRows(Rows):
    """Args:
    pixels: uint8 (M, C, H, W), in memory, mapped from a file, or on a device.
    place: the number of each row's image, int64 (N,), on the same device.
    y: targets (N,).
    scaling: bytes to numbers.
    """

    def __init__(self, pixels: Tensor, place: Tensor, y: Tensor, scaling: Scaling) -> None:
        super().__init__(pixels, y)
        self.pixels, self.place, self.scaling = pixels, place, scaling

    @property
    def x(self) -> Tensor:
        return self.take(slice(None))[0]

    @property
    def nbytes(self) -> int:
        """Number of bytes of these rows."""
        return len(self) * self.pixels[0].numel()

    def take(self, chosen: Chosen) -> Batch:
        pixels, y = self.bytes_of(chosen)
        return self.scaling(pixels), y

    def bytes_of(self, chosen: Chosen) -> Batch:
        if isinstance(chosen, slice):
            return self.pixels.index_select(0, self.place[chosen]), self.y[chosen]
        place = self.place.index_select(0, chosen)
        return self.pixels.index_select(0, place), self.y.index_select(0, chosen)

    def moved(self, device: torch.device) -> "PixelRows":
        """Only the bytes of these rows, copied to a device in pieces, so the host holds few at a time."""
        pixels = torch.empty(len(self), *self.pixels.shape[1:], dtype=torch.uint8, device=device)
        for start in range(0, len(self), 4096):
            some = slice(start, start + 4096)
            pixels[some] = self.bytes_of(some)[0].to(device)
        place = torch.arange(len(self), device=device)
        return PixelRows(pixels, place, self.y.to(device), self.scaling.to(device))
