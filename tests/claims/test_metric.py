"""What a training claim's `metric` reads from a run."""

import math

import pytest

from normexp.evidence.metric import read_metric

LOGGED = (
    "step,metric,value\n0,high/a,3\n10,high/a,5\n0,low/a,1\n10,low/a,1\n0,cos/layer00,1\n0,cos/layer01,0.5\n"
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "metrics.csv").write_text(LOGGED)
    return tmp_path


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("logged/high/*", 4.0),
        ("logged/high/* - low/*", 3.0),
        ("logged/cos/layer*[1-9]*", 0.5),  # all layers but the first
    ],
)
def test_logged_values_are_averaged_and_ranges_are_differences(folder, metric, value):
    assert read_metric(metric, {"status": "completed"}, folder) == (value, False)
    diverged, censored = read_metric(metric, {"status": "diverged"}, folder)
    assert math.isnan(diverged)
    assert not censored


def test_what_was_not_logged_is_named(folder):
    with pytest.raises(ValueError, match=r"metric=logged/hessian\*: .* add its monitor"):
        read_metric("logged/high/* - hessian*", {"status": "completed"}, folder)


def test_a_target_never_reached_is_censored_at_the_steps_taken(folder):
    summary = {"status": "completed", "steps": 100, "convergence": {"steps_to_0.9": None}, "metrics": {}}
    assert read_metric("convergence/steps_to_0.9", summary, folder) == (100.0, True)
    summary["convergence"]["steps_to_0.9"] = 40
    assert read_metric("convergence/steps_to_0.9", summary, folder) == (40.0, False)
    assert math.isnan(read_metric("test/accuracy", summary, folder)[0])
