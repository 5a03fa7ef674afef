"""The runs that stand for an arm in TensorBoard."""

import pandas as pd
import pytest
from fabricated import write_after_sweep, write_study
from scipy import stats
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2

from normexp.report.study import open_study
from normexp.report.tensorboard_means import MOST_MEANS, in_order, in_path, mean_curve, write_mean_runs


def seen(folder):
    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def test_a_run_is_the_mean_over_seeds_with_its_interval(tmp_path):
    study = open_study(write_study(tmp_path / "s", ("none", "batchnorm"), (2, 32), seeds=4))
    folder = write_mean_runs(study, tmp_path / "report")
    names = {path.parent.relative_to(folder).as_posix() for path in folder.rglob("events*")}
    assert names == {f"batch size {size}/{norm}" for size in (2, 32) for norm in ("none", "batchnorm")}
    own = seen(folder / "batch size 2" / "batchnorm")
    rows = study.metrics.query("metric == 'val/accuracy' and arm == 'batchnorm' and level == 2")
    for event in own.Scalars("Accuracy/val"):
        values = rows[rows["step"] == event.step]["value"]
        assert len(values) == 4
        if not values.std():  # of step 0
            continue
        low, high = stats.t.interval(0.95, 3, loc=values.mean(), scale=stats.sem(values))
        assert event.value == pytest.approx(values.mean())
        ends = [
            next(
                e.value
                for e in own.Scalars(f"interval/Accuracy/val, batch size 2: {end}")
                if e.step == event.step
            )
            for end in ("low", "high")
        ]
        assert ends == pytest.approx([low, high])
    message = own.Tensors("custom_scalars__config__")[0].tensor_proto.string_val[0]
    (category,) = layout_pb2.Layout.FromString(message).category
    (series,) = category.chart[-1].margin.series
    assert category.chart[-1].title == "Accuracy/val, batch size 2"
    levels = [chart.title.rpartition(", ")[2] for chart in category.chart][::-1]  # as TensorBoard shows them
    assert levels == sorted(levels, key=["batch size 2", "batch size 32"].index)
    other = seen(folder / "batch size 32" / "none").Tensors("custom_scalars__config__")[0].tensor_proto
    assert (
        message == other.string_val[0]
    )  # TensorBoard joins the pages of all runs, and leaves out what is there
    assert series.lower == "interval/Accuracy/val, batch size 2: low"
    assert {series.value, series.lower, series.upper} <= set(own.Tags()["scalars"])


def test_one_seed_has_no_mean_and_what_was_written_before_goes(tmp_path):
    study = open_study(write_study(tmp_path / "s", ("none",), (2, 32), seeds=1))
    old = tmp_path / "report" / "means" / "gone"
    old.mkdir(parents=True)
    assert write_mean_runs(study, tmp_path / "report") is None
    assert not old.exists()


def test_names_of_arms_are_folders():
    assert in_path("batchnorm · depth 8") == "batchnorm, depth 8"
    assert in_path("a/b\\c") == "a-b-c"


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


def test_curves_stand_over_samples_too_and_gradients_as_logarithms(tmp_path):
    study = open_study(write_study(tmp_path / "s", ("none",), (2, 32), seeds=3))
    own = seen(write_mean_runs(study, tmp_path) / "batch size 32" / "none")
    steps, samples = (
        [event.step for event in own.Scalars(tag)] for tag in ("Accuracy/val", "Accuracy/val by samples")
    )
    assert samples == [32 * step for step in steps]
    rows = pd.DataFrame({"metric": "gradient_norm/network", "seed": [0, 1], "step": 3, "value": [0.1, 1e-5]})
    assert mean_curve(rows, "gradient_norm/network")["mean"].tolist() == pytest.approx([-3])
