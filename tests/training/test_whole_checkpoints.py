"""Checkpoints never lie in the temporary folder, and one that cannot be written leaves the last one."""

import os
import tempfile
from pathlib import Path

import pytest
import torch

from normexp.training.checkpoint import WholeCheckpoints


def test_run_uses_no_temporary_folder(train, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError):
        tempfile.mkstemp()
    _, folder = train()
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["best.ckpt", "last.ckpt"]


def save(folder: Path, step: int) -> Path:
    path = folder / "checkpoints" / "last.ckpt"
    (folder / "metrics.csv").write_text("step\n")
    WholeCheckpoints().save_checkpoint({"step": step, "recorded": {"metrics.csv": 5}}, path)
    return path


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_checkpoint_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch, where):
    path = save(tmp_path, 1)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, where, full)
    with pytest.raises(OSError, match="No space"):
        save(tmp_path, 2)
    monkeypatch.undo()
    assert torch.load(path, weights_only=True)["step"] == 1
    assert [one.name for one in path.parent.iterdir()] == ["last.ckpt"]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks into /proc")
def test_recorded_rows_reach_the_disk_before_the_checkpoint_that_counts_them(tmp_path, monkeypatch):
    order, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda file: (order.append(Path(f"/proc/self/fd/{file}").readlink().name), fsync(file))
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append("replaced"), replace(a, b)))
    save(tmp_path, 1)
    assert "metrics.csv" in order[: order.index("replaced")]
