"""Early stopping: when a run ends, that an interrupted one ends there too, and what its identity is."""

import csv

import pytest

from normexp.config.schema import early_stop


def validations(folder) -> list[tuple[int, float]]:
    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [(int(row["step"]), float(row["value"])) for row in rows if row["metric"] == "val/accuracy"]


def test_a_run_ends_after_patience_validations_without_a_better_accuracy(train):
    summary, folder = train("max_epochs=60", "early_stopping=2", "norm=batchnorm", "lr=0.01")
    curve = [value for _, value in validations(folder)]
    assert summary["stopped_early"] is True
    assert summary["status"] == "completed"
    assert len(curve) < 60
    assert max(curve[-2:]) <= max(curve[:-2])
    for end in range(3, len(curve)):  # and not before
        assert max(curve[end - 2 : end]) > max(curve[: end - 2])
    whole, _ = train("max_epochs=2")
    assert "stopped_early" not in whole


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (0, "patience=0"),
        ({"patience": 2, "metric": "los"}, "choose from accuracy, loss"),
        ({"patience": 2, "delta": 0.1}, "early_stopping.delta: no such key"),
        ({"metric": "loss"}, "patience: is missing"),
        ({"patience": 2, "min_delta": -1}, "min_delta=-1"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(asked, said):
    with pytest.raises(ValueError, match=said):
        early_stop({"early_stopping": asked})
