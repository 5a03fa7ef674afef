"""Chapters of what monitors measured: the numbers that a figure draws are those that runs recorded."""

import csv

import pytest
from fabricated import write_study

from normexp.report.drawing import Drawing, Skipped
from normexp.report.figures.layers import measured, smoothness
from normexp.report.study import open_study
from normexp.report.style import Style, drawing_style
from normexp.runs.summary import read_summary, write_summary


@pytest.fixture
def study(tmp_path):
    """Two runs that also recorded the loss along the gradient, 3 and 1 at each of two steps, of seed 0 and 1."""
    write_study(tmp_path, ("none", "batchnorm"), (8,), seeds=2)
    for path in tmp_path.rglob("metrics.csv"):
        seed = read_summary(path.parent)["config"]["seed"]
        with path.open("a", newline="") as file:
            for step in (0, 100):
                for name, value in (("max", 3.0 + seed), ("min", 1.0)):
                    csv.writer(file, lineterminator="\n").writerow(
                        (step, 0, 0, f"landscape_loss_{name}/network", value)
                    )
                for layer, value in enumerate((0.1, 0.2, 40.0)):
                    csv.writer(file, lineterminator="\n").writerow(
                        (step, 0, 0, f"update_ratio/layer{layer:02d}", value)
                    )
        write_summary(path.parent, read_summary(path.parent))  # with the digest of what it holds now
    return open_study(tmp_path)


def test_a_difference_and_the_middle_layer_are_what_was_recorded(study):
    found = measured(study, "landscape_loss_max-landscape_loss_min", 0, log=True)
    assert found.groupby("seed")["value"].unique().map(list).to_dict() == {0: [2.0], 1: [3.0]}
    assert set(measured(study, "absent|update_ratio", 0, log=True)["value"]) == {0.2}
    assert not len(measured(study, "absent", 0, log=False))


def test_a_chapter_draws_what_there_is_and_says_what_is_not(study):
    with drawing_style():
        (figure,) = smoothness(study, Style(study.arms))
        assert isinstance(figure, Drawing)
        (panel,) = figure.figure.axes
        assert panel.get_title(loc="left") == "range of the loss"
        line = panel.get_lines()[0].get_xydata().tolist()
        assert line == [[0, pytest.approx(6**0.5)], [100, pytest.approx(6**0.5)]]  # geometric mean of 2 and 3
        study.metrics = study.metrics[~study.metrics["metric"].astype(str).str.startswith("landscape")]
        (skipped,) = smoothness(study, Style(study.arms))
    assert isinstance(skipped, Skipped)
    assert "run with monitor=full" in skipped.reason
