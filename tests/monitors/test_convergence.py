import numpy as np
import pytest

from normexp.monitors.convergence import convergence

CURVE = [
    {"step": 0, "epoch": 0.0, "seconds": 0.0, "val_accuracy": 0.1},
    {"step": 100, "epoch": 1.0, "seconds": 2.0, "val_accuracy": 0.8},
    {"step": 300, "epoch": 3.0, "seconds": 5.5, "val_accuracy": 0.92},
    {"step": 400, "epoch": 4.0, "seconds": 7.0, "val_accuracy": 0.92},
    {"step": 500, "epoch": 5.0, "seconds": 9.0, "val_accuracy": 0.88},
]


def test_a_target_is_reached_at_the_first_validation_at_or_above_it():
    summary = convergence(CURVE, [0.8, 0.9, 1])
    assert (summary["steps_to_0.8"], summary["epochs_to_0.8"], summary["seconds_to_0.8"]) == (100, 1.0, 2.0)
    assert (summary["steps_to_0.9"], summary["epochs_to_0.9"], summary["seconds_to_0.9"]) == (300, 3.0, 5.5)
    assert summary["steps_to_1"] is summary["epochs_to_1"] is summary["seconds_to_1"] is None


def test_the_area_is_the_mean_of_the_interpolated_curve():
    steps, accuracies = (np.array([row[key] for row in CURVE]) for key in ("step", "val_accuracy"))
    dense = np.linspace(0, 500, 500_001)
    area = np.interp(dense, steps, accuracies).mean()
    assert convergence(CURVE, [])["auc"] == pytest.approx(area, abs=1e-6)
    assert convergence(CURVE[:1], [])["auc"] == 0.1


def test_best_is_the_first_of_equals_and_last_may_be_lower():
    summary = convergence(CURVE, [], divergence_step=512)
    assert (summary["best"], summary["best_step"], summary["last"]) == (0.92, 300, 0.88)
    assert summary["divergence_step"] == 512


def test_a_run_without_validations_has_every_key_and_no_value():
    empty, full = convergence([], [0.9]), convergence(CURVE, [0.9])
    assert empty.keys() == full.keys()
    assert set(empty.values()) == {None}


@pytest.mark.parametrize(
    ("history", "targets"), [(CURVE[::-1], []), (CURVE[:1] * 2, []), (CURVE, [97.0]), (CURVE, [0])]
)
def test_bad_input_is_refused_in_one_line(history, targets):
    with pytest.raises(ValueError, match="; ") as error:
        convergence(history, targets)
    assert "\n" not in str(error.value)
