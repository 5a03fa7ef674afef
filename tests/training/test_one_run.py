"""One run from parts to folder: what it leaves, and what its numbers are."""

import json

import pytest
import torch
from pytorch_lightning import Callback
from recorded import curve
from refusals import refused

from normexp.runs import load


class AtStep(Callback):
    """Does something once, after a given optimizer step."""

    def __init__(self, step, action):
        self.step, self.action = step, action

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == self.step:
            self.action()


def saved(folder, name="last"):
    return torch.load(folder / "checkpoints" / f"{name}.ckpt", weights_only=True)


def weights(folder):
    return saved(folder)["state_dict"]


def test_run_leaves_what_the_contract_names(train):
    summary, folder = train("seed=3")
    assert folder.name.startswith("layernorm-bs64-s3-")
    assert folder.parent.name == "mlp"
    for name in ("metrics.csv", "checkpoints/last.ckpt", "checkpoints/best.ckpt", ".hydra/config.yaml"):
        assert (folder / name).is_file(), name
    assert list(folder.glob("events.out.tfevents.*"))
    assert not (folder / ".lock").exists()
    written = json.loads((folder / "summary.json").read_text())
    assert written == json.loads(json.dumps(summary))
    assert written["status"] == "completed"
    assert written["choices"]["norm"] == "layernorm"
    assert written["config"]["seed"] == 3
    assert written["steps"] == 2 * (1149 // 64)
    measured = {f"{s}/{m}" for s in ("train", "val", "test") for m in ("loss", "accuracy")}
    anew = {f"{s}/{m}_reestimated" for s in ("val", "test") for m in ("loss", "accuracy")}
    assert set(written["metrics"]) == measured | anew


def test_logged_training_loss_is_the_mean_over_its_interval(train):
    seen = []

    class Watch(Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            seen.append(outputs["batch_loss"].item())

    _, folder = train("log_every_n_steps=5", "max_steps=10", "val_every_n_steps=1000", callbacks=[Watch()])
    logged = [float(row[3]) for row in curve(folder) if row[2] == "train/loss"]
    assert logged == pytest.approx([sum(seen[:5]) / 5, sum(seen[5:]) / 5], rel=1e-6)


def test_finished_run_is_not_trained_again(train):
    first, folder = train()
    before = (folder / "summary.json").stat().st_mtime_ns
    again, same = train(callbacks=[AtStep(1, lambda: pytest.fail("trained again"))])
    assert (same, again) == (folder, json.loads(json.dumps(first)))
    assert (folder / "summary.json").stat().st_mtime_ns == before


def test_divergence_step_is_the_first_loss_that_is_not_finite(train):
    seen = []

    class Watch(Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            if not outputs["batch_loss"].isfinite():
                seen.append(trainer.global_step)

    summary, _ = train("norm=none", "lr=1e12", "log_every_n_steps=100", callbacks=[Watch()])
    assert summary["convergence"]["divergence_step"] == seen[0]


def test_zero_steps_measure_the_network_at_initialization(train, make_parts):
    initial = make_parts("max_steps=0").module.model.state_dict()
    summary, folder = train("max_steps=0")
    assert summary["steps"] == 0
    assert summary["status"] == "completed"
    assert 2 < summary["metrics"]["test/loss"] < 4
    assert all(torch.equal(weights(folder)[f"model.{name}"], value) for name, value in initial.items())


def test_two_launches_of_one_run_do_not_mix(train, tmp_path):
    def second_launch():
        with refused("another process is training this run"):
            train()

    summary, _ = train(callbacks=[AtStep(3, second_launch)])
    assert summary["status"] == "completed"


# 20 batches, 7 steps
ACCUMULATED = ["trainer.accumulate_grad_batches=3", "batch_size=57", "schedule=constant"]


def test_accumulation_counts_steps_epochs_and_samples_as_they_are(train):
    summary, folder = train(*ACCUMULATED, "max_epochs=3", "val_every_n_steps=5", "log_every_n_steps=1")
    assert (summary["steps"], summary["epochs"]) == (21, 3.0)
    rows = curve(folder)
    assert [int(row[0]) for row in rows if row[2] == "val/accuracy"] == [5, 10, 15, 20]
    trained = [(int(row[0]), float(row[1])) for row in rows if row[2] == "train/loss"]
    ends = [step * 3 for step in range(1, 7)] + [20]  # batches after each step of an epoch
    expected = [epoch + batches / 20 for epoch in range(3) for batches in ends]
    assert [step for step, _ in trained] == list(range(1, 22))
    assert [epoch for _, epoch in trained] == pytest.approx(expected, rel=1e-5)
    assert summary["samples"] == 57 * 60
    table = load(folder.parent)
    seen = table[table["metric"] == "train/loss"].set_index("step")["samples"].to_dict()
    assert seen == {step: 57 * round(20 * epoch) for step, epoch in enumerate(expected, 1)}


def test_the_last_step_of_an_epoch_averages_the_batches_it_has(train, make_parts):
    """20 batches in threes: the seventh step has two. Against one pass over each step's batches, in float64."""
    options = [*ACCUMULATED, "max_epochs=1", "trainer=float64", "optimizer=sgd", "recipe=plain"]
    _, folder = train(*options)
    parts = make_parts(*options)
    module = parts.module.double().train()
    optimizer = module.make_optimizer(module.parameters())
    batches = [(x.double(), y) for x, y in parts.data.train_dataloader()]
    for first in range(0, 20, 3):
        x, y = (torch.cat(side) for side in zip(*batches[first : first + 3], strict=True))
        optimizer.zero_grad()
        module.training_step((x, y), 0)["loss"].backward()
        optimizer.step()
    trained = weights(folder)
    for name, value in module.state_dict().items():
        torch.testing.assert_close(trained[name], value, rtol=1e-9, atol=1e-12)


def test_a_run_ends_after_patience_validations_without_a_better_accuracy(train):
    summary, folder = train("max_epochs=60", "early_stopping=2", "norm=batchnorm", "lr=0.01")
    accuracies = [float(value) for _, _, metric, value in curve(folder) if metric == "val/accuracy"]
    assert summary["stopped_early"] is True
    assert summary["status"] == "completed"
    assert len(accuracies) < 60
    assert max(accuracies[-2:]) <= max(accuracies[:-2])
    for end in range(3, len(accuracies)):  # and not before
        assert max(accuracies[end - 2 : end]) > max(accuracies[: end - 2])
    assert saved(folder, "best")["global_step"] == summary["convergence"]["best_step"] > 17
    whole, _ = train("max_epochs=2")
    assert "stopped_early" not in whole
