"""A user's own LightningDataModule or Dataset: the project's batches, the user's items, one line for each mistake."""

import functools
import random

import numpy as np
import own_sets
import pytest
import torch
from refusals import refused

from normexp.config.folder import allow_from
from normexp.config.run_spec import specs
from normexp.data import OwnData
from normexp.training.build import build


def own(target, options=None, **more) -> OwnData:
    module = functools.partial(target, **(options or {}))
    data = OwnData(**{"module": module, "batch_size": 8, "eval_batch_size": 25} | more)
    data.load()
    return data


@pytest.mark.parametrize("target", [own_sets.Noisy, own_sets.Module])
def test_items_are_the_users_and_batches_the_projects(target):
    data = own(target)
    assert (data.kind, data.input_shape, data.num_classes) == ("image", (3, 8, 8), 3)
    said = "60 train / 60 val / 60 test items of 3x8x8, 3 classes; fingerprint of all items"
    assert data.describe() == f"{target.__name__}: {said}"
    expected = own_sets.Noisy("val")
    x, y = (torch.cat(parts) for parts in zip(*data.evaluation_loader("val"), strict=True))
    assert torch.equal(x, expected.x)
    assert torch.equal(y, expected.labels)
    order = data.training_order(data.splits["train"]).batches(0)
    labels = own_sets.Noisy("train").labels
    for (_, y), rows in zip(data.train_dataloader(), order, strict=True):
        assert torch.equal(y, labels[rows])
    assert torch.equal(data.splits["train"].y, labels)


def first_epoch(data) -> torch.Tensor:
    return torch.cat([x for x, _ in data.train_dataloader()])


def test_random_transforms_depend_on_seed_epoch_and_item_alone():
    first = first_epoch(own(own_sets.Noisy))
    assert torch.equal(first, first_epoch(own(own_sets.Module)))  # two workers
    loader = own(own_sets.Noisy).train_dataloader()
    loader.load_state_dict({"epoch": 0, "batch": 3})  # resumed
    assert torch.equal(torch.cat([x for x, _ in loader]), first[24:])
    loader.epoch = 1
    second = loader.batch(1, 2)[0]
    assert torch.equal(second, loader.batch(1, 2)[0])
    same_items = own_sets.Noisy("train").x[loader.order.batches(1)[2]]
    assert not torch.equal(second - same_items, loader.batch(0, 2)[0] - same_items)
    assert not torch.equal(first, first_epoch(own(own_sets.Noisy, seed=1)))


def test_reading_items_leaves_the_global_generators_alone():
    data = own(own_sets.Noisy)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    first_epoch(data)
    data.probe_batch(5)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert np.random.get_state()[1].tolist() == states[2]


@pytest.mark.parametrize("split", ["train", "val", "test"])
@pytest.mark.parametrize("change", [{"label": (64, 2)}, {"label": (298, 2)}, {"pixel": 299}], ids=str)
def test_every_item_of_a_split_counts(split, change):
    """Labels that were changed from item 64 on gave "This run is finished"."""
    first, changed = own(own_sets.Edited), own(own_sets.Edited, {"edited": split, **change})
    assert first.fingerprint != changed.fingerprint
    assert (first.test_set != changed.test_set) is (split == "test")
    assert own(own_sets.Edited, workers=2, seed=3, batch_size=4).fingerprint == first.fingerprint


def test_a_fingerprint_of_the_users_is_believed_and_reads_little():
    first, changed = (own(own_sets.Named, {"edited": "train", "label": (64, label)}) for label in (1, 2))
    assert first.fingerprint == changed.fingerprint
    assert first.covered == "what Named.fingerprint says"
    assert len(first.loaders["val"].dataset.asked) <= 2


@pytest.mark.parametrize("label", [3, -1, 255])
@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_a_label_out_of_range_is_refused_before_training(split, label):
    """It ended in an IndexError, in the evaluation after all training."""
    with refused(rf"data.path: Edited, {split}: .* a batch has labels .*, and 3") as e:
        own(own_sets.Edited, {"edited": split, "label": (170, label)})
    assert str(e.value).endswith("classes are 0..2; repair them, or set data.classes=N)")


def test_an_item_that_cannot_be_read_is_one_line_before_training():
    for workers in (0, 2):
        with refused(r"Edited, val: an item cannot be read \(OSError: .*item 290\)"):
            own(own_sets.Edited, {"edited": "val", "broken": 290}, workers=workers)


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (own_sets.Nameless, {}, "data.classes is not set, and Nameless has no num_classes; add data.classes=N"),
        (own_sets.Noisy, {"kind": "text"}, "must give, for train and data.kind=text, int64 tokens .*gives float32"),
        (own_sets.Bytes, {}, r"must give, for train .* float32 inputs .*gives uint8 \(1, 3, 8, 8\) and int64"),
        (own_sets.Constant, {}, "all samples of the training split have one class; give it two or more"),
        (own_sets.Broken, {}, "RuntimeError: is gone"),
        (own_sets.NoneToTest, {}, "must give, for test and .* it has no item"),
        (own_sets.NotFinite, {}, "NotFinite, train: .*not finite"),
        (own_sets.Worded, {}, "Worded.num_classes='three': must be a whole number; set data.classes=N"),
        (own_sets.Stream, {}, "Stream.train_dataloader.*give one DataLoader of a Dataset with numbered"),
        (own_sets.NoSplits, {}, "NoSplits: TypeError: .*'split'"),
        (own_sets.WithoutTest, {}, "WithoutTest: .*test_dataloader"),
        (own_sets.TwoLoaders, {}, r"TwoLoaders.val_dataloader\(\): give one DataLoader"),
        (own_sets.Noisy, {"batch_size": 61}, "batch_size=61: the training split has 60 samples"),
        # All items would be used: validation on samples that were trained.
        (own_sets.SplitBySampler, {}, "chooses items by SubsetRandomSampler.*give a Dataset of these"),
        (own_sets.WeightedTraining, {}, "chooses items by WeightedRandomSampler.*give a Dataset of these"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_on_is_one_line(target, options, message):
    with refused(message):
        own(target, **options)


def test_numbers_that_are_not_finite_are_read_outside_the_training_split():
    assert len(own(own_sets.NotFiniteToTest).splits["test"]) == 60


OVERRIDES = ["data=module", "data.path=own_sets.Noisy", "+data.module.size=70", "trainer=cpu", "monitor=none"]


def test_a_run_on_own_data_is_found_by_name_and_must_be_allowed():
    with refused(r"allow_targets=\[own_sets\]"):
        build(specs(OVERRIDES)[0])
    allow_from(["allow_targets=[own_sets]"])
    parts = build(specs(OVERRIDES)[0])
    assert len(parts.data.splits["train"]) == 70
    assert parts.choices["data"] == "module"
    with refused(r"data.path: is missing; add data.path=VALUE"):
        build(specs(["data=module"])[0])
    with refused(r"did you mean data.module.size"):
        build(specs([*OVERRIDES, "+data.module.siz=1"])[0])


@pytest.mark.parametrize("target", [own_sets.DrawsItsSplit, own_sets.DrawsItsPart])
def test_a_split_that_is_drawn_without_a_seed_is_always_the_same(target):
    """Else each launch and each norm would have another one, and training could see samples of validation."""
    states = torch.get_rng_state(), np.random.get_state()[1].tolist()
    first, second = own(target), own(target, seed=3)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.random.get_state()[1].tolist() == states[1]
    torch.manual_seed(7)
    np.random.seed(7)
    third = own(target)
    assert first.fingerprint == second.fingerprint == third.fingerprint
    train, val = ({tuple(x.flatten().tolist()) for x in first.splits[split].x} for split in ("train", "val"))
    assert (len(train), len(val)) == (40, 20)
    assert not train & val
