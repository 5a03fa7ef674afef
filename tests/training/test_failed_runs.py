"""What failed is what is said: data with NaN, a loss beyond all bounds."""

import pytest
import torch
from test_one_run import AtStep

from normexp.runs import load_summaries, read_summary
from normexp.training.train import launch


@pytest.mark.parametrize("split", ["val", "test"])
def test_nan_in_data_that_are_not_trained_on_makes_no_run_diverged(make_parts, capsys, split):
    parts = make_parts("norm=layernorm")
    x, _ = parts.data.rows(split, torch.device("cpu"))
    x[3] = float("nan")
    summary = launch(parts)
    assert (summary["status"], summary["failed"]) == ("completed", False)
    assert summary["not_finite"] == [f"{split}/loss", f"{split}/loss_reestimated"]
    said = capsys.readouterr().out
    assert f"completed, but {split}/loss is not finite: look for NaN in the {split} data" in said
    saved = read_summary(parts.spec.folder)  # whoever reads it knows why the number is absent
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
    assert "not_finite" not in healthy.keys() | summary.keys()
