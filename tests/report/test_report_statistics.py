"""Intervals and paired differences against closed forms, loops and simulation."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from normexp.claims.judge.estimate import SeedMean
from normexp.report.statistics import Values, crossed, curves, estimate, of_all_runs


def points(values, examples=None, **more) -> Values:
    return Values([(seed,) for seed in values], np.array([*values.values()]), examples, **more)


def test_interval_is_students_t_interval_of_the_mean():
    values = [0.90, 0.92, 0.95, 0.91]
    found = estimate(values)
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert (found.mean, found.low, found.high, found.n) == pytest.approx((0.92, low, high, 4))


def test_equal_values_show_nothing_of_the_noise():
    """Issue 26: two equal seeds gave `differences of up to 0.0 points remain possible`."""
    assert math.isnan(estimate([0.9, 0.9, 0.9]).high)
    right = np.tile(np.arange(100) < 90, (3, 1)).astype(float)
    found = estimate([0.9, 0.9, 0.9], examples=right, resolution=1e-4)
    assert 0.8 < found.low < 0.86
    assert 0.94 < found.high < 1


@pytest.mark.parametrize("examples", [False, True])
@pytest.mark.parametrize("n", [1, 2])
def test_fewer_than_three_seeds_give_their_values_and_no_interval(n, examples):
    """An interval over test examples alone says nothing of other seeds: two that agree would make it narrow."""
    z = np.random.default_rng(0).normal(0, 1, (n, 50))
    found = estimate(z.mean(1), examples=z if examples else None)
    assert math.isnan(found.low)
    assert (found.n, found.few) == (n, pytest.approx(tuple(z.mean(1))))
    assert math.isnan(estimate([math.nan] * n).mean)
    judge = SeedMean.of(np.array([0.1, 0.2][:n]))
    assert (judge.interval(0.95), judge.p_within([(0, math.inf)])) == ((-math.inf, math.inf), 1.0)
    assert estimate([0.1, 0.2, 0.4]).few == ()
    assert SeedMean.of(np.array([0.1, 0.2, 0.4])).interval(0.95)[1] < math.inf


@pytest.mark.parametrize(("of_seeds", "of_examples"), [(0.3, 0.0), (0.0, 0.3), (0.2, 0.2)])
def test_interval_over_seeds_and_examples_covers_the_mean_over_both(of_seeds, of_examples):
    random = np.random.default_rng(0)
    covered = []
    for _ in range(600):
        z = random.normal(0, of_seeds, (5, 1)) + random.normal(0, of_examples, 40)
        z = z + random.normal(0, 1, (5, 40))
        found = estimate(z.mean(1), examples=z)
        covered.append(found.low <= 0 <= found.high)
    assert np.mean(covered) > 0.93


def test_crossed_variance_and_its_degrees_of_freedom_are_those_of_sums_written_out():
    z = np.array([[1.0, 2.0, 4.0, 1.0], [2.0, 2.0, 7.0, 3.0], [0.0, 1.0, 3.0, 5.0]])  # 3 seeds, 4 examples
    whole = sum(z.flat) / 12
    seeds = [sum(row) / 4 - whole for row in z]
    examples = [sum(column) / 3 - whole for column in z.T]
    rest = [z[i, j] - whole - seeds[i] - examples[j] for i in range(3) for j in range(4)]
    squares = [sum(x**2 for x in part) for part in (seeds, examples, rest)]
    parts = [squares[0] / 2 / 3, squares[1] / 3 / 4 + 0.01, squares[2] / 6 / 12]
    variance = parts[0] + parts[1] - parts[2]
    df = variance**2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 3 + parts[2] ** 2 / 6)
    assert variance > max(parts)
    assert crossed(z, 0.01) == pytest.approx((variance, df))
    assert crossed(np.zeros((3, 4))) == (0.0, 2.0)


def test_pairing_removes_what_seeds_share():
    luck = {seed: 0.1 * seed for seed in range(5)}
    worse = points({seed: 0.5 + value for seed, value in luck.items()})
    better = points({seed: 0.51 + value + 0.001 * (seed % 2) for seed, value in luck.items()})
    assert not better.mean().low > worse.mean().mean
    assert better.minus(worse).low > 0
    assert better.minus(points({0: 0.5, 9: 0.5})).n == 1  # only seeds that both have


def test_a_difference_of_about_one_answer_is_never_clear():
    right = np.tile(np.arange(360) < 350, (5, 1)).astype(float)
    one_more = np.tile(np.arange(360) < 351, (5, 1)).astype(float)
    more = {"answer": 1 / 360, "bounds": (0, 1)}
    first, second = (points(dict.fromkeys(range(5), float(z.mean())), z, **more) for z in (one_more, right))
    difference = first.minus(second)
    assert difference.low < 0 < difference.high


def test_intervals_of_accuracies_keep_their_bounds():
    wide = points({0: 0.1, 1: 0.9, 2: 0.1}, bounds=(0, 1))
    assert (wide.mean().low, wide.mean().high) == (0.0, 1.0)
    difference = wide.minus(points({0: 0.9, 1: 0.0, 2: 0.9}, bounds=(0, 1)))
    assert (difference.low, difference.high) == (-1.0, 1.0)


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


def test_a_mean_ends_where_its_first_run_does():
    rows = pd.DataFrame(
        {"arm": list("aaabbb"), "step": [1, 1, 2, 1, 2, 3], "value": [1.0, 3.0, 9.0, 1.0, 2.0, 3.0]}
    )
    kept = of_all_runs(curves(rows, ["arm"], "step"), ["arm"])
    assert list(zip(kept["arm"], kept["step"], kept["mean"], strict=True)) == [
        ("a", 1, 2.0), ("b", 1, 1.0), ("b", 2, 2.0), ("b", 3, 3.0),
    ]  # fmt: skip


def test_one_test_example_gives_a_mean_and_no_interval():
    z = np.array([[0.5], [0.6], [0.7]])
    found = estimate(z.mean(1), examples=z)
    assert (found.mean, found.n) == (pytest.approx(0.6), 3)
    assert math.isnan(found.low)
    assert math.isnan(points({0: 0.1, 1: 0.2, 2: 0.4}, z).minus(points({0: 0, 1: 0, 2: 0}, 0 * z)).high)
