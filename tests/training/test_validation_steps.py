"""A run validates at the same steps, however often it was interrupted, and its checkpoints count the same."""

import os
import signal

import pytest
import torch
from test_run import AtStep, curve, weights


def loops(folder):
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["loops"]


def same_counts(one, other, where=""):
    if isinstance(one, dict):
        return [found for key in one for found in same_counts(one[key], other[key], f"{where}/{key}")]
    return [] if one == other else [f"{where}: {one} and {other}"]


@pytest.mark.integration
@pytest.mark.parametrize(
    "options",
    [
        ["max_epochs=2", "val_every_n_steps=6"],
        ["max_steps=26", "val_every_n_steps=5"],
        ["max_epochs=2"],
        ["max_epochs=3", "val_every_n_steps=6", "trainer.accumulate_grad_batches=2"],
    ],
    ids=" ".join,
)
def test_interrupted_run_validates_at_the_same_steps(train, tmp_path, options):
    options = [*options, "data.augment=true", "log_every_n_steps=4", "batch_size=64"]
    _, whole = train(*options, f"outputs={tmp_path / 'whole'}")
    for step in (3, 5, 12, 16, 17):  # 17 batches make an epoch
        with pytest.raises(SystemExit):
            train(*options, callbacks=[AtStep(step, lambda: os.kill(os.getpid(), signal.SIGINT))])
    _, folder = train(*options)
    assert curve(folder) == curve(whole)
    assert all(torch.equal(weights(whole)[name], value) for name, value in weights(folder).items())
    assert same_counts(loops(folder), loops(whole)) == []


@pytest.mark.integration
@pytest.mark.parametrize("length", ["max_steps=26", "max_epochs=2"])
@pytest.mark.parametrize("every", ["17", "5"])
def test_run_that_goes_on_from_the_end_of_an_epoch_counts_it_once(train, tmp_path, length, every):
    options = [length, f"val_every_n_steps={every}", "batch_size=64"]
    _, whole = train(*options, f"outputs={tmp_path / 'whole'}")

    def fail():
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        train(*options, callbacks=[AtStep(20, fail)])
    _, folder = train(*options)
    assert curve(folder) == curve(whole)
    assert same_counts(loops(folder), loops(whole)) == []
