"""The rules by which pilots find lengths and rates, against made runs whose answer is known."""

import math
from types import SimpleNamespace

import pytest

from normexp.claims.evidence.pilots.pilot import Pilot
from normexp.claims.evidence.pilots.rules import Result, Rules, neighbor, progress, three_rates

LENGTH = {"start_seconds": 6, "seconds": 60, "learned": 0.02, "gain": 0.05, "widenings": 4}
RATES = (0.01, 0.03, 0.1)


def finish(rules, result):
    """Train what is wanted until nothing is, with `result(run)` for each run."""
    known = {}
    while (found := progress(rules, known)).to_train:
        assert not set(found.to_train) & known.keys()
        known |= {run: result(run) for run in found.to_train}
    return found, known


def rules(norms=("none", "batchnorm"), **options):
    return Rules(
        **{"norms": norms, "rates": RATES, "start": 100, "step_seconds": 0.01, "length": LENGTH} | options
    )


def test_the_search_ends_at_the_best_rate_even_beyond_the_grid():
    best = {"none": 0.03, "batchnorm": 1.0}

    def result(run):
        return Result(0.1 + abs(math.log(run.rate / best[run.norm])), 0.0, False)

    found, known = finish(rules(), result)
    assert found.best == best
    assert {run.rate for run in known if run.norm == "none"} == set(RATES)
    assert {run.rate for run in known if run.norm == "batchnorm"} == {*RATES, 0.3, 1.0, 3.0}
    assert found.updates == 100
    assert all(run.updates == 100 for run in known)


def test_the_search_gives_up_after_the_written_number_of_rates():
    found, known = finish(rules(norms=("none",)), lambda run: Result(1 / run.rate, 0.0, False))
    assert found.best == {"none": 10.0}
    assert len(known) == len(RATES) + 4


def test_an_arm_is_fitted_when_it_has_learned_its_training_split():
    # Its training error halves with each doubling: .16, .08, .04, .02, .01 of guessing's.
    found, _known = finish(rules(), lambda run: Result(1 / run.updates, 16 / run.updates, False))
    assert found.updates == 1600
    assert found.fitted == {"none": 1600, "batchnorm": 1600}


def test_an_arm_is_fitted_when_twice_the_length_gains_little():
    # The score falls by a tenth per doubling until 400 updates, then by a hundredth.
    def result(run):
        doublings = math.log2(run.updates / 100)
        return Result(0.9 ** min(doublings, 2) * 0.99 ** max(doublings - 2, 0), math.inf, False)

    found, known = finish(rules(norms=("none",)), result)
    assert found.updates == 400
    assert max(run.updates for run in known) == 800


def test_a_text_on_the_plateau_of_counts_is_not_fitted():
    # The loss stays at that of pairs up to 400 updates, falls by a fifth twice, and then by a hundredth.
    def result(run):
        doublings = math.log2(run.updates / 400)
        return Result(2.5 * 0.8 ** min(max(doublings, 0), 2) * 0.99 ** max(doublings - 2, 0), math.inf, False)

    found, _ = finish(rules(norms=("none",)), result)
    assert found.updates == 100
    found, known = finish(rules(norms=("none",), most_score=2.4), result)
    assert found.updates == 1600
    assert max(run.updates for run in known) == 3200
    never, _ = finish(rules(norms=("none",), most_score=1.5), result)
    assert never.rejected.startswith("none not known to be fitted at 3200 updates")
    assert never.rejected.endswith("; counts (1.5) predict better than none (1.58)")


def test_the_slowest_arm_decides_and_others_train_no_longer():
    def result(run):
        return Result(0.1, 0.0 if run.norm == "batchnorm" else 3 / run.updates, False)

    found, known = finish(rules(), lambda run: Result(1 / run.updates, result(run).learned, False))
    assert found.updates == 200
    assert found.fitted == {"batchnorm": 100, "none": 200}
    assert {run.updates for run in known if run.norm == "batchnorm"} == {100}


def test_a_failed_arm_is_waited_for_by_nobody():
    found, _ = finish(rules(), lambda run: Result(0.5, 0.0, run.norm == "none"))
    assert found.updates == 100
    assert found.fitted == {"batchnorm": 100}


def test_where_every_arm_fails_the_length_grows_until_the_setting_is_rejected():
    found, _ = finish(rules(), lambda run: Result(0.9, 1.0, True))
    assert not found.updates
    assert found.rejected.startswith("not fitted at 3200 updates, and a run of 6400")
    late, _ = finish(rules(), lambda run: Result(0.5, 0.0, run.updates < 400))
    assert late.updates == 400


def test_a_setting_that_costs_too_much_is_rejected_before_it_is_trained():
    found = progress(rules(step_seconds=0.07), {})
    assert found.rejected == "the first length, 100 updates, costs 7 core-seconds"
    assert not found.to_train
    # 1600 updates cost 16 s, 3200 32 s, 6400 64 s: whether it is fitted at 3200 would need the last one.
    found, known = finish(rules(), lambda run: Result(1 / run.updates, math.inf, False))
    assert "not known to be fitted at 3200 updates" in found.rejected
    assert max(r.updates for r in known) == 3200


@pytest.mark.parametrize(("rate", "above", "below"), [(0.1, 0.3, 0.03), (0.3, 1.0, 0.1), (3.0, 10.0, 1.0)])
def test_neighbors(rate, above, below):
    assert (neighbor(rate, 1), neighbor(rate, -1), neighbor(rate, 2)) == (above, below, 10 * rate)
    assert three_rates(rate) == [below, rate, above]


@pytest.mark.parametrize("test", ["blocks", "test set"])
def test_a_run_that_diverged_before_its_first_validation_has_failed(test):
    pilot = Pilot.__new__(Pilot)
    pilot.cell = SimpleNamespace(test=test, chance=0.1, guess_loss=2.3, validation=100, draw="gpt 1")
    row = {
        "status": "diverged",
        "val_loss": None,
        "val_accuracy": None,
        "train_accuracy": None,
        "train_loss": None,
    }
    assert pilot._result(row) == Result(math.inf, math.inf, True)
