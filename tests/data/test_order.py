"""Batches of an epoch: which rows, in which order, the same for every process and device."""

import hashlib

import pytest
import torch
from refusals import refused
from small_digits import digits

from normexp.data.orders import ClassPairedOrder, ShuffledOrder, WindowOrder


@pytest.mark.parametrize(("seed", "epoch"), [(7, 3), (7, 0), (1, 3)])
def test_shuffled_order_is_a_permutation_of_seed_and_epoch_without_the_incomplete_last_batch(seed, epoch):
    state, order = torch.get_rng_state(), ShuffledOrder(103, batch_size=10, seed=seed)
    digest = hashlib.sha256(f"('batches', {seed}, {epoch})".encode()).digest()
    drawn = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") // 2)
    assert torch.equal(order.batches(epoch), torch.randperm(103, generator=drawn)[:100].view(10, 10))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("num_tokens", [5, 8, 9, 12, 13, 14, 100])
def test_training_windows_do_not_overlap_and_leave_room_for_the_next_token(num_tokens):
    length = 4
    for epoch in range(20):
        order = WindowOrder(num_tokens, length, batch_size=1, seed=0)
        starts = order.batches(epoch).flatten().sort().values
        assert starts[0] in range(length)
        assert starts[-1] + length < num_tokens  # the last target exists
        assert torch.all(starts.diff() == length)
        unused = num_tokens - 1 - len(starts) * length
        assert unused < 2 * length


@pytest.mark.parametrize(("batch_size", "samples_per_class"), [(20, 2), (20, 4), (8, 8), (15, 3)])
def test_class_paired_batches_hold_so_many_samples_of_so_many_classes(batch_size, samples_per_class):
    labels = torch.randint(10, (600,), generator=torch.Generator().manual_seed(0))
    order = ClassPairedOrder(labels, samples_per_class, batch_size, seed=0)
    for epoch in range(3):
        batches = order.batches(epoch)
        assert batches.shape == (600 // batch_size, batch_size)
        for batch in batches:
            assert len(set(batch.tolist())) == batch_size
            values, counts = labels[batch].unique(return_counts=True)
            assert len(values) == batch_size // samples_per_class
            assert set(counts.tolist()) == {samples_per_class}


def test_class_paired_batches_use_the_whole_class_before_repeating_a_sample():
    labels = torch.arange(60) % 3
    order = ClassPairedOrder(labels, samples_per_class=5, batch_size=15, seed=0)  # every class in every batch
    assert sorted(order.batches(0).flatten().tolist()) == list(range(60))
    assert not torch.equal(order.batches(0), order.batches(1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples_per_class": 5}, "data.samples_per_class=5: does not divide batch_size=64"),
        ({"samples_per_class": 2}, "batch_size=64 needs 32 classes .* has 10; batch_size may be at most 20"),
        ({"samples_per_class": 64, "train_size": 100}, "the smallest class has [0-9]+ training samples"),
    ],
)
def test_samples_per_class_that_cannot_be_met_is_refused_in_one_line(options, message):
    with refused(message):
        digits(**options)


def test_samples_per_class_reaches_the_loader():
    for _, y in digits(batch_size=20, samples_per_class=4).train_dataloader():
        assert y.bincount().unique().tolist() in ([0, 4], [4])
