"""Batches of an epoch: which rows, in which order, the same for every process and device."""

import hashlib

import pytest
import torch
from refusals import refused

from normexp.data import Digits
from normexp.data.orders import ClassPairedOrder, ShuffledOrder, WindowOrder


def test_shuffled_order_is_a_permutation_without_the_incomplete_last_batch():
    batches = ShuffledOrder(103, batch_size=10, seed=0).batches(0)
    assert batches.shape == (10, 10)
    assert len(set(batches.flatten().tolist())) == 100
    assert set(batches.flatten().tolist()) <= set(range(103))


def test_shuffled_order_equals_randperm_of_a_generator_seeded_by_the_hash_of_seed_and_epoch():
    seed = int.from_bytes(hashlib.sha256(b"('batches', 7, 3)").digest()[:8], "little") // 2
    expected = torch.randperm(100, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(ShuffledOrder(100, 5, seed=7).batches(3).flatten(), expected)


def test_order_is_a_pure_function_of_seed_and_epoch_and_leaves_the_global_rng_alone():
    state = torch.get_rng_state()
    order = ShuffledOrder(100, batch_size=10, seed=1)
    first = order.batches(4)
    order.batches(5)
    assert torch.equal(first, order.batches(4))
    assert torch.equal(first, ShuffledOrder(100, 10, seed=1).batches(4))
    assert not torch.equal(first, order.batches(5))
    assert not torch.equal(first, ShuffledOrder(100, 10, seed=2).batches(4))
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
    data = Digits(**{"batch_size": 64, "eval_batch_size": 512, "val_size": 288} | options)
    with refused(message):
        data.load()


def test_samples_per_class_reaches_the_loader():
    data = Digits(batch_size=20, eval_batch_size=512, val_size=288, samples_per_class=4)
    for _, y in data.train_dataloader():
        assert y.bincount().unique().tolist() in ([0, 4], [4])
