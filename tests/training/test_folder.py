"""A run's folder where the start fails, or something is damaged: one line, and the same command works afterwards."""

import errno
import json
import resource
import shutil
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from pytorch_lightning import Callback

from normexp.training.folder import RunFolder
from normexp.training.survive import StoppedAtOnce

FILES = {"config.yaml": "x" * 100, "hydra.yaml": "", "overrides.yaml": "[]"}


class AtStep(Callback):
    def __init__(self, step, error):
        self.step, self.error = step, error

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == self.step:
            raise self.error


def folder(path: Path, **more) -> RunFolder:
    return RunFolder(path, "a" * 64, FILES, **more)


def test_disk_that_is_full_at_the_start_leaves_nothing(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(ValueError, match=r"outputs=o: cannot be written \(.+\); choose another folder"):
            folder(tmp_path / "o" / "runs" / "a", asked="outputs=o").__enter__()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (tmp_path / "o").exists()
    with folder(tmp_path / "o" / "runs" / "a") as made:
        assert (made.path / ".hydra" / "identity").read_text() == "a" * 64


def test_interruption_while_the_folder_is_made_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", interrupt)
    with pytest.raises(KeyboardInterrupt):
        folder(tmp_path / "o" / "a").__enter__()
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("left", [".hydra/config.yaml", ".hydra/identity", ".hydra.new/config.yaml"])
def test_folder_of_a_process_killed_at_the_start_is_new(tmp_path, left):
    (tmp_path / left).parent.mkdir()
    for name in (left, ".lock"):
        (tmp_path / name).write_text("")
    with folder(tmp_path) as made:
        assert {path.name for path in (tmp_path / ".hydra").iterdir()} == {*FILES, "identity"}
        assert made.path == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == [".hydra"]


def test_lock_that_a_killed_process_left_behind_its_summary_goes(train):
    _, path = train()
    (path / ".lock").write_text("")
    train()
    assert not (path / ".lock").exists()


def test_interruption_while_another_process_is_waited_for_leaves_its_lock(tmp_path, monkeypatch):
    def interrupted(self, *_, **__):
        raise KeyboardInterrupt

    monkeypatch.setenv("NORMEXP_WAIT", "1")
    with folder(tmp_path / "a"):
        monkeypatch.setattr(FileLock, "acquire", interrupted)
        with pytest.raises(KeyboardInterrupt):
            folder(tmp_path / "a").__enter__()
        assert (tmp_path / "a" / ".lock").exists()


@pytest.mark.parametrize("other", [".hydra/mine.yaml", "main.log"])
def test_folder_of_another_program_is_still_refused(tmp_path, other):
    for name in (".hydra/config.yaml", other):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    with pytest.raises(ValueError, match="holds files that are no run of normexp"):
        folder(tmp_path)


@pytest.mark.parametrize("key", ["run_dir", "outputs"])
def test_place_that_cannot_be_written_is_one_line_naming_the_key(train, key):
    with pytest.raises(ValueError, match=f"{key}=/dev/null/x: cannot be written .+; choose another folder"):
        train(f"{key}=/dev/null/x")


@pytest.mark.integration
@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        torch.OutOfMemoryError("CUDA out of memory"),
        StoppedAtOnce(),
        RuntimeError("[gloo] Connection closed by peer"),  # as NCCL's and CUDA's errors are
        ValueError("of a monitor's own"),
        SystemExit(3),  # as submitit's answer to SIGUSR2
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("step", [5, 20], ids=["before a checkpoint", "after one"])
def test_no_error_takes_a_checkpoint_along(train, tmp_path, capsys, error, step):
    with pytest.raises((type(error), SystemExit)) as stopped:
        train("max_epochs=3", callbacks=[AtStep(step, error)])
    assert not isinstance(stopped.value, SystemExit) or stopped.value.code == getattr(error, "code", 130)
    if step < 17:
        assert not (tmp_path / "outputs").exists()
        return
    assert "checkpoint kept; the same command goes on from there" in capsys.readouterr().out
    summary, _ = train("max_epochs=3")
    assert "resuming from checkpoints/last.ckpt" in capsys.readouterr().out
    assert summary["steps"] == 3 * 17


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.integration
@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("checkpoints/last.ckpt", cut),
        ("checkpoints/last.ckpt", lambda path: path.write_bytes(b"")),
        ("checkpoints/last.ckpt", lambda path: torch.save({"a": 1}, path)),
        ("checkpoints/last.ckpt", lambda path: torch.save([1], path)),
        ("metrics.csv", lambda path: path.write_text(path.read_text().replace("\n4,", "\nx,", 1))),
        ("metrics.csv", lambda path: path.write_bytes(b"\xff\xfe\x00")),
        ("summary.json", lambda path: path.write_text('{"status": "comp')),
    ],
    ids=["cut", "empty", "other", "list", "csv", "binary csv", "summary"],
)
def test_damaged_file_is_one_line_that_names_it_and_the_remedy(train, tmp_path, file, damage):
    options = ["max_epochs=3", "log_every_n_steps=4"]
    with pytest.raises(OSError, match="full"):
        train(*options, callbacks=[AtStep(20, OSError("full"))])
    (path,) = (tmp_path / "outputs" / "runs" / "mlp").iterdir()
    damage(path / file)
    before = (path / file).read_bytes()
    with pytest.raises(ValueError, match="damaged") as caught:
        train(*options)
    assert str(caught.value).startswith(f"{path / file}: damaged (")
    assert str(caught.value).endswith(f"; remove the folder {path} and run it again")
    assert "\n" not in str(caught.value)
    assert (path / file).read_bytes() == before
    shutil.rmtree(path)
    assert train(*options)[0]["steps"] == 3 * 17


def test_finished_run_says_that_it_was_recorded_otherwise(train, capsys):
    _, path = train()
    capsys.readouterr()
    train()
    assert "finished with" not in capsys.readouterr().out
    train("monitor=gradients", "accuracies=[0.5]", "log_every_n_steps=7")
    found = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("finished with"))
    assert "monitor=none, not gradients" in found
    assert "log_every_n_steps=20, not 7" in found
    assert found.endswith("name=<another> trains it again with what was asked for")
    assert json.loads((path / "summary.json").read_text())["config"]["log_every_n_steps"] == 20
