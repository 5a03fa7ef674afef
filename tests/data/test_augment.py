"""Batched augmentation equals a loop over images and pixels, and draws from (seed, epoch) alone."""

import pytest
import torch
from small_digits import digits

from normexp.data.transforms import Augmentation


def reflected(place, size):
    """The place inside 0 ... size - 1 that a mirror at each edge shows at `place`."""
    while not 0 <= place < size:
        place = -place if place < 0 else 2 * (size - 1) - place
    return place


def augment_one_by_one(images, draws, black):
    """The slow twin: every pixel of every image from its definition."""
    result = torch.empty_like(images)
    _, channels, height, width = images.shape
    for n, (down, right, mirrored) in enumerate(draws.tolist()):
        for i in range(height):
            for j in range(width):
                row = i - down
                column = (width - 1 - j if mirrored else j) - right
                if black is None:
                    row, column = reflected(row, height), reflected(column, width)
                inside = 0 <= row < height and 0 <= column < width
                for c in range(channels):
                    result[n, c, i, j] = images[n, c, row, column] if inside else black[c]
    return result


@pytest.mark.parametrize("border", ["black", "reflect"])
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(("shift", "shape"), [(0, (6, 1, 5, 5)), (2, (9, 3, 6, 4)), (3, (4, 2, 4, 7))])
def test_batched_augmentation_equals_a_loop_over_pixels(shift, shape, flip, border):
    images, black = torch.randn(shape), torch.randn(shape[1])
    augmentation = Augmentation(shift=shift, flip=flip, black=black.view(-1, 1, 1), seed=0, border=border)
    draws = augmentation.draw(0, (1, shape[0]))[0]
    augmented = augmentation(images, draws)
    assert torch.equal(augmented, augment_one_by_one(images, draws, black if border == "black" else None))
    assert augmented.is_contiguous()


def test_draws_are_a_pure_function_of_seed_and_epoch_and_leave_the_global_rng_alone():
    state = torch.get_rng_state()
    shape = (5, 8)
    augmentation = Augmentation(shift=2, flip=True, black=torch.zeros(1), seed=0)
    first = augmentation.draw(3, shape)
    assert torch.equal(first, augmentation.draw(3, shape))
    assert not torch.equal(first, augmentation.draw(4, shape))
    other = Augmentation(shift=2, flip=True, black=torch.zeros(1), seed=1)
    assert not torch.equal(first, other.draw(3, shape))
    assert torch.equal(torch.get_rng_state(), state)


def test_augmentation_shifts_in_black_and_leaves_the_order_and_evaluation_alone():
    plain, augmented = digits(shift=1), digits(shift=1, augment=True)
    for (x, y), (shifted, same_y) in zip(plain.train_dataloader(), augmented.train_dataloader(), strict=True):
        assert torch.equal(y, same_y)
        assert not torch.equal(x, shifted)
        assert shifted.min() == plain.splits["train"].x.min()  # black after normalization
    assert torch.equal(plain.splits["train"].x, augmented.splits["train"].x)
    assert torch.equal(next(iter(plain.val_dataloader()))[0], next(iter(augmented.val_dataloader()))[0])
