"""Intervals and paired differences against closed forms, loops and simulation."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from normexp.report.statistics import clear_best, curves, estimate, paired_difference


def test_interval_is_students_t_interval_of_the_mean():
    values = [0.90, 0.92, 0.95, 0.91]
    found = estimate(values)
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert (found.mean, found.low, found.high, found.n) == pytest.approx((0.92, low, high, 4))


def test_one_value_has_no_interval_and_none_has_no_mean():
    assert estimate([0.5]).n == 1
    assert math.isnan(estimate([0.5]).low)
    assert math.isnan(estimate([float("nan")]).mean)


def test_interval_covers_the_true_mean_at_its_nominal_rate():
    random = np.random.default_rng(0)
    covered = [(found := estimate(random.normal(1, 2, 5))).low <= 1 <= found.high for _ in range(2000)]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015)  # three standard errors


def test_pairing_removes_what_seeds_share():
    luck = {seed: 0.1 * seed for seed in range(5)}
    worse = {seed: 0.5 + value for seed, value in luck.items()}
    better = {seed: 0.51 + value + 0.001 * (seed % 2) for seed, value in luck.items()}
    assert not estimate(list(better.values())).low > estimate(list(worse.values())).mean
    assert paired_difference(better, worse).low > 0
    assert paired_difference(better, {0: 0.5, 9: 0.5}).n == 1  # only seeds that both have


def test_best_is_bold_only_when_every_paired_interval_says_so():
    seeds = range(5)
    clear = {"a": {s: 0.9 + 0.01 * s for s in seeds}, "b": {s: 0.8 + 0.011 * s for s in seeds}}
    assert clear_best(clear) == "a"
    close = {**clear, "c": {s: 0.9 + 0.01 * s + (0.02 if s % 2 else -0.022) for s in seeds}}
    assert clear_best(close) is None
    assert clear_best({"a": clear["a"]}) is None  # nothing to be better than
    assert clear_best({"a": {0: 0.9}, "b": {0: 0.1}}) is None  # one seed ranks nothing


@pytest.mark.parametrize("log", [False, True])
def test_curves_equal_a_loop_over_groups(log):
    random = np.random.default_rng(1)
    rows = [(arm, step, random.uniform(1, 2)) for arm in "ab" for step in (0, 10) for _ in range(4)]
    table = pd.DataFrame(rows, columns=["arm", "step", "value"])
    found = curves(table, ["arm"], "step", log=log)
    for _, point in found.iterrows():
        values = [v for arm, step, v in rows if arm == point["arm"] and step == point["step"]]
        wanted = estimate(np.log(values) if log else values)
        ends = np.exp(wanted[:3]) if log else wanted[:3]
        assert tuple(point[["mean", "low", "high"]]) == pytest.approx(tuple(ends))
    # No interval is drawn for two runs.
    assert curves(table.groupby(["arm", "step"]).head(2), ["arm"], "step")["low"].isna().all()
