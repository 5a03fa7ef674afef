"""What failed is what is said: data with NaN, a loss beyond all bounds, replicas killed at their end."""

import pytest
import torch
from test_replicas import train as train_replicas
from test_run import AtStep

from normexp.runs import load_summaries
from normexp.runs.read import read_checked
from normexp.training.recorder import Recorder
from normexp.training.replicas import replica
from normexp.training.screen import mean_line
from normexp.training.train import launch


@pytest.mark.parametrize("split", ["val", "test"])
def test_nan_in_data_that_are_not_trained_on_makes_no_run_diverged(make_parts, capsys, split):
    parts = make_parts("norm=layernorm")
    x, _ = parts.data.rows(split, torch.device("cpu"))
    x[3] = float("nan")
    summary = launch(parts)
    assert (summary["status"], summary["failed"]) == ("completed", False)
    assert summary["not_finite"] == [f"{split}/loss"]
    assert (
        f"completed, but {split}/loss is not finite: look for NaN in the {split} data"
        in capsys.readouterr().out
    )
    saved = read_checked(parts.spec.folder)  # whoever reads it knows why the number is absent
    assert saved["metrics"][f"{split}/loss"] is None
    assert saved["metrics"]["train/loss"] == summary["metrics"]["train/loss"]


def explode(module):
    with torch.no_grad():
        for weight in module.model.parameters():
            weight.mul_(1e9 if weight.dim() > 1 else 1)


def test_a_finite_loss_above_ten_times_guessing_is_a_failure(make_parts, tmp_path, capsys):
    parts = make_parts("norm=layernorm", "max_epochs=1")
    parts.monitors.append(AtStep(17, lambda: explode(parts.module)))
    summary = launch(parts)
    assert 10 * summary["chance_loss"] < summary["metrics"]["train/loss"] < float("inf")
    assert (summary["status"], summary["failed"]) == ("completed", True)
    assert "failed: the final training loss is " in capsys.readouterr().out
    assert list(load_summaries(tmp_path / "outputs")["failed"]) == [True]
    healthy = launch(make_parts("norm=layernorm", "max_epochs=1", "seed=1"))
    assert not healthy["failed"]
    assert mean_line([summary, healthy], "").startswith("mean of the 1 of 2 seeds that completed: ")


@pytest.mark.integration
@pytest.mark.parametrize("then", ["together", "alone"])
def test_replicas_that_are_killed_at_their_end_keep_their_number(tmp_path, monkeypatch, then):
    write, written = replica.write_summary, []

    def killed(folder, summary):
        if len(written) == (1 if then == "together" else 3):
            raise KeyboardInterrupt
        written.append(folder)
        write(folder, summary)

    monkeypatch.setattr(replica, "write_summary", killed)
    with pytest.raises(SystemExit):
        train_replicas(tmp_path, "replicas=4")
    monkeypatch.setattr(replica, "write_summary", write)
    runs = train_replicas(tmp_path, "replicas=4")
    found = [summary["execution"] for summary, _ in runs.values()]
    assert [(own["mode"], own["replicas"]) for own in found] == [("replica", 4)] * 4


def test_a_replica_that_goes_on_alone_costs_what_it_cost():
    shared, alone = Recorder(1, together=4), Recorder(1)
    shared.seconds = 8.0
    alone.load_state_dict(shared.state_dict())
    assert alone.replicas == 4
    alone.seconds += 2.0  # 8 s as one of four, and 2 s alone: 4 s of 10 s
    assert alone.replicas == 2
    again = Recorder(1)
    again.load_state_dict(alone.state_dict())
    assert again.replicas == 2
    old = shared.state_dict()
    del old["cost"]  # a checkpoint of an earlier version
    again.load_state_dict(old)
    assert again.replicas == 1
