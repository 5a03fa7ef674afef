"""A run that stops says what is so, once: what it left, and what the same command will do."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
from forked import begun, run_script
from test_run import AtStep

from normexp.config.errors import one_line_errors
from normexp.training import fit

ROOT = Path(__file__).parents[2]


@pytest.mark.integration
def test_ctrl_c_in_training_says_that_a_checkpoint_is_kept_and_no_more(tmp_path):
    words = ["trainer=cpu", "model.width=16", "max_epochs=100000", f"outputs={tmp_path}"]
    with begun(run_script, [str(ROOT / "train.py"), *words]) as (process, done):
        end = time.monotonic() + 120
        while not list(tmp_path.rglob("last.ckpt")) and time.monotonic() < end:
            time.sleep(0.1)
        os.kill(process, signal.SIGINT)
        found = done()
    assert found.returncode == 130
    out, err = found.stdout, found.stderr
    assert "interrupted by SIGINT at step " in out
    assert ": checkpoint kept; the same command goes on from there" in out
    assert err == ""


@pytest.mark.parametrize("begun", [False, True])
def test_ctrl_c_that_a_library_turns_into_an_error_says_what_is_so(train, monkeypatch, capsys, begun):
    if begun:
        with pytest.raises(SystemExit):
            train(callbacks=[AtStep(20, lambda: os.kill(os.getpid(), signal.SIGINT))])

    def answer(*_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("the library was interrupted") from None

    monkeypatch.setattr(fit, "open_records", answer)
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped, one_line_errors():
        train()
    said = capsys.readouterr()
    assert stopped.value.code == 130
    assert said.err == ""
    left = (
        "checkpoint kept; the same command goes on from there, at step 20" if begun else "no checkpoint yet"
    )
    assert f"interrupted: {left}" in said.out


def test_an_error_in_training_is_said_also_if_ctrl_c_came_long_before(train, capsys):
    def fail():
        raise OSError("the disk is gone")

    def run():
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        train(callbacks=[AtStep(20, fail)])

    with pytest.raises(SystemExit), one_line_errors():
        run()
    said = capsys.readouterr()
    assert "the run failed: checkpoint kept; the same command goes on from there, at step 17" in said.out
    assert "the disk is gone" in said.err
    assert "nothing was written" not in said.err


def test_a_damaged_file_is_told_with_its_remedy_and_no_other(train, tmp_path, capsys):
    with pytest.raises(SystemExit):
        train(callbacks=[AtStep(20, lambda: os.kill(os.getpid(), signal.SIGINT))])
    (rows,) = tmp_path.rglob("metrics.csv")
    rows.write_bytes(rows.read_bytes()[:100])
    capsys.readouterr()
    with pytest.raises(SystemExit), one_line_errors():
        train()
    said = capsys.readouterr()
    assert "metrics.csv: damaged (" in said.err
    assert "remove the folder" in said.err
    assert "goes on from there" not in said.out
