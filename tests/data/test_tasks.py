"""A sequence of tasks inside one run: against loops over pixels and labels, and trained and resumed."""

import functools

import pytest
import small_digits
import torch
from refusals import refused
from test_data_resume import check_resumed

from normexp.config.run_spec import specs
from normexp.data.transforms import Tasks, new_order
from normexp.runs import read_summary
from normexp.training.build import build
from normexp.training.train import train

SMALL = ("data=digits", "model=mlp", "model.depth=1", "model.width=8")
SMALL += ("monitor=none", "trainer=cpu", "batch_size=32")
SHORT = ("max_steps=5", "val_every_n_steps=2", "data.task_batches=2")  # ends in the third task


digits = functools.partial(small_digits.digits, batch_size=16, train_size=70)


def test_pixels_move_alike_in_every_channel_and_image_and_labels_stay():
    x, y = torch.randn(3, 2, 4, 5), torch.tensor([0, 2, 1])
    tasks = Tasks("permuted", batches=10, seed=3, num_classes=3)
    for number in (0, 9):
        assert tasks((x, y), number) == (x, y)
    places = new_order(3, 2, 20).tolist()
    assert sorted(places) == list(range(20))
    found, labels = tasks((x, y), 25)
    for n in range(3):
        for c in range(2):
            flat = [value for row in x[n, c].tolist() for value in row]
            assert found[n, c].flatten().tolist() == [flat[place] for place in places]
    assert labels is y
    assert not torch.equal(tasks((x, y), 10)[0], found)
    assert torch.equal(tasks((x, y), 29)[0], found)


def test_classes_get_new_names_and_images_stay():
    x, y = torch.randn(6, 1, 2, 2), torch.tensor([0, 2, 1, 1, 3, 0])
    found, labels = Tasks("relabeled", batches=1, seed=0, num_classes=4)((x, y), 7)
    names = new_order(0, 7, 4).tolist()
    assert sorted(names) == [0, 1, 2, 3]
    assert labels.tolist() == [names[label] for label in y.tolist()]
    assert found is x


@pytest.mark.parametrize("kind", ["permuted", "relabeled"])
def test_batches_are_those_of_one_task_changed_and_the_rows_stay(kind):
    plain, changed = digits().train_dataloader(), digits(tasks=kind, task_batches=3).train_dataloader()
    tasks = Tasks(kind, 3, 0, 10)
    for epoch in (0, 1):
        plain.epoch = changed.epoch = epoch
        for number, (batch, found) in enumerate(zip(plain, changed, strict=True)):
            expected = tasks(batch, 4 * epoch + number)
            assert all(map(torch.equal, found, expected))
            assert all(map(torch.equal, changed.batch(epoch, number), expected))


@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:Checkpoint directory")
@pytest.mark.parametrize("step", [2, 5])
def test_a_resumed_run_goes_on_in_its_task(step, tmp_path):
    relabeled = functools.partial(digits, tasks="relabeled", task_batches=3)
    check_resumed(relabeled, {"max_epochs": 2}, "batch end", step, tmp_path / "last.ckpt")


@pytest.mark.parametrize("kind", ["permuted", "relabeled"])
def test_every_number_of_a_run_is_that_of_its_task(kind, tmp_path):
    asked = specs([*SMALL, *SHORT, f"data.tasks={kind}", f"outputs={tmp_path}"])
    train(*asked)
    summary = read_summary(asked[0].folder)
    parts = build(asked[0])
    state = torch.load(asked[0].folder / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
    parts.module.load_state_dict(state)
    parts.data.load()
    for split in ("train", "val", "test"):
        x, y = Tasks(kind, 2, 0, 10)(tuple(parts.data.splits[split]), 4)
        with torch.no_grad():
            right = (parts.module.eval()(x).argmax(1) == y).double().mean().item()
        assert summary["metrics"][f"{split}/accuracy"] == pytest.approx(right, abs=1e-12)


def test_permuted_images_have_no_mirror_image():
    with refused(r"data\.tta=flip: data\.tasks=permuted .* drop one"):
        digits(tasks="permuted", tta="flip")
    digits(tasks="relabeled", tta="flip")
