"""What a training claim's `metric` reads from a run."""

import math
import re
from contextlib import nullcontext

import pandas as pd
import pytest
from committed import altered
from refusals import refused

from normexp.claims.evidence.metric import check_metric, numbers_of, read_logged, with_values
from normexp.claims.spec.claim import Claim

LOGGED = "step,epoch,seconds,metric,value\n" + "".join(
    f"{step},0,0,{tag},{value}\n"
    for step, tag, value in (
        (0, "high/a", 3), (10, "high/a", 5), (0, "low/a", 1), (10, "low/a", 1), (0, "cos/layer00", 1),
        (0, "cos/layer01", 0.5),
    )
)  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "metrics.csv").write_text(LOGGED)
    return tmp_path


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("logged/high/*", 4.0), ("logged/high/* - low/*", 3.0),
        ("logged/cos/layer*[1-9]*", 0.5),  # all layers but the first
        ("logged/last:high/*", 5.0), ("logged/last:high/* - last:low/*", 4.0),
        ("logged/last:*/*", (5 + 1 + 1 + 0.5) / 4),  # the last row of each of four tags
    ],
)  # fmt: skip
def test_logged_values_are_averaged_and_ranges_are_differences(folder, metric, value):
    assert read_logged(metric, {"status": "completed", "steps": 10}, folder) == value
    assert math.isnan(read_logged(metric, {"status": "diverged", "steps": 10}, folder))
    with refused(r"metric=logged/hessian\*: .* add its monitor"):
        read_logged(f"{metric} - hessian*", {"status": "completed", "steps": 10}, folder)


RUNS = pd.DataFrame({
    "steps": [100, 100], "steps_to_0.9": [math.inf, 40.0], "auc": [0.5, 0.6], "test_accuracy": [0.9, 0.8],
    "test_accuracy_reestimated": [0.95, 0.7], "val_loss_reestimated": [0.1, 0.2],
})  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "values"),
    [
        ("convergence/steps_to_0.9", [100.0, 40.0]),  # never reached: all its steps
        ("convergence/auc", [0.5, 0.6]), ("test/accuracy", [0.9, 0.8]), ("test/error", [0.1, 0.2]),
        ("test/error_reestimated", [0.05, 0.3]), ("val/loss_reestimated", [0.1, 0.2]),
    ],
)  # fmt: skip
def test_the_numbers_of_a_metric_in_a_table(metric, values):
    assert numbers_of(metric, RUNS).tolist() == pytest.approx(values)


@pytest.mark.parametrize(
    ("metric", "message"),
    [("test/loss", "no run of this table has it"),
     ("convergence/steps_to_0.8", "1 of 2 runs did not look for this target; evidence=")],
)  # fmt: skip
def test_a_number_that_the_table_lacks_is_an_error(metric, message):
    with refused(f"metric={metric}: {message}"):
        numbers_of(metric, RUNS.assign(**{"steps_to_0.8": [math.nan, 40.0]}))


CLAIM = Claim(id="X1", name="x", sentence="x", source="x", covers=[], evidence="training")
CONFIG = {"accuracies": [0.5, 0.9, 0.97], "monitor": {}}


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("convergence/steps_to_0.91", r"no run will have it; add the target to accuracies=\[...\] among fixed"),
        ("logged/hessian*", r"nothing logs hessian\*; add its monitor"),
        ("convergence/steps_to_0.5", "a run that stops before its target counts as fast; leave"),
        *((metric, "") for metric in ("test/error", "val/accuracy", "train/loss", "convergence/steps_to_0.9")),
        *((metric, "") for metric in ("convergence/steps_to_0.97", "convergence/auc", "logged/val/loss")),
    ],
)  # fmt: skip
def test_a_metric_is_checked_before_the_first_run(metric, message):
    early = {"early_stopping": 1 if metric.endswith("0.5") else None}
    expected = refused(f"^claim=X1: metric={re.escape(metric)}: {message}") if message else nullcontext()
    with expected:
        check_metric(CLAIM, metric, CONFIG | early)


def test_a_diverged_run_has_no_number_whatever_its_row_says():
    claim = altered(CLAIM, metric="test/error", arms={"a": ["norm=none"]})
    runs = pd.DataFrame({"arm": "a", "status": ["completed", "diverged"], "test_accuracy": [0.75, 0.1]})
    assert with_values(claim, runs)["value"].tolist() == [0.25, pytest.approx(math.nan, nan_ok=True)]
