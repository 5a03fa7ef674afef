"""Variances of means against textbook formulas, mean squares of an analysis of variance, and bootstraps."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from normexp.claims.judge.estimate import UncertainMean
from normexp.claims.judge.setting_effect import crossed, cut_again, over_seeds


def test_seeds_alone_are_students_t_with_the_third_k_statistic():
    z = np.random.default_rng(0).exponential(size=(3, 7))
    found = over_seeds(z)
    for row, variance, df, third in zip(z, *found, strict=True):
        assert variance == pytest.approx(stats.sem(row) ** 2)
        assert df == 6
        assert third == pytest.approx(stats.kstat(row, 3) / 7**2)
        plain = UncertainMean(row.mean(), variance, df).interval(0.9)
        expected = stats.ttest_1samp(row, 0.0).confidence_interval(0.9)
        assert plain == pytest.approx((expected.low, expected.high))


def test_splits_cut_again_keep_the_share_that_more_seeds_cannot_take_away():
    z = np.random.default_rng(1).normal(size=10)
    by_hand = (1 / 10 + 360 / 1149) * z.var(ddof=1)  # Nadeau and Bengio 2003
    assert cut_again(z, 360 / 1149).variance == pytest.approx(by_hand)
    assert cut_again(z, 0.0).variance == pytest.approx(over_seeds(z).variance)


def test_crossed_variance_is_that_of_the_mean_squares_of_a_two_way_analysis():
    n, examples = 4, 6
    z = (
        np.random.default_rng(2).normal(size=(n, examples))
        + 2 * np.arange(n)[:, None]
        + np.arange(examples) ** 2
    )
    table = pd.DataFrame(
        {"z": z.ravel(), "seed": np.repeat(np.arange(n), examples), "x": np.tile(np.arange(examples), n)}
    )
    squares = anova_lm(ols("z ~ C(seed) + C(x)", table).fit())["mean_sq"]
    by_hand = (squares["C(seed)"] + squares["C(x)"] - squares["Residual"]) / (n * examples)
    found = crossed(z)
    assert found.variance == pytest.approx(by_hand)
    parts = np.array([squares["C(seed)"], squares["C(x)"], squares["Residual"]]) / (n * examples)
    df = by_hand**2 / (parts**2 / [n - 1, examples - 1, (n - 1) * (examples - 1)]).sum()
    assert found.df == pytest.approx(max(df, n - 1))


def test_crossed_variance_is_right_on_average_where_the_truth_is_known():
    generator = np.random.default_rng(3)
    n, examples, trials = 5, 50, 4000
    seed = 0.3 * generator.normal(size=(trials, n, 1))
    example = 2.0 * generator.normal(size=(trials, 1, examples))
    z = seed + example + generator.normal(size=(trials, n, examples))
    truth = 0.3**2 / n + 2.0**2 / examples + 1.0 / (n * examples)
    assert z.mean((1, 2)).var() == pytest.approx(truth, rel=0.06)
    assert crossed(z).variance.mean() == pytest.approx(truth, rel=0.06)
    interval = UncertainMean(z.mean((1, 2)), *crossed(z)).interval(0.95)
    assert ((interval[0] < 0) & (interval[1] > 0)).mean() > 0.945
    of_seeds_alone = UncertainMean(z.mean((1, 2)), *over_seeds(z.mean(2))).interval(0.95)
    # Seeds alone do not show the noise of the test set.
    assert ((of_seeds_alone[0] < 0) & (of_seeds_alone[1] > 0)).mean() < 0.8


def test_a_bootstrap_of_seeds_and_examples_agrees_and_counts_the_rest_twice_more():
    """Owen (2007): the bootstrap that draws both has an expectation of V_seed + V_example + V_rest."""
    generator = np.random.default_rng(4)
    n, examples = 40, 200
    z = (
        generator.normal(size=(n, 1))
        + generator.normal(size=examples) * 2
        + 3 * generator.normal(size=(n, examples))
    )
    means = [
        z[generator.integers(n, size=n)][:, generator.integers(examples, size=examples)].mean()
        for _ in range(4000)
    ]
    rest = z - z.mean(1, keepdims=True) - z.mean(0) + z.mean()
    of_rest = (rest**2).sum() / ((n - 1) * (examples - 1)) / (n * examples)
    assert np.var(means) == pytest.approx(crossed(z).variance + 2 * of_rest, rel=0.1)


def test_resolution_is_added_and_no_component_can_make_the_variance_smaller_than_another():
    assert crossed(np.zeros((5, 30)), 0.25).variance == 0.25
    z = np.tile(np.random.default_rng(5).normal(size=(5, 1)), (1, 30))  # examples that never differ
    assert crossed(z).variance == pytest.approx(z[:, 0].var(ddof=1) / 5)


@pytest.mark.parametrize("third", [0.0, 0.4, -0.4])
def test_p_is_the_level_at_which_the_interval_touches_the_bound(third):
    mean = UncertainMean(1.0, 0.25, 6.0, third)
    for level in (0.5, 0.8, 0.95, 0.999):
        low, high = mean.interval(level)
        assert mean.p_within(low, np.inf) == pytest.approx(1 - level)
        assert mean.p_within(-np.inf, high) == pytest.approx(1 - level)
        assert mean.p_within(low - 1, high) == pytest.approx(1 - level)
    assert mean.p_within(1.1, 3.0) == mean.p_within(-3.0, 0.9) == 1.0


def test_skewness_moves_out_the_end_of_the_long_tail_and_no_other():
    plain, skewed = UncertainMean(0.0, 1.0, 9.0), UncertainMean(0.0, 1.0, 9.0, 0.5)
    t = stats.t.ppf(0.975, 9)
    assert plain.interval(0.95) == pytest.approx((-t, t))
    assert skewed.interval(0.95) == pytest.approx((-t, t + 0.5 * (2 * t**2 + 1) / 6))


def test_a_variance_of_zero_decides_nothing():
    nothing = UncertainMean(0.0, 0.0, 4.0)
    assert nothing.interval(0.95) == (-np.inf, np.inf)
    assert nothing.p_within(-1, 1) == nothing.p_within(-np.inf, 1) == 1.0


def test_arrays_and_numbers_agree():
    generator = np.random.default_rng(6)
    effect, variance, third = generator.normal(size=(3, 20)) ** [[1], [2], [1]]
    many = UncertainMean(effect, variance, 5.0, third)
    for index in range(20):
        one = UncertainMean(effect[index], variance[index], 5.0, third[index])
        assert one.p_within(-0.5, 2.0) == pytest.approx(many.p_within(-0.5, 2.0)[index])
        assert one.interval(0.9) == pytest.approx([end[index] for end in many.interval(0.9)])
