"""A checkpoint knows its run: whose it is, and when and from which commit it was first launched."""

import functools
import json
import os
import shutil
import signal

import pytest
import torch
from test_run import AtStep

from normexp.training import fit as summarize

STARTS = [
    {"commit": "a" * 40, "dirty": False},
    {"commit": "b" * 40, "dirty": False},
    {"commit": "c" * 40, "dirty": True},
]


def interrupted(train, *options):
    """The folder of a run that was stopped at step 20 of 34."""
    with pytest.raises(SystemExit):
        train(*options, callbacks=[AtStep(20, lambda: os.kill(os.getpid(), signal.SIGINT))])


def only_folder(tmp_path, rate):
    folders = [path.parents[1] for path in tmp_path.rglob("last.ckpt")]
    (own,) = [path for path in folders if f"lr: {rate}" in (path / ".hydra" / "config.yaml").read_text()]
    return own


@pytest.fixture
def two_begun(train, tmp_path):
    for rate in ("0.3", "0.01"):
        interrupted(train, f"lr={rate}")
    return only_folder(tmp_path, "0.3"), only_folder(tmp_path, "0.01")


def test_the_checkpoint_of_another_run_is_refused_in_one_line(train, two_begun, capsys):
    other, own = two_begun
    shutil.copytree(other / "checkpoints", own / "checkpoints", dirs_exist_ok=True)
    shutil.copy(other / "metrics.csv", own / "metrics.csv")
    capsys.readouterr()
    with pytest.raises(
        ValueError, match=r"last\.ckpt: is the checkpoint of another run \(hash \w{8}, this one is \w{8}\)"
    ) as error:
        train("lr=0.01")
    assert "\n" not in str(error.value)
    assert not (own / "summary.json").exists()
    assert "checkpoint kept" not in capsys.readouterr().out
    train("lr=0.3")  # its own folder still has it


def test_the_summary_of_another_run_is_no_result_of_this_one(train, two_begun):
    other, own = two_begun
    train("lr=0.3")
    shutil.copy(other / "summary.json", own / "summary.json")
    with pytest.raises(ValueError, match=r"summary\.json: is the result of another run"):
        train("lr=0.01")


def test_a_checkpoint_whose_rate_was_edited_is_refused(train, two_begun):
    _, own = two_begun
    path = own / "checkpoints" / "last.ckpt"
    content = torch.load(path, weights_only=True)
    for group in content["optimizer_states"][0]["param_groups"]:
        group["lr"] = group["initial_lr"] = 0.05
    torch.save(content, path)
    with pytest.raises(
        ValueError, match=r"last\.ckpt: damaged \(trains at lr=0\.05, and this run at lr=0\.01\)"
    ):
        train("lr=0.01")


@pytest.mark.integration
def test_first_launch_counts_however_often_a_run_is_resumed(train, monkeypatch):
    def go(*callbacks):
        return train("max_epochs=3", callbacks=callbacks)[0]

    class Clock(summarize.datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, day, tzinfo=tz)

    monkeypatch.setattr(summarize.datetime, "datetime", Clock)
    for day, step in ((1, 20), (2, 40), (3, None)):
        monkeypatch.setattr(summarize, "checkout", functools.partial(STARTS.__getitem__, day - 1))
        if step:
            with pytest.raises(SystemExit):
                go(AtStep(step, lambda: os.kill(os.getpid(), signal.SIGINT)))
        else:
            summary = go()
    assert summary["first"] == {"started": "2026-01-01T00:00:00+00:00", "commit": "a" * 40, "dirty": False}
    assert summary["checkout"] == {"commit": "a" * 40, "dirty": True}  # one launch was
    assert summary["finished"].startswith("2026-01-03")
    json.dumps(summary)
