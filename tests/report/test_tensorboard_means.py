"""The runs that stand for an arm in TensorBoard."""

import pytest
from fabricated import write_after_sweep, write_study
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

from normexp.report.study import open_study
from normexp.report.tensorboard_means import MOST_MEANS, write_mean_runs
from normexp.runs.summary import read_summary, write_summary


def seen(folder, tag):
    """Step -> value, as TensorBoard reads them."""
    found = EventAccumulator(str(folder), {"tensors": 0})
    found.Reload()
    return {event.step: float(make_ndarray(event.tensor_proto)) for event in found.Tensors(tag)}


def test_a_run_is_the_mean_over_seeds(tmp_path):
    study = open_study(write_study(tmp_path / "s", ("none", "batchnorm"), (2, 32), seeds=4))
    folder = write_mean_runs(study, tmp_path / "report")
    names = {path.parent.relative_to(folder).as_posix() for path in folder.rglob("events*")}
    assert names == {f"batch size {size}/{norm}" for size in ("02", "32") for norm in ("none", "batchnorm")}
    rows = study.metrics.query("metric == 'val/accuracy' and arm == 'batchnorm' and level == 2")
    found = seen(folder / "batch size 02" / "batchnorm", "Accuracy/val")
    assert found == pytest.approx(rows.groupby("step")["value"].mean().to_dict())


def test_one_seed_has_no_mean_and_what_was_written_before_goes(tmp_path):
    study = open_study(write_study(tmp_path / "s", ("none",), (2, 32), seeds=1))
    old = tmp_path / "report" / "means" / "gone"
    old.mkdir(parents=True)
    assert write_mean_runs(study, tmp_path / "report") is None
    assert not old.exists()


def test_a_sweep_writes_them_again_and_is_silent_on_what_it_cannot_read(tmp_path, monkeypatch):
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
    sizes = tuple(range(2, 2 * MOST_MEANS, 2))
    study = open_study(write_study(tmp_path / "s", ("none", "rmsnorm"), sizes, seeds=2))
    folder = write_mean_runs(study, tmp_path)
    assert len(list(folder.rglob("events*"))) == 2 * (MOST_MEANS // 2)
    names = sorted(path.name for path in folder.iterdir())
    assert names[0] == "batch size 02"
    assert names == sorted(names, key=lambda name: int(name.split()[-1]))


def test_gradients_are_means_of_logarithms(tmp_path):
    root = write_study(tmp_path / "s", ("none",), (8,), seeds=2)
    for path in root.rglob("metrics.csv"):
        seed = read_summary(path.parent)["config"]["seed"]
        with path.open("a") as file:
            file.write(f"3,0,0,gradient_norm/network,{(0.1, 1e-5)[seed]}\n")
        write_summary(path.parent, read_summary(path.parent))
    folder = write_mean_runs(open_study(root), tmp_path)
    assert seen(folder / "none", "gradient_norm/network (log10)") == {3: pytest.approx(-3)}
