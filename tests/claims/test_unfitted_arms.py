"""Which arms of a claim had not learned to an end, from rows that are written out."""

import math

import pandas as pd
import pytest

from normexp.claims.evidence.sources import unfitted_arms
from normexp.claims.spec.cell import BankCell

RULES = {"gain": 0.05, "learned": 0.02}
IMAGES = BankCell(name="images", overrides=(), test="test set", validation=1000, chance=0.1, guess_loss=2.3)
TEXT = BankCell(
    name="text", overrides=(), test="blocks", validation=1000, chance=0.1, guess_loss=3.0, counts_loss=2.0
)
LEARNED = {"norm": "own", "status": "completed", "train_loss": 1.0, "val_loss": 1.9, "val_accuracy": 0.5}


def unfitted(cell, *changes, **same):
    rows = [
        LEARNED | {"train_accuracy": 0.5, "late_gain": 0.0, "bank": False} | same | row for row in changes
    ]
    return unfitted_arms(cell, pd.DataFrame(rows), RULES)


def test_images_still_learn_while_late_updates_gain_and_the_training_error_is_not_small():
    assert unfitted(IMAGES, {"late_gain": 0.05}) == ("own",)
    assert unfitted(IMAGES, {"late_gain": 0.049}) == ()
    assert (
        unfitted(IMAGES, {"late_gain": 0.05, "train_accuracy": 0.99}) == ()
    )  # under a fiftieth of 90% errors


@pytest.mark.parametrize(("loss", "expected"), [(1.999, ()), (2.0, ("own",))])
def test_a_text_must_beat_the_counts_that_its_bank_asks_for(loss, expected):
    assert unfitted(TEXT, {"val_loss": loss}) == expected
    assert (
        unfitted(BankCell(name="text", overrides=(), test="blocks", validation=1000), {"val_loss": loss})
        == ()
    )
    assert TEXT.counts_loss < BankCell(name="text", overrides=()).counts_loss == math.inf


def test_most_runs_decide_and_those_of_the_bank_or_that_failed_do_not_count():
    late, done = {"late_gain": 0.2}, {}
    assert unfitted(TEXT, late, done) == ()
    assert unfitted(TEXT, late, late, done) == ("own",)
    assert unfitted(TEXT, late | {"bank": True}, done) == ()
    # Two more seeds of an arm that the pilots fitted.
    assert unfitted(TEXT, late | {"bank": True}, late, late) == ()
    assert unfitted(TEXT, late | {"status": "diverged"}, done) == ()
