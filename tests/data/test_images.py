"""Scaling, binarizing and normalizing, against arithmetic in float64 on scikit-learn's own arrays."""

import pytest
import torch
from small_digits import digits

from normexp.data.transforms import Scaling, count_values, moments


@pytest.mark.parametrize("train_size", [None, 200])
def test_every_split_is_normalized_with_the_moments_of_the_training_split(train_size):
    raw, normalized = digits(normalize=False, train_size=train_size), digits(train_size=train_size)
    train = raw.splits["train"].x.double()
    mean, std = train.mean(), (train - train.mean()).square().mean().sqrt()
    torch.testing.assert_close(normalized.mean.double(), mean.view(1), rtol=0, atol=1e-7)
    torch.testing.assert_close(normalized.std.double(), std.view(1), rtol=0, atol=1e-7)
    for name, split in normalized.splits.items():
        expected = ((raw.splits[name].x.double() - mean) / std).float()
        torch.testing.assert_close(split.x, expected, rtol=1e-5, atol=1e-5)


def test_binarized_pixels_are_those_above_one_half():
    grey = digits(normalize=False).splits["val"].x
    binary = digits(normalize=False, binarize=True).splits["val"].x
    assert torch.equal(binary, torch.where(grey > 0.5, 1.0, 0.0))
    assert digits(binarize=True).splits["train"].x.unique().numel() == 2


def test_a_constant_channel_is_centered_and_not_divided_by_zero():
    pixels = torch.zeros(5, 3, 4, 4, dtype=torch.uint8)
    pixels[:, 1] = 4
    pixels[0, 2] = 16
    scaling = Scaling(16, binarize=False)
    mean, std = moments(count_values(pixels, torch.arange(5)), scaling)
    assert mean.tolist() == [0, 0.25, pytest.approx(0.2)]
    assert std.tolist() == [1, 1, pytest.approx(0.4)]


@pytest.mark.parametrize("binarize", [False, True])
@pytest.mark.parametrize("max_pixel", [16, 255])
def test_moments_are_those_of_all_numbers_to_the_last_bit(max_pixel, binarize):
    random = torch.Generator().manual_seed(0)
    pixels = torch.randint(max_pixel + 1, (500, 3, 9, 7), generator=random, dtype=torch.uint8)
    place = torch.randperm(500, generator=random)[:321]
    scaling = Scaling(max_pixel, binarize=binarize)
    mean, std = moments(count_values(pixels, place), scaling)
    expected_std, expected_mean = torch.std_mean(scaling(pixels[place]), dim=(0, 2, 3), correction=0)
    assert torch.equal(mean, expected_mean)
    assert torch.equal(std, expected_std)


def test_probe_batch_is_the_first_validation_samples_whatever_the_seed():
    x, y = digits(seed=1).probe_batch(32)
    val = digits(seed=2).splits["val"]
    assert torch.equal(x, val.x[:32])
    assert torch.equal(y, val.y[:32])
    assert len(digits().probe_batch(10_000)[0]) == 288
