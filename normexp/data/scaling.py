"""Turn bytes into the network's numbers, and compute the moments that normalize them."""

import torch
from torch import Tensor

AT_ONCE = 2**24  # bytes that are counted at once


class Scaling:
    """Pixels scaled to [0, 1], then binarized, then normalized with the mean and standard deviation of each channel.

    Each pixel is scaled by itself, so a batch has the same bits as the whole split, on every device.

    Args:
        max_pixel: the value of a white pixel.
        binarize: pixel > 0.5 instead of the pixel.
        mean, std: (C,) each, on the device; None: not normalized.
    """

    def __init__(
        self, max_pixel: int, *, binarize: bool, mean: Tensor | None = None, std: Tensor | None = None
    ) -> None:
        self.max_pixel, self.binarize = max_pixel, binarize
        self.mean, self.std = mean, std
        like = torch.ones(()) if mean is None else mean
        # A tensor, because to divide by a number CUDA multiplies by 1 / max_pixel, which rounds differently.
        self.white = torch.full((), float(max_pixel), device=like.device)

    def to(self, device: torch.device) -> "Scaling":
        moved = Scaling(self.max_pixel, binarize=self.binarize)
        moved.white = self.white.to(device)
        if self.mean is not None and self.std is not None:
            moved.mean, moved.std = self.mean.to(device), self.std.to(device)
        return moved

    def __call__(self, pixels: Tensor) -> Tensor:
        """Convert uint8 (N, C, H, W) to float32 (N, C, H, W)."""
        x = pixels.float().div_(self.white)
        if self.binarize:
            x = x.gt(0.5).float()
        if self.mean is not None and self.std is not None:
            x.sub_(self.mean[:, None, None]).div_(self.std[:, None, None])
        return x


def count_values(pixels: Tensor, place: Tensor) -> Tensor:
    """How often each channel of the images `place` has each value: int64 (C, 256)."""
    channels = pixels.shape[1]
    counts = torch.zeros(channels, 256, dtype=torch.int64)
    for some in place.sort().values.split(max(1, AT_ONCE // pixels[0].numel())):  # in the order of the file
        chosen = pixels.index_select(0, some)
        for channel in range(channels):
            counts[channel] += torch.bincount(chosen[:, channel].flatten(), minlength=256)
    return counts


def moments(counts: Tensor, scaling: Scaling) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (divided by n) of each channel, float32 (C,), computed in float64.

    Counts make them exact for any number of threads. A constant channel gets the deviation 1, so it stays constant.
    """
    values = scaling(torch.arange(256, dtype=torch.uint8).view(-1, 1, 1, 1)).flatten().double()  # (256,)
    share = counts.double() / counts.sum(1, keepdim=True)
    mean = share @ values
    std = (share * (values - mean[:, None]).square()).sum(1).sqrt()
    constant = (counts > 0).sum(1) == 1
    return mean.float(), std.masked_fill(constant, 1.0).float()
