"""Chapters of what monitors measured: the numbers that a figure draws are those that runs recorded."""

import csv

import pytest
from fabricated import write_study

from normexp.report.drawing import Drawing, Skipped
from normexp.report.figures.layers import measured, over_training
from normexp.report.study import open_study
from normexp.report.style import Style, drawing_style
from normexp.runs.summary import read_summary, write_summary


@pytest.fixture
def study(tmp_path):
    """Two runs that also recorded the update of three layers and the effective beta, 2 and 8, of seed 0 and 1."""
    write_study(tmp_path, ("none", "batchnorm"), (8,), seeds=2)
    for path in tmp_path.rglob("metrics.csv"):
        seed = read_summary(path.parent)["config"]["seed"]
        with path.open("a", newline="") as file:
            write = csv.writer(file, lineterminator="\n").writerow
            for step in (0, 100):
                write((step, 0, 0, "effective_beta/network", 2.0 * 4**seed))
                for layer, value in enumerate((0.1, 0.2, 40.0)):
                    write((step, 0, 0, f"update_ratio/layer{layer:02d}", value))
        write_summary(path.parent, read_summary(path.parent))  # with the digest of what it holds now
    return open_study(tmp_path)


def test_the_middle_layer_is_what_was_recorded(study):
    assert set(measured(study, "update_ratio", 0, log=True)["value"]) == {0.2}
    assert not len(measured(study, "absent", 0, log=False))


def test_a_figure_draws_what_there_is_and_says_what_is_not(study):
    with drawing_style():
        (figure,) = over_training(study, Style(study.arms))
        assert isinstance(figure, Drawing)
        beta, _ = figure.figure.axes
        assert beta.get_title(loc="left") == "effective beta"
        line = beta.get_lines()[0].get_xydata().tolist()
        assert line == [[0, pytest.approx(4)], [100, pytest.approx(4)]]  # geometric mean of 2 and 8
        study.metrics = study.metrics[study.metrics["metric"].astype(str).str.startswith("val")]
        (skipped,) = over_training(study, Style(study.arms))
    assert isinstance(skipped, Skipped)
    assert "run with monitor=full" in skipped.reason
