"""Failures: which runs failed, whether arms fail unequally often, and what that can hide."""

import math

import numpy as np
import pytest
from scipy import stats
from settings import errors, values
from statsmodels.stats.contingency_tables import StratifiedTable, mcnemar

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.failures import (
    Failures,
    count_failures,
    difference_of_failures,
    never_above_chance,
    worst_case,
)
from normexp.claims.judge.setting_effect import effect_in

MORE = Comparison(kind="greater", arm="a", baseline="b")


def paired(a: list[bool], b: list[bool], name: str = "m"):
    return values({"a": [1.0] * len(a), "b": [1.0] * len(b)}, name, failed={"a": a, "b": b})


def test_runs_that_guess_are_failures_and_runs_that_learned_a_little_are_not():
    guessing = np.random.default_rng(0).binomial(360, 0.1, 20_000)
    assert never_above_chance(guessing, 360, 0.1).mean() > 0.998
    assert not never_above_chance(np.array([65, 300]), 360, 0.1).any()
    assert never_above_chance(np.array([0, 36]), 360, 0.1).all()


def test_the_stratified_test_with_pairs_as_strata_is_mcnemars():
    generator = np.random.default_rng(1)
    first, second = generator.random(60) < 0.3, generator.random(60) < 0.1
    settings = [paired(first[start : start + 10], second[start : start + 10]) for start in range(0, 60, 10)]
    found = count_failures(settings, MORE)
    assert (found.arm, found.baseline, found.pairs) == (first.sum(), second.sum(), 60)
    table = np.array(
        [
            [(~first & ~second).sum(), (~first & second).sum()],
            [(first & ~second).sum(), (first & second).sum()],
        ]
    )
    assert found.p == pytest.approx(mcnemar(table, exact=True).pvalue)
    strata = [
        np.array([[a, 1 - a], [b, 1 - b]]) for a, b in zip(first.astype(int), second.astype(int), strict=True)
    ]
    chi = StratifiedTable([s for s in strata if 0 < s[:, 0].sum() < 2]).test_null_odds().statistic
    alone = found.only_arm + found.only_baseline
    # The statistic of Cochran, Mantel and Haenszel.
    assert chi == pytest.approx((found.only_arm - found.only_baseline) ** 2 / alone)


def test_equal_arms_fail_unequally_in_at_most_five_percent():
    generator = np.random.default_rng(2)
    first, second = generator.random((2, 4000, 64)) < 0.15
    a, b = (first & ~second).sum(1), (second & ~first).sum(1)
    called = np.mean([Failures(0, 0, x, y, 64).unequal for x, y in zip(a, b, strict=True)])
    assert 0.01 < called <= 0.05


def test_an_arm_that_fails_in_a_seventh_of_its_runs_is_found_out():
    settings = [
        paired([True, False, False, False, False, False, False, False], [False] * 8) for _ in range(8)
    ]
    assert count_failures(settings, MORE).unequal
    assert not count_failures(settings[:5], MORE).unequal
    alone = Comparison(kind="greater", arm="a", target=0)
    assert count_failures(settings, alone).shown() == {
        "arm": 8, "baseline": None, "pairs": 64, "p": 1.0, "unequal": False,
    }  # fmt: skip


def test_difference_of_shares_is_bonett_and_prices_and_holds_the_truth():
    pairs = np.array([[True, False]] * 3 + [[False, True]] + [[True, True]] * 2 + [[False, False]] * 14)
    found = difference_of_failures(pairs)
    p12, p21, n = (3 + 1) / 22, (1 + 1) / 22, 22
    half = stats.norm.ppf(0.975) * math.sqrt((p12 + p21 - (p12 - p21) ** 2) / n)
    assert found.interval(0.95) == pytest.approx((p12 - p21 - half, p12 - p21 + half))
    all_or_none = difference_of_failures(np.array([[True, False]] * 10))
    assert all_or_none.interval(0.95)[0] > 0.3
    generator = np.random.default_rng(3)
    draws = np.stack([generator.random((2000, 20)) < 0.3, generator.random((2000, 20)) < 0.1], -1)
    ends = np.array([difference_of_failures(draw).interval(0.95) for draw in draws])
    assert ((ends[:, 0] < 0.2) & (ends[:, 1] > 0.2)).mean() > 0.94


def test_worst_case_lets_each_failed_run_be_anything_from_the_best_to_guessing():
    arms = {"a": [2.0, 3.0, 4.0, 5.0, 6.0, 50.0], "b": [3.0, 3.0, 3.0, 3.0, 3.0, 3.0]}
    setting = values(arms, failed={"a": [False] * 5 + [True]}, guess=10.0)
    low, high = worst_case(setting, MORE, "lower")
    assert (low, high) == pytest.approx((np.mean([2, 3, 4, 5, 6, 2]) - 3, np.mean([2, 3, 4, 5, 6, 10]) - 3))
    assert low < effect_in(setting, MORE).mean.effect < high
    better = values(
        {"a": [0.9, 0.8, 0.7, 0.0], "b": [0.8] * 4}, failed={"a": [False] * 3 + [True]}, guess=0.1
    )
    low, high = worst_case(better, MORE, "higher")
    assert (low, high) == pytest.approx((0.625 - 0.8, 0.825 - 0.8))
    unknown = values(arms, failed={"a": [False] * 5 + [True]})
    assert worst_case(unknown, MORE, "lower") == (-math.inf, math.inf)
    whole = errors({"a": 0.05, "b": 0.1})
    log = Comparison(kind="smaller", arm="a", baseline="b", log=True)
    assert worst_case(whole, log, "lower") == (pytest.approx(effect_in(whole, log).mean.effect),) * 2
