"""A run of short epochs writes its first checkpoint, its last, and between them one a second."""

import pytest
import torch

from normexp.config.run_spec import specs
from normexp.training import checkpoint
from normexp.training.build import build
from normexp.training.checkpoint import LastCheckpoint
from normexp.training.train import launch

RUN = ["trainer=cpu", "model.width=8", "model.depth=1", "max_epochs=5", "batch_size=512", "monitor=none"]


@pytest.fixture
def saved(monkeypatch):
    """The step of each `last.ckpt` that was saved."""
    seen, save = [], LastCheckpoint.save

    def spied(self, trainer):
        seen.append(trainer.global_step)
        save(self, trainer)

    monkeypatch.setattr(LastCheckpoint, "save", spied)
    return seen


def run(tmp_path, *options: str):
    return build(*specs([*RUN, *options, f"outputs={tmp_path}"]))


@pytest.mark.parametrize(("rest", "epochs"), [(0.0, [1, 2, 3, 4, 5]), (3600.0, [1, 5])])
def test_epochs_between_two_checkpoints_leave_none(tmp_path, monkeypatch, saved, rest, epochs):
    monkeypatch.setattr(checkpoint, "REST", rest)
    parts = run(tmp_path)
    launch(parts)
    assert saved == [2 * epoch for epoch in epochs]
    last = torch.load(next(tmp_path.rglob("last.ckpt")), weights_only=True)
    assert last["global_step"] == 10
    for name, value in parts.module.state_dict().items():
        assert torch.equal(last["state_dict"][name], value)


@pytest.mark.parametrize(
    ("words", "steps"),
    [("max_steps=9", {9}), ("max_epochs=3", {6}), ("norm=none lr=1e12 recipe=plain", set(range(1, 10)))],
)
def test_the_last_step_leaves_one_wherever_the_run_ends(tmp_path, monkeypatch, saved, words, steps):
    """Also where it diverged."""
    monkeypatch.setattr(checkpoint, "REST", 3600.0)
    launch(run(tmp_path, *words.split()))
    last = torch.load(next(tmp_path.rglob("last.ckpt")), weights_only=True)
    assert saved[-1] == last["global_step"]
    assert saved[-1] in steps
