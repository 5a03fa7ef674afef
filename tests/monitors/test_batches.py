"""Batches of any class are copied, counted and cut as they are, and taking one costs no random number."""

import random
from collections import UserDict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from odd_modules import Graphs
from small_module import Small, batches
from torch.nn import functional as F
from torch.utils.data import DataLoader, RandomSampler

from normexp.monitors.batches import (
    first_batch,
    images_of,
    leading_size,
    loss_of_output,
    random_signs,
    rows_of,
)
from normexp.monitors.guard import NoLoss, copied_batch, same_random, step_output

Pair = namedtuple("Pair", ["x", "y"])


@dataclass
class Sample:
    x: torch.Tensor
    name: str = "a"


def x(n=3):
    return torch.arange(n * 2.0).view(n, 2)


COUNTED = {
    "tensor": x, "tuple": lambda: (x(), torch.arange(3)), "named": lambda: Pair(x(), torch.arange(3)),
    "mapping": lambda: {"x": x(), "of all": torch.tensor(2.0), "text": "a", "none": None, "number": 3},
    "nested": lambda: [x(), {"y": [torch.arange(3)]}], "dataclass": lambda: Sample(x()),
    "own mapping": lambda: UserDict(x=x(), y=torch.arange(3)),
}  # fmt: skip


@pytest.mark.parametrize("kind", COUNTED)
def test_samples_are_counted_and_cut(kind):
    batch = COUNTED[kind]()
    assert leading_size(batch) == 3
    assert leading_size(rows_of(batch, 1, 3)) == 2
    assert leading_size(batch) == 3


NOT_COUNTED = {
    "of its own": lambda: Graphs(x(), x()), "one of its own inside": lambda: (x(), Graphs(x(), x())),
    "no tensor": lambda: {"a": "text"}, "a number alone": lambda: torch.tensor(1.0),
    "different sizes": lambda: (x(3), x(4)), "samples": lambda: [(x()[0], torch.tensor(1))] * 5,
}  # fmt: skip


@pytest.mark.parametrize("kind", NOT_COUNTED)
def test_what_cannot_be_counted_says_so(kind):
    with pytest.raises(ValueError, match="samples of the batch cannot be counted"):
        leading_size(NOT_COUNTED[kind]())


def first_tensor_of(batch):
    if isinstance(batch, torch.Tensor):
        return batch
    if isinstance(batch, (dict, UserDict)):
        return batch["x"]
    return batch[0] if isinstance(batch, (list, tuple)) else batch.x


@pytest.mark.parametrize("make", [*COUNTED.values(), lambda: Graphs(x(), x())])
def test_a_copy_of_a_batch_can_be_written_into(make):
    batch = make()
    copy = copied_batch(batch)
    assert type(copy) is type(batch)
    first_tensor_of(copy).zero_()
    assert torch.equal(first_tensor_of(batch), x())


def test_an_iterator_is_refused_and_nothing_is_taken_from_it():
    given = iter([1, 2])
    with pytest.raises(ValueError, match="the batch is an iterator, list_iterator"):
        copied_batch((x(), given))
    assert next(given) == 1


def generators():
    return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()


def test_random_numbers_come_back_also_behind_an_error():
    before = generators()
    for error in (KeyError, KeyboardInterrupt):

        def draws(error=error):
            with same_random():
                torch.rand(1), np.random.rand(), random.random()
                raise error

        with pytest.raises(error):
            draws()
        assert generators() == before


@pytest.mark.parametrize("where", ["loader", "sampler", "both"])
def test_the_first_batch_costs_no_random_number_of_the_loader(where):
    own = torch.Generator().manual_seed(0)
    sampler = RandomSampler(range(8), generator=own if where != "loader" else None)
    loader = DataLoader(range(8), 2, sampler=sampler, generator=own if where != "sampler" else None)
    before = own.get_state()
    taken = first_batch(loader)
    assert torch.equal(own.get_state(), before)
    if where != "loader":
        assert torch.equal(taken, next(iter(loader)))


@pytest.mark.parametrize("given", [None, {}, {"loss": None}, {"loss": 1.0}, "text"])
def test_a_step_without_a_loss_has_none(given):
    class Skips(Small):
        def training_step(self, *args):
            assert len(args) == 2
            return given

    with pytest.raises(NoLoss, match="training_step gives no loss"):
        step_output(Skips(), next(iter(batches(1))))


def test_cross_entropy_is_computed_in_single_precision_and_of_samples_alone():
    y, target = torch.randn(6, 4).bfloat16(), torch.arange(6) % 4
    loss, how = loss_of_output(y, target)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(F.cross_entropy(y.double(), target).item(), rel=1e-6)
    assert "cross-entropy" in how
    assert loss_of_output(y[:0], target[:0]) == (None, "")


def test_signs_are_one_and_minus_one_alike_and_always_the_same():
    signs = random_signs((40, 50), torch.ones(1, dtype=torch.float64))
    assert signs.unique().tolist() == [-1, 1]
    assert abs(signs.mean()) < 0.1
    assert torch.equal(signs, random_signs((40, 50), signs))


@pytest.mark.parametrize("kind", [list, tuple])
def test_images_are_a_pair_of_numbers_and_labels(kind):
    images, labels = torch.rand(3, 1, 2, 2), torch.arange(3)
    assert images_of(kind([images, labels]), "M") == (images, labels)
    wrong_pairs = [images], [images, labels, labels], [labels, labels], [images, images]
    for wrong in (*wrong_pairs, images, {"x": images}):
        with pytest.raises(ValueError, match=r"monitor M: .* not \(images, labels\); leave it out"):
            images_of(kind(wrong) if isinstance(wrong, list) else wrong, "M")
