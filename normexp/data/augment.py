"""Light augmentation of whole batches on the training device: random shift with black borders, horizontal flip."""

import torch
from torch import Tensor

from normexp.data.order import keyed_generator


class Augmentation:
    """Shift each image by up to `shift` pixels in both directions, then leave or mirror it.

    Args:
        shift: largest shift in pixels.
        flip: mirror left and right with probability one half.
        black: value of a black pixel per channel, (C, 1, 1), on the device of the images. It fills the borders.
        seed: the run's seed. Draws depend on (seed, epoch, batch, place in the batch) alone.
    """

    def __init__(self, *, shift: int, flip: bool, black: Tensor, seed: int) -> None:
        self.shift = shift
        self.flip = flip
        self.black = black
        self.seed = seed

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
        padded = self.black.expand(batch, channels, height + 2 * border, width + 2 * border).clone()
        padded[:, :, border : border + height, border : border + width] = images

        down, right, mirrored = draws.unbind(1)  # (B,) each
        # The row and column of the padded image that each pixel of the result comes from.
        rows = torch.arange(height, device=images.device) + border - down[:, None]  # (B, H)
        columns = torch.arange(width, device=images.device)
        columns = torch.where(mirrored[:, None] == 1, columns.flip(0), columns)  # (B, W)
        columns = columns + border - right[:, None]
        places = rows[:, :, None] * padded.shape[3] + columns[:, None, :]  # (B, H, W), flattened padded image
        places = places.view(batch, 1, -1).expand(-1, channels, -1)  # (B, C, H * W)
        return padded.flatten(2).gather(2, places).view_as(images)
