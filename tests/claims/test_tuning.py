"""Each seed takes its own best rate; the grid is widened by a rule that sees no difference between arms."""

import math

import numpy as np
import pandas as pd
import pytest

from normexp.claims.evidence.choose_rates import tuned_runs, widened_rates

RATES = [0.01, 0.03, 0.1, 0.3]


def rows(scores: dict[str, list[list[float]]], rates=RATES, failed=()) -> pd.DataFrame:
    """scores[arm][seed][rate]; the value on test is the score plus the seed."""
    return pd.DataFrame(
        {"cell": "m", "norm": arm, "level": "", "seed": seed, "lr": rate, "val_accuracy": score, "val_loss": 0.0,
         "value": score + seed, "status": "diverged" if (arm, seed, rate) in failed else "completed"}
        for arm, seeds in scores.items()
        for seed, own in enumerate(seeds)
        for rate, score in zip(rates, own, strict=True)
    )  # fmt: skip


def slow(runs, arm, seed):
    """The best rate of one seed by a loop."""
    best = None
    for row in runs.itertuples():
        if (row.norm, row.seed, row.status) == (arm, seed, "completed") and (
            best is None
            or (row.val_accuracy, -row.val_loss, -row.lr) > (best.val_accuracy, -best.val_loss, -best.lr)
        ):
            best = row
    return best


def test_every_seed_takes_its_own_best_rate_by_its_own_score():
    generator = np.random.default_rng(0)
    scores = {arm: generator.integers(0, 4, (6, 4)).tolist() for arm in "ab"}  # with ties
    failed = {("a", 0, 0.1), ("b", 3, 0.01), ("b", 3, 0.03)}
    runs = rows(scores, failed=failed)
    runs["val_loss"] = -generator.integers(0, 2, len(runs)).astype(float)
    found = tuned_runs(runs.iloc[generator.permutation(len(runs))], "error")
    assert list(zip(found["norm"], found["seed"], strict=True)) == [(a, s) for a in "ab" for s in range(6)]
    for row in found.itertuples():
        best = slow(runs, row.norm, row.seed)
        assert (row.lr, row.val_accuracy, row.value, row.status) == (
            best.lr, best.val_accuracy, best.value, "completed",
        )  # fmt: skip


def test_a_score_that_is_no_number_is_the_worst_and_a_tie_that_is_none_too():
    runs = rows({"a": [[math.nan, 1, 1, 1]]}).assign(val_loss=[0.0, math.nan, -2.0, math.inf])
    assert tuned_runs(runs, "error")["lr"].tolist() == RATES[2:3]
    assert tuned_runs(runs[:2], "error")["lr"].tolist() == RATES[1:2]


def test_a_seed_whose_every_rate_failed_has_failed():
    scores = {"a": [[1, 2, 3, 4], [1, 2, 3, 4]]}
    failed = {("a", 1, rate) for rate in RATES} | {("a", 0, 0.3)}
    first, second = tuned_runs(rows(scores, failed=failed), "error").itertuples()
    assert (first.lr, first.status) == (0.1, "completed")
    assert second.status == "diverged"


def inner(n: int, at: int) -> list[list[float]]:
    """n seeds, `at` of which take the highest rate."""
    return [[0, 1, 2, 3 if seed < at else 1] for seed in range(n)]


def test_the_grid_is_widened_where_more_than_a_fifth_of_an_arms_seeds_take_an_edge():
    calm = {"a": inner(10, 2), "b": inner(10, 0)}
    assert widened_rates(rows(calm), "error") == RATES
    found = widened_rates(rows({"a": inner(10, 3), "b": inner(10, 0)}), "error")
    assert found == pytest.approx([*RATES, 0.9])
    both = {"a": [[3, 0, 0, 1]] * 2 + [[0, 0, 1, 3]] * 2 + [[0, 3, 0, 0]] * 6}
    assert widened_rates(rows(both), "error") == pytest.approx([0.01 / 3, *RATES, 0.9])


def test_the_rule_is_blind_to_how_arms_compare():
    a, b = inner(10, 4), inner(10, 1)
    better = [[score + 100 for score in seed] for seed in b]
    for pair in ({"a": a, "b": b}, {"a": a, "b": better}, {"a": better, "b": a}):
        assert widened_rates(rows(pair), "error") == pytest.approx([*RATES, 0.9])


def test_failed_rates_take_no_edge_and_one_rate_has_none():
    lost = {("a", seed, 0.3) for seed in range(5)}
    assert widened_rates(rows({"a": inner(5, 5)}, failed=lost), "error") == RATES
    assert widened_rates(rows({"a": [[1]] * 5}, rates=[0.1]), "error") == [0.1]
    never = {("a", seed, rate) for seed in range(5) for rate in RATES}
    assert widened_rates(rows({"a": inner(5, 5)}, failed=never), "error") == RATES


def test_missing_or_doubled_runs_are_named():
    table = rows({"a": inner(5, 1), "b": inner(5, 1)})
    with pytest.raises(ValueError, match="setting=m: b: 19 different runs of 20"):
        tuned_runs(table[:-1], "error")
    with pytest.raises(
        ValueError, match="setting=m: a: 20 different runs of 20, 21 rows; every arm needs each rate"
    ):
        tuned_runs(pd.concat([table, table[:1]]), "error")


def test_tuning_inside_keeps_the_level_that_tuning_outside_loses():
    """Two equal arms of noise: rates chosen by two seeds for all, or by each seed for itself."""
    generator = np.random.default_rng(2)
    trials, n, best = 1500, 10, np.array([0.0, 0.05, 0.02, -0.3])  # rates differ, arms do not

    def differ(values):  # (trials, 2, n) -> share called different at 5%
        effects = values[:, 0] - values[:, 1]
        t = effects.mean(-1) / (effects.std(-1, ddof=1) / math.sqrt(n))
        return (abs(t) > 2.262).mean()

    run = lambda *shape: best + 0.1 * generator.normal(size=(trials, 2, *shape, 4))  # noqa: E731
    outside = run(2).mean(2).argmax(-1)[:, :, None, None]
    test = run(n)
    assert differ(np.take_along_axis(test, outside, -1)[..., 0]) > 0.08
    inside = run(n).argmax(-1)[..., None]
    assert differ(np.take_along_axis(test, inside, -1)[..., 0]) < 0.065
