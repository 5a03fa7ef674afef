"""What images become on their way into the network, whole batches at once: bytes to normalized numbers, light
augmentation, a sequence of tasks."""

from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from normexp.data.orders import keyed_generator

Batch = tuple[Tensor, Tensor]
CHUNK_BYTES = 2**24  # bytes that are counted at once
Kind = Literal["permuted", "relabeled"]  # of a sequence of tasks
Border = Literal["black", "reflect"]


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
        # A tensor, because to divide by a number CUDA multiplies by 1 / max_pixel, which rounds differently.
        self.white = torch.full((), float(max_pixel), device=None if mean is None else mean.device)

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


def count_values(pixels: Tensor, indices: Tensor) -> Tensor:
    """How often each channel of the images `indices` has each value: int64 (C, 256)."""
    channels = pixels.shape[1]
    counts = torch.zeros(channels, 256, dtype=torch.int64)
    in_file_order = indices.sort().values
    for chunk in in_file_order.split(max(1, CHUNK_BYTES // pixels[0].numel())):
        chosen = pixels.index_select(0, chunk)
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


class Augmentation:
    """Shift each image by up to `shift` pixels in both directions, then leave or mirror it.

    Args:
        shift: largest shift in pixels.
        flip: mirror left and right with probability one half.
        black: value of a black pixel per channel, (C, 1, 1), on the device of the images.
        seed: the run's seed. Draws depend on (seed, epoch, batch, place in the batch) alone.
        border: `black` pixels, or those inside the edge in reverse order (`reflect`).
    """

    def __init__(self, *, shift: int, flip: bool, black: Tensor, seed: int, border: Border = "black") -> None:
        self.shift = shift
        self.flip = flip
        self.black = black
        self.seed = seed
        self.border = border

    def draw(self, epoch: int, shape: tuple[int, int]) -> Tensor:
        """Draws of a whole epoch, (num_batches, batch_size, 3) on the CPU: rows down, columns right, mirrored."""
        generator = keyed_generator("augmentation", self.seed, epoch)
        shifts = torch.randint(-self.shift, self.shift + 1, (*shape, 2), generator=generator)
        mirrored = torch.randint(2, (*shape, 1), generator=generator) * self.flip
        return torch.cat([shifts, mirrored], dim=-1)

    def __call__(self, images: Tensor, draws: Tensor) -> Tensor:
        """Augmented copy of `images` (B, C, H, W); `draws` is (B, 3)."""
        batch, channels, height, width = images.shape
        border = self.shift
        if self.border == "reflect":
            padded = F.pad(images, 4 * (border,), mode="reflect")
        else:
            padded = self.black.expand(batch, channels, height + 2 * border, width + 2 * border).clone()
            padded[:, :, border : border + height, border : border + width] = images

        down, right, mirrored = draws.unbind(1)  # (B,) each
        # The row and column of the padded image that each pixel of the result comes from.
        rows = torch.arange(height, device=images.device) + border - down[:, None]  # (B, H)
        columns = torch.arange(width, device=images.device)
        columns = torch.where(mirrored[:, None] == 1, columns.flip(0), columns)  # (B, W)
        columns = columns + border - right[:, None]
        source = rows[:, :, None] * padded.shape[3] + columns[:, None, :]  # (B, H, W), flattened padded image
        source = source.view(batch, 1, -1).expand(-1, channels, -1)  # (B, C, H * W)
        return padded.flatten(2).gather(2, source).view_as(images)


class Tasks:
    """Changes a batch (N, C, H, W), (N,) into that of its task. Task 0 has the data as they are, and each later task a
    random order of its own:

    - permuted: x[:, :, p], where p puts the H W places of an image in another order, the same in every channel
      (Goodfellow et al. 2013, arXiv:1312.6211)
    - relabeled: p[y], where p puts the classes in another order

    All tasks are equally hard for a network that does not know places, such as an MLP. So what it loses from one to
    the next is plasticity (Lyle et al. 2023, arXiv:2303.01486; Dohare et al. 2024).

    Args:
        batches: number of training batches of each task.
        seed: of the orders; every run with it has the same tasks.
    """

    def __init__(self, kind: Kind, batches: int, seed: int, num_classes: int) -> None:
        self.kind, self.batches, self.seed, self.num_classes = kind, batches, seed, num_classes

    def __call__(self, batch: Batch, number: int) -> Batch:
        """The batch, as that of the task to which training batch `number` of the run, from 0, belongs."""
        x, y = batch
        if (task := number // self.batches) == 0:
            return batch
        if self.kind == "relabeled":
            return x, new_order(self.seed, task, self.num_classes).to(y.device)[y]
        positions = x.flatten(2)  # (N, C, H W)
        return positions[:, :, new_order(self.seed, task, positions.shape[2]).to(x.device)].view_as(x), y


@lru_cache(maxsize=16)
def new_order(seed: int, task: int, size: int) -> Tensor:
    """A random order of 0 ... size - 1, that of a task."""
    return torch.randperm(size, generator=keyed_generator("task", seed, task))
