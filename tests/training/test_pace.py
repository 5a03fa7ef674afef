"""Steps, epochs and batches in terms of each other, against a loop over them; and how often a run validates."""

import pytest

from normexp.training.lightning import Pace, length


@pytest.mark.parametrize(("batches", "per_step"), [(20, 3), (6, 2), (5, 1), (2, 3)])
def test_steps_epochs_and_batches_are_counted_as_a_loop_counts_them(batches, per_step):
    pace, step, seen = Pace(batches, per_step), 0, 0
    for _ in range(3):
        for first in range(0, batches, per_step):
            step += 1
            for _ in range(first, min(first + per_step, batches)):
                assert pace.step_of(seen) == step
                seen += 1
            assert pace.batches_after(step) == seen
            assert pace.epochs_after(step) == seen / batches
    assert 3 * pace.steps == step


@pytest.mark.parametrize(
    ("steps", "asked", "every"), [(109, None, 10), (9, None, 1), (109, 7, 7), (None, 7, 7)]
)
def test_a_run_of_steps_validates_ten_times_unless_told_otherwise(steps, asked, every):
    given = length({"max_steps": steps, "max_epochs": 4, "val_every_n_steps": asked})
    ends = {"max_epochs": 4} if steps is None else {"max_steps": steps, "max_epochs": -1}
    assert given == ends | {"val_check_interval": every, "check_val_every_n_epoch": None}
    assert length({"max_steps": None, "max_epochs": 4, "val_every_n_steps": None}) == {"max_epochs": 4}
