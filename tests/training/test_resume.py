"""A run that was stopped goes on from its last checkpoint and ends with the bits of an uninterrupted one; what it
cannot go on from is one line that says so."""

import contextlib
import functools
import json
import os
import shutil
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from config.hostile import Trap, write_trap
from crash.results import difference, events
from forked import begun, run_script, until
from pytorch_lightning import Callback
from recorded import curve
from refusals import refused
from tensorboard.summary.writer import event_file_writer
from test_one_run import AtStep, weights

from normexp.config.errors import one_line_errors
from normexp.training import checkpoint, recorder
from normexp.training.checkpoint import StopOnSignal, Stopped, WholeCheckpoints, load_checkpoint

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _first_event_file(monkeypatch):
    """TensorBoard reads files by name. In one process and one second they differ by a count, and 10 stands before 9."""
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))


def interrupted(train, *options, step=20, signum=signal.SIGINT, callbacks=()):
    """Train a run and stop it at this step of 34."""
    with pytest.raises(SystemExit) as stopped:
        train(*options, callbacks=[*callbacks, AtStep(step, lambda: os.kill(os.getpid(), signum))])
    assert stopped.value.code == 128 + signum


def loops(folder):
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["loops"]


def check_equal(folder, whole):
    assert curve(folder) == curve(whole)
    assert events(folder) == events(whole)
    assert not (folder / "hparams.yaml").exists()
    assert difference(weights(folder), weights(whole)) is None
    assert difference(loops(folder), loops(whole)) is None


@pytest.mark.integration
def test_interrupted_run_resumes_as_if_nothing_had_happened(train, tmp_path):
    """In the middle of an epoch, at its end, and in the next one."""
    # dropout and augmentation draw random numbers at every step
    options = ["model=transformer", "model.depth=1", "model.dropout=0.2", "data.augment=true"]
    options += ["log_every_n_steps=4", "schedule=warmup_cosine", "monitor=gradients"]
    _, whole = train(*options, f"outputs={tmp_path / 'whole'}")
    for step, signum in ((5, signal.SIGINT), (17, signal.SIGTERM), (23, signal.SIGINT)):
        own = functools.partial(train, *options, f"outputs={tmp_path / str(step)}")
        handler = signal.getsignal(signal.SIGINT)
        interrupted(own, step=step, signum=signum)
        summary, folder = own()
        assert summary["steps"] == 34
        assert len(list(folder.glob("events*"))) == 2
        check_equal(folder, whole)
        assert signal.getsignal(signal.SIGINT) is handler


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
def test_a_run_validates_at_the_same_steps_however_often_it_was_interrupted(train, tmp_path, options):
    options = [*options, "data.augment=true", "log_every_n_steps=4", "batch_size=64"]
    _, whole = train(*options, f"outputs={tmp_path / 'whole'}")
    for step in (3, 5, 12, 16, 17):  # 17 batches make an epoch
        interrupted(train, *options, step=step)
    _, folder = train(*options)
    check_equal(folder, whole)


@pytest.mark.integration
@pytest.mark.parametrize("length", ["max_steps=26", "max_epochs=2"])
@pytest.mark.parametrize("every", ["17", "5"])
def test_run_that_goes_on_from_the_end_of_an_epoch_counts_it_once(train, tmp_path, length, every):
    options = [length, f"val_every_n_steps={every}", "batch_size=64"]
    _, whole = train(*options, f"outputs={tmp_path / 'whole'}")
    with pytest.raises(RuntimeError, match="boom"):
        train(*options, callbacks=[AtStep(20, boom)])
    _, folder = train(*options)
    check_equal(folder, whole)


def boom():
    raise RuntimeError("boom")


@pytest.mark.parametrize("options", [["early_stopping=2", "norm=batchnorm", "lr=0.01"], ["norm=none", "lr=1e12"]],
                         ids=["early", "diverged"])  # fmt: skip
def test_a_run_that_ended_early_and_was_killed_before_its_summary_ends_there(
    train, tmp_path, monkeypatch, options
):
    options = ["max_epochs=60", *options]
    whole, whole_folder = train(*options, f"outputs={tmp_path / 'whole'}")
    with monkeypatch.context() as patch:
        patch.setattr("normexp.training.train.final_metrics", lambda *_: boom())
        with pytest.raises(RuntimeError, match="boom"):
            train(*options)
    summary, folder = train(*options)
    assert summary["steps"] < 60 * 17
    for key in ("stopped_early", "status", "steps", "metrics"):
        assert difference(summary.get(key), whole.get(key), key) is None
    check_equal(folder, whole_folder)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
def test_interruption_keeps_a_checkpoint_and_no_summary(train, tmp_path, signum):
    """Then the signal goes to the handler that was there before, as submitit's, which starts the job again. Ctrl-C goes
    no further."""
    handed_on = []
    before = signal.signal(
        signum, lambda number, _: handed_on.append((number, len(list(tmp_path.rglob("last.ckpt")))))
    )
    try:
        interrupted(train, step=3, signum=signum)
    finally:
        signal.signal(signum, before)
    assert handed_on == ([] if signum == signal.SIGINT else [(signum, 1)])
    assert len(list(tmp_path.rglob("last.ckpt"))) == 1
    assert not list(tmp_path.rglob("summary.json"))


@pytest.mark.integration
def test_ctrl_c_in_a_command_says_that_a_checkpoint_is_kept_and_no_more(tmp_path):
    words = ["trainer=cpu", "model.width=16", "max_epochs=100000", f"outputs={tmp_path}"]
    with begun(run_script, [str(ROOT / "train.py"), *words]) as (process, done):
        until(lambda: list(tmp_path.rglob("last.ckpt")))
        os.kill(process, signal.SIGINT)
        found = done()
    assert found.returncode == 130
    assert "interrupted by SIGINT at step " in found.stdout
    assert ": checkpoint kept; the same command goes on from there" in found.stdout
    assert found.stderr == ""


@pytest.mark.integration
@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[gloo] Connection closed by peer"),  # as NCCL's and CUDA's errors are
        ValueError("of a monitor's own"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_takes_no_checkpoint_along_and_is_said(train, capsys, error):
    def fail():
        raise error

    with pytest.raises(SystemExit), one_line_errors():
        train("max_epochs=3", callbacks=[AtStep(20, fail)])
    said = capsys.readouterr()
    assert str(error.args[-1]) in said.err
    assert "the run failed: checkpoint kept; the same command goes on from there" in said.out
    summary, _ = train("max_epochs=3")
    assert "resuming from checkpoints/last.ckpt, at step 17" in capsys.readouterr().out
    assert summary["steps"] == 3 * 17


def test_a_resumed_run_takes_the_threads_of_its_checkpoint_and_records_them(train, tmp_path):
    before = torch.get_num_threads()
    try:
        interrupted(train, "threads=2", step=5)
        torch.set_num_threads(1)
        summary, _ = train("threads=1")
    finally:
        torch.set_num_threads(before)
    assert summary["execution"]["threads"] == 2


def test_seconds_are_those_of_training_in_all_launches_and_not_of_validation(train, monkeypatch):
    """By a clock that a step moves by 1, and a validation by 100."""
    now = [0.0]

    class Clock(Callback):
        def on_train_batch_end(self, *_):
            now[0] += 1

        def on_validation_batch_start(self, *_):
            now[0] += 100

    clock = SimpleNamespace(perf_counter=lambda: now[0], monotonic=time.monotonic)
    monkeypatch.setattr(recorder, "time", clock)
    interrupted(train, callbacks=[Clock()])
    summary, _ = train(callbacks=[Clock()])
    assert now[0] > 200
    assert summary["seconds"] == 34


@pytest.mark.parametrize(
    ("batch", "watching", "stops"), [(6, False, True), (7, False, False), (6, True, False)]
)
def test_a_signal_waits_for_the_gradients_and_the_measurement_of_a_step(batch, watching, stops):
    saved: list = []
    stop = StopOnSignal(saved.append)
    others = [SimpleNamespace(), SimpleNamespace(watching=watching)]
    trainer = SimpleNamespace(accumulate_grad_batches=3, callbacks=others, global_step=2)
    stop.on_train_batch_start(trainer, None, None, batch)
    stop.remember(signal.SIGTERM, None)
    with pytest.raises(Stopped, match="by SIGTERM at step 2") if stops else contextlib.nullcontext():
        stop.on_train_batch_start(trainer, None, None, batch)
    assert saved == [trainer] * stops


def test_the_first_launch_counts_however_often_a_run_is_resumed(train, monkeypatch):
    class Clock(checkpoint.datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, day, tzinfo=tz)

    monkeypatch.setattr(checkpoint.datetime, "datetime", Clock)
    for day, name, dirty in ((1, "a", False), (2, "b", True), (3, "c", False)):
        found = {"commit": name * 40, "dirty": dirty}
        monkeypatch.setattr(checkpoint, "checkout", lambda found=found: found)
        if day < 3:
            interrupted(train, "max_epochs=3", step=20 * day)
        else:
            summary, _ = train("max_epochs=3")
    assert summary["first"] == {"started": "2026-01-01T00:00:00+00:00", "commit": "a" * 40, "dirty": False}
    assert summary["checkout"] == {"commit": "a" * 40, "dirty": True}  # one launch was
    assert summary["finished"].startswith("2026-01-03")
    json.dumps(summary)


# What a run cannot go on from.


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda run: {"run": run | {"numerics": 0}}, "was computed with numerics=0"),
        (lambda _: {}, "it is no checkpoint"),
    ],
    ids=["numerics", "no run"],
)
def test_a_checkpoint_of_other_numerics_or_of_something_else_is_refused(train, tmp_path, change, said):
    interrupted(train, "lr=0.01", step=3)
    (path,) = tmp_path.rglob("last.ckpt")
    content = torch.load(path, weights_only=True)
    torch.save(content | change(content.pop("run")), path)
    with refused(rf"last\.ckpt: damaged \({said}"):
        train("lr=0.01")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.integration
@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("checkpoints/last.ckpt", cut),
        ("checkpoints/last.ckpt", lambda path: path.write_bytes(b"")),
        ("checkpoints/last.ckpt", lambda path: torch.save([1], path)),
        ("metrics.csv", cut),
        ("metrics.csv", lambda path: path.unlink()),
        ("summary.json", lambda path: path.write_text('{"status": "comp')),
    ],
    ids=["cut", "empty", "list", "cut csv", "no csv", "summary"],
)
def test_damaged_file_is_one_line_that_names_it_and_the_remedy(train, tmp_path, capsys, file, damage):
    options = ["max_epochs=3", "log_every_n_steps=4"]
    interrupted(train, *options)
    (path,) = (tmp_path / "outputs" / "runs" / "mlp").iterdir()
    damage(path / file)
    capsys.readouterr()
    with refused("damaged") as caught:
        train(*options)
    assert str(caught.value).startswith(f"{path / file}: damaged (")
    assert str(caught.value).endswith(f"; remove the folder {path} and run it again")
    assert "goes on from there" not in capsys.readouterr().out
    shutil.rmtree(path)
    assert train(*options)[0]["steps"] == 3 * 17


def archive(path: Path, mark: Path) -> None:
    torch.save({"global_step": 1, "state_dict": {}, "more": Trap(mark)}, path)


@pytest.mark.parametrize("write", [write_trap, archive])
def test_nothing_in_a_strangers_checkpoint_runs(write, train, tmp_path):
    interrupted(train, step=3)
    (path,) = tmp_path.rglob("last.ckpt")
    write(path, tmp_path / "sprung")
    with refused(r"last\.ckpt: damaged"):
        load_checkpoint(path)
    with refused(r"last\.ckpt: damaged"):
        train()
    assert not (tmp_path / "sprung").exists()


# How checkpoints are written.


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_checkpoint_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch, where):
    path = tmp_path / "checkpoints" / "last.ckpt"
    WholeCheckpoints().save_checkpoint({"step": 1}, path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, where, full)
    with pytest.raises(OSError, match="No space"):
        WholeCheckpoints().save_checkpoint({"step": 2}, path)
    monkeypatch.undo()
    assert torch.load(path, weights_only=True)["step"] == 1
    assert [one.name for one in path.parent.iterdir()] == ["last.ckpt"]
