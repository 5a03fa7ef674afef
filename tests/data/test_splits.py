"""Splits are disjoint, exhaustive, stratified, nested, and do not move with the run's seed."""

import contextlib
import functools
import hashlib
from pathlib import Path

import numpy as np
import pytest
import small_digits
import torch
from refusals import refused

from normexp.data import images
from normexp.data.orders import stratified_order

digits = functools.partial(small_digits.digits, normalize=False)


def as_set(images: torch.Tensor) -> set[bytes]:
    return {image.numpy().tobytes() for image in images}


@pytest.mark.parametrize("counts", [[50, 50, 50], [10, 20, 70], [1, 2, 3, 4]], ids=str)
def test_stratified_order_takes_each_class_in_proportion_at_every_place(counts):
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    order = stratified_order(labels, seed=3)
    assert sorted(order.tolist()) == list(range(len(labels)))
    for length in range(1, len(labels) + 1):
        taken = np.bincount(labels[order[:length]], minlength=len(counts))
        ideal = np.array(counts) * length / len(labels)
        assert np.abs(taken - ideal).max() <= 1.5


def test_stratified_order_depends_on_its_seed_alone():
    labels = torch.arange(1000) % 10
    torch.manual_seed(1)
    first = stratified_order(labels, seed=5)
    torch.manual_seed(2)
    assert torch.equal(first, stratified_order(labels, seed=5))
    assert not torch.equal(first, stratified_order(labels, seed=6))


def raw_digits():
    file = np.load(Path(images.__file__).with_name("digits.npz"))
    return file["images"].astype(float), file["labels"].astype(int)


def test_digits_are_those_that_scikit_learn_reads():
    """By a digest of its numbers, and against itself where it is installed."""
    pixels, labels = raw_digits()
    content = pixels.astype(np.uint8).tobytes() + labels.astype(np.uint8).tobytes()
    digest = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"
    assert hashlib.sha256(content).hexdigest() == digest
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]  # as UCI says
    with contextlib.suppress(ImportError):
        from sklearn.datasets import load_digits

        own = load_digits()
        assert (own.images == pixels).all()
        assert (own.target == labels).all()


def test_digits_splits_are_disjoint_exhaustive_and_stratified_with_their_labels():
    raw_images, raw_labels = raw_digits()
    data = digits()
    sizes = {name: len(split.y) for name, split in data.splits.items()}
    assert sizes == {"train": 1149, "val": 288, "test": 360}
    rows = [row for split in data.splits.values() for row in zip(split.x, split.y.tolist(), strict=True)]
    together = [(image.numpy().tobytes(), label) for image, label in rows]
    pixels = [image.tobytes() for image in (raw_images / 16).astype(np.float32)]
    expected = zip(pixels, raw_labels, strict=True)
    assert sorted(together) == sorted(expected)
    for split in data.splits.values():
        ideal = np.bincount(raw_labels) * len(split.y) / 1797
        assert np.abs(np.bincount(split.y) - ideal).max() <= 1.5


def test_the_run_seed_moves_no_split_and_the_split_seed_cuts_all_three_anew():
    first, other_run, other_split = digits(), digits(seed=1), digits(split_seed=1)
    for name in ("train", "val", "test"):
        assert torch.equal(first.splits[name].x, other_run.splits[name].x)
        assert len(first.splits[name].y) == len(other_split.splits[name].y)
        assert as_set(first.splits[name].x) != as_set(other_split.splits[name].x)
    parts = [as_set(split.x) for split in other_split.splits.values()]
    assert as_set(torch.cat([split.x for split in first.splits.values()])) == set.union(*parts)
    ideal = np.bincount(torch.cat([split.y for split in first.splits.values()])) * 360 / 1797
    assert np.abs(np.bincount(other_split.splits["test"].y) - ideal).max() <= 1.5


def test_the_standard_split_of_digits_stays():
    """Computed by the version that cut validation alone: verdicts rest on this split."""
    content = hashlib.sha256()
    for split in digits().splits.values():
        content.update(split.x.numpy().tobytes() + split.y.numpy().tobytes())
    assert content.hexdigest() == "539750528f76df9994066dac0363d625fb6ad4d70dc7d4cc43b6f4ead7818081"


def test_smaller_training_subsets_are_stratified_and_lie_within_larger_ones():
    subsets = [digits(train_size=size).splits for size in (100, 500, None)]
    small, large, full = (as_set(splits["train"].x) for splits in subsets)
    assert small < large < full
    assert np.bincount(subsets[0]["train"].y).min() >= 9
    for splits in subsets:
        assert torch.equal(splits["val"].x, subsets[0]["val"].x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"val_size": 0}, "data.val_size=0: 1437 training images can give 1..1436 to validation"),
        ({"val_size": 1437}, "data.val_size=1437: "),
        ({"train_size": 0}, "data.train_size=0: validation leaves 1,149 images; choose 1..1149"),
        ({"train_size": 1150}, "data.train_size=1150: "),
        ({"shift": 8, "augment": True}, r"data.shift=8: must lie in 0..7, within the image"),
        (
            {"batch_size": 1150},
            "batch_size=1150: the training split has 1,149 samples .* choose at most 1149",
        ),
        ({"train_size": 32}, "batch_size=64: the training split has 32 samples"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_option_that_does_not_fit_the_data_is_refused_in_one_line(options, message):
    with refused(message):
        digits(**options)
