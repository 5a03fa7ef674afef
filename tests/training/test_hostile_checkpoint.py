"""A checkpoint may come from a stranger: whatever it holds, nothing of it runs."""

import os
import signal
from pathlib import Path

import pytest
import torch
from config.hostile import Trap, write_trap
from test_run import AtStep

from normexp.training.checkpoint import NEEDED_TO_RESUME, load_checkpoint, load_to_resume


def archive(path: Path, mark: Path) -> None:
    torch.save({"global_step": 1, "state_dict": {}, "more": Trap(mark)}, path)


@pytest.mark.parametrize("write", [write_trap, archive])
@pytest.mark.parametrize("load", [load_checkpoint, load_to_resume])
def test_nothing_in_a_checkpoint_runs(write, load, tmp_path):
    path = tmp_path / "run" / "checkpoints" / "last.ckpt"
    path.parent.mkdir(parents=True)
    write(path, tmp_path / "sprung")
    with pytest.raises(ValueError, match=r"last\.ckpt: damaged") as caught:
        load(path)
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "sprung").exists()


def test_run_does_not_resume_from_a_trap(train, tmp_path):
    with pytest.raises(SystemExit):
        train(callbacks=[AtStep(3, lambda: os.kill(os.getpid(), signal.SIGINT))])
    (path,) = tmp_path.rglob("last.ckpt")
    archive(path, tmp_path / "sprung")
    with pytest.raises(ValueError, match=r"last\.ckpt: damaged"):
        train()
    assert not (tmp_path / "sprung").exists()
    torch.load(path, weights_only=False)  # the trap is a real one
    assert (tmp_path / "sprung").exists()


@pytest.mark.integration
@pytest.mark.parametrize("key", NEEDED_TO_RESUME)
def test_checkpoint_that_lacks_a_part_says_so(key, train, tmp_path):
    with pytest.raises(SystemExit):
        train(callbacks=[AtStep(3, lambda: os.kill(os.getpid(), signal.SIGINT))])
    (path,) = tmp_path.rglob("last.ckpt")
    content = torch.load(path, weights_only=True)
    torch.save({name: value for name, value in content.items() if name != key}, path)
    with pytest.raises(
        ValueError, match=rf"last\.ckpt: damaged \(lacks {key}: nothing can go on from there\)"
    ):
        train()
