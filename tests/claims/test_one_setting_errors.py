"""Within one setting the judge errs no more often than it says: measured on numbers whose truth is known."""

import math

import numpy as np
import pytest
from one_setting_errors import claimed, claimed_with_looks, coverage
from scipy import stats

from normexp.claims.judge.estimate import RankEstimate, mean_of, seeds_to_decide

TRIALS = 2000


def within(errors: float, rate: float) -> bool:
    """One-sided binomial bound: so many errors are not surprising at this rate (1% level)."""
    return stats.binom.sf(round(errors * TRIALS) - 1, TRIALS, rate) > 0.01


@pytest.mark.parametrize("seeds", [5, 8, 20])
def test_equal_arms_are_called_different_in_at_most_five_percent(seeds):
    assert within(claimed("normal", seeds, margin=0.0, trials=TRIALS), 0.05)
    # with a smallest effect that matters the rate is far below, so that even its upper bound is under 5%
    errors = round(claimed("normal", seeds, margin=0.3, trials=TRIALS) * TRIALS)
    assert stats.binomtest(errors, TRIALS).proportion_ci(0.9).high < 0.05


@pytest.mark.parametrize("shape", ["t3", "accuracy"])
def test_error_rate_holds_for_values_that_are_not_normal(shape):
    assert within(claimed(shape, 8, margin=0.0, trials=TRIALS), 0.05)


def test_adding_seeds_until_it_decides_keeps_the_error_rate():
    assert within(claimed_with_looks([5, 10, 20], trials=TRIALS), 0.05)


@pytest.mark.parametrize("seeds", [5, 8, 20])
@pytest.mark.parametrize("shape", ["normal", "t3", "accuracy"])
def test_intervals_cover_at_their_level(shape, seeds):
    assert within(1 - coverage(shape, seeds, "t", trials=TRIALS), 0.05)


def test_a_bootstrap_of_five_seeds_covers_too_little():
    assert coverage("normal", 5, "percentile", trials=200) < 0.9


def test_a_planted_effect_is_found_with_the_power_of_a_t_test():
    n, shift = 8, 1.2
    power = stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, shift * n**0.5)
    assert claimed("normal", n, margin=0.0, shift=shift, trials=TRIALS) == pytest.approx(power, abs=0.03)


def test_ranks_ask_for_about_as_many_seeds_as_the_t_interval():
    effects = stats.norm.ppf((np.arange(12) + 0.5) / 12, loc=0.4)  # normal scores: no luck in the draw
    sides = [(0.0, math.inf), (-math.inf, 0.0)]
    by_t = 12 + seeds_to_decide(mean_of(effects), 12, sides, 0.05)
    by_rank = 12 + seeds_to_decide(RankEstimate(effects), 12, sides, 0.05)
    assert by_t <= by_rank <= 1.5 * by_t
    effects[:7] = math.inf
    assert seeds_to_decide(RankEstimate(effects), 12, sides, 0.05) is None
