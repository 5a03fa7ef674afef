"""The runs that stand for an arm in TensorBoard."""

import pandas as pd
import pytest
from fabricated import write_after_sweep, write_study
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

from normexp.report.study import open_study
from normexp.report.tensorboard_means import MOST_MEANS, in_order, mean_curve, write_mean_runs


def seen(folder, tag):
    """Step -> value, as TensorBoard reads them."""
    found = EventAccumulator(str(folder), {"tensors": 0})
    found.Reload()
    return {event.step: float(make_ndarray(event.tensor_proto)) for event in found.Tensors(tag)}


def test_a_run_is_the_mean_over_seeds(tmp_path):
    study = open_study(write_study(tmp_path / "s", ("none", "batchnorm"), (2, 32), seeds=4))
    folder = write_mean_runs(study, tmp_path / "report")
    names = {path.parent.relative_to(folder).as_posix() for path in folder.rglob("events*")}
    assert names == {f"batch size {size}/{norm}" for size in (2, 32) for norm in ("none", "batchnorm")}
    rows = study.metrics.query("metric == 'val/accuracy' and arm == 'batchnorm' and level == 2")
    found = seen(folder / "batch size 2" / "batchnorm", "Accuracy/val")
    assert found == pytest.approx(rows.groupby("step")["value"].mean().to_dict())


def test_one_seed_has_no_mean_and_what_was_written_before_goes(tmp_path):
    study = open_study(write_study(tmp_path / "s", ("none",), (2, 32), seeds=1))
    old = tmp_path / "report" / "means" / "gone"
    old.mkdir(parents=True)
    assert write_mean_runs(study, tmp_path / "report") is None
    assert not old.exists()


def test_a_sweep_writes_them_again_beside_its_runs_and_says_nothing_of_what_it_cannot_read(
    tmp_path, monkeypatch
):
    root = write_study(tmp_path / "s", ("none", "batchnorm"), (2,), seeds=3)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    for _ in range(2):
        assert write_after_sweep(root) == root / "means"
        assert len(list((root / "means").rglob("events*"))) == 2
    assert all(path.read_bytes() == content for path, content in before.items())
    assert write_after_sweep(tmp_path / "absent") is None
    next(root.rglob("metrics.csv")).write_text("")
    assert write_after_sweep(root) is None
    monkeypatch.setattr("normexp.report.finding.MOST_RUNS", 5)
    assert write_after_sweep(write_study(tmp_path / "large", ("none",), (2,), seeds=6)) is None


@pytest.mark.integration
def test_levels_sort_as_numbers_and_no_more_runs_are_written_than_tensorboard_ticks(tmp_path):
    for levels in ([2.0, 16.0, 128.0], [0.001, 0.01, 0.1], [0.5, 3e-05, 10.0]):
        ordered = sorted(levels)
        assert (texts := [in_order(level, ordered) for level in ordered]) == sorted(texts)
    sizes = tuple(range(2, 2 * MOST_MEANS, 2))
    folder = write_mean_runs(
        open_study(write_study(tmp_path / "s", ("none", "rmsnorm"), sizes, seeds=2)), tmp_path
    )
    assert len(list(folder.rglob("events*"))) == 2 * (MOST_MEANS // 2)


def test_gradients_are_means_of_logarithms():
    rows = pd.DataFrame({"metric": "gradient_norm/network", "seed": [0, 1], "step": 3, "value": [0.1, 1e-5]})
    assert mean_curve(rows, "gradient_norm/network")["mean"].tolist() == pytest.approx([-3])
