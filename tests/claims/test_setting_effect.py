"""The effect in one setting against slow loops, and what a test set cannot tell apart."""

import math

import numpy as np
import pytest
from settings import errors, values
from tables import table_of

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.failures import saturation
from normexp.claims.judge.one_setting import judge_one_setting
from normexp.claims.judge.outcomes import Outcomes, Setting, blocks
from normexp.claims.judge.setting_effect import crossed, effect_in

FEWER = Comparison(kind="smaller", arm="a", baseline="b", log=True)


def test_effect_is_the_log_ratio_of_all_wrong_answers_with_half_a_one_added():
    setting = errors({"a": 0.05, "b": 0.1})
    a, b = (setting.outcomes[arm, ""].examples for arm in "ab")
    wrong = [sum(int(x) for row in arm for x in row) for arm in (a, b)]
    found = effect_in(setting, FEWER)
    assert found.mean.effect == pytest.approx(math.log((wrong[0] + 0.5) / (wrong[1] + 0.5)))
    none = errors({"a": 0.0, "b": 0.1})
    assert effect_in(none, FEWER).mean.effect == pytest.approx(
        math.log(0.5 / (none.outcomes["b", ""].examples.sum() + 0.5))
    )


def test_interval_of_the_log_ratio_holds_the_truth_as_often_as_it_says():
    held = 0
    for seed in range(400):
        low, high = effect_in(errors({"a": 0.05, "b": 0.1}, seed, examples=400), FEWER).mean.interval(0.95)
        held += low < math.log(0.5) < high
    assert held / 400 > 0.93


def test_differences_that_the_test_set_cannot_tell_apart_decide_nothing():
    wrong = np.zeros((5, 360))
    wrong[:, :10] = 1
    other = wrong.copy()
    other[:, 10:12] = 1  # in every seed the same two images more
    arms = {
        ("a", ""): Outcomes.of_examples(range(5), other),
        ("b", ""): Outcomes.of_examples(range(5), wrong),
    }
    found = effect_in(Setting("digits", arms, "test set", True), FEWER).mean
    low, high = found.interval(0.95)
    assert low < 0 < high
    equal = {arm: arms["b", ""] for arm in arms}
    none = effect_in(Setting("digits", equal, "test set", True), FEWER).mean
    assert none.effect == 0
    assert none.p_within(-0.05, 0.05) > 0.05  # equal on 360 images is not equal to a twentieth
    assert none.p_within(-1.0, 1.0) < 0.05
    losses = {arm: Outcomes.of_examples(range(5), np.ones((5, 360))) for arm in arms}
    assert effect_in(Setting("digits", losses, "test set"), FEWER).mean.p_within(-9, 9) == 1.0


def test_measures_without_examples_are_judged_by_todays_effects():
    arms = {"a": [3.0, 4.0, 5.0, 7.0, 6.0], "b": [4.0, 6.0, 5.0, 9.0, 9.0]}
    found = effect_in(values(arms), FEWER)
    expected = np.log(arms["a"]) - np.log(arms["b"])
    assert found.mean.effect == pytest.approx(expected.mean())
    assert found.mean.variance == pytest.approx(expected.var(ddof=1) / 5)
    one = judge_one_setting(table_of(arms), [FEWER], trained=True)[0]
    assert one.effect == pytest.approx(found.mean.effect)


def test_contrast_of_a_trend_gives_the_slope_of_the_logs():
    levels = [2, 8, 32]
    comparison = Comparison(kind="increasing", arm="a", baseline="b", log2_factor=True, log=True)
    weights = comparison.weights(levels)
    slope = np.polyfit([1, 3, 5], [0.3, 0.1, 0.7], 1)[0] - np.polyfit([1, 3, 5], [0.2, 0.5, 0.4], 1)[0]
    logs = {("a", 2): 0.3, ("a", 8): 0.1, ("a", 32): 0.7, ("b", 2): 0.2, ("b", 8): 0.5, ("b", 32): 0.4}
    assert sum(weights[arm] * logs[arm] for arm in logs) == pytest.approx(slope)
    at = Comparison(kind="greater", arm="a", baseline="b", at=8).weights(levels)
    assert at == {("a", 8): 1.0, ("b", 8): -1.0}


def test_a_slope_of_errors_over_batch_sizes_is_found_in_wrong_answers():
    generator = np.random.default_rng(0)
    rates = {2: 0.2, 8: 0.1, 32: 0.05}  # half as many errors every two doublings
    arms = {
        ("a", level): Outcomes.of_examples(range(5), generator.random((5, 4000)) < rate)
        for level, rate in rates.items()
    }
    comparison = Comparison(kind="decreasing", arm="a", log2_factor=True, log=True)
    low, high = effect_in(Setting("m", arms, "test set", True), comparison).mean.interval(0.95)
    assert low < -math.log(2) / 2 < high
    assert high - low < 0.1


def test_splits_cut_again_count_each_seeds_own_images_and_the_pool():
    setting = errors({"a": 0.05, "b": 0.1}, design="cut again", test_to_train=0.3)
    a, b = (setting.outcomes[arm, ""].values for arm in "ab")
    z = a / a.mean() - b / b.mean()
    found = effect_in(setting, FEWER)
    assert found.mean.variance == pytest.approx((1 / 5 + 0.3) * z.var(ddof=1), rel=0.05)
    assert found.mean.df == 4


def test_failed_runs_are_left_out_with_their_partner_or_count_as_guessing():
    arms = {"a": [1.0, 2.0, 3.0, 4.0, 5.0, 99.0, 6.0], "b": [2.0, 2.5, 3.5, 4.5, 7.0, 8.0, 9.0]}
    failed = {"a": [False] * 5 + [True, False]}
    setting = values(arms, failed=failed, guess=10.0)
    kept = effect_in(setting, Comparison(kind="greater", arm="a", baseline="b"))
    assert list(kept.seeds) == [0, 1, 2, 3, 4, 6]
    rows = [0, 1, 2, 3, 4, 6]
    assert kept.mean.effect == pytest.approx(np.mean([arms["a"][i] - arms["b"][i] for i in rows]))
    guess = effect_in(setting, Comparison(kind="greater", arm="a", baseline="b"), failed="guess")
    assert guess.mean.effect == pytest.approx((kept.mean.effect * 6 + 10.0 - 8.0) / 7)
    images = errors({"a": 0.1, "b": 0.1})
    lost = Outcomes.of_examples(
        range(5), images.outcomes["a", ""].examples, [True, False, False, False, False]
    )
    mixed = Setting("m", {**images.outcomes, ("a", ""): lost}, "test set", True, guess=0.9)
    assert effect_in(mixed, FEWER).mean is None  # four pairs are too few
    counted = effect_in(mixed, FEWER, failed="guess")
    total = lost.examples[1:].sum() + 0.9 * 1000
    assert counted.mean.effect == pytest.approx(
        math.log((total + 0.5) / (images.outcomes["b", ""].examples.sum() + 0.5))
    )
    with pytest.raises(ValueError, match="setting=m: the value of guessing"):
        effect_in(Setting("m", mixed.outcomes, "test set", True), FEWER, failed="guess")


def test_ceiling_and_floor_ask_all_arms_alike():
    def flag(rates, **options):
        setting = errors(rates, **options)
        return saturation(setting, setting.outcomes.values())

    assert flag({"a": 0.002, "b": 0.004}) == "ceiling"
    assert flag({"a": 0.002, "b": 0.02}) == flag({"a": 0.02, "b": 0.002}) == ""
    assert flag({"a": 0.002, "b": 0.004}, examples=10_000) == ""
    late = values({"a": [95.0] * 5, "b": [90.0] * 5}, guess=100.0)
    assert saturation(late, late.outcomes.values()) == "floor"
    failed = values({"a": [1.0] * 5}, failed={"a": [True] * 5})
    assert saturation(failed, failed.outcomes.values()) == "floor"


def test_blocks_are_means_of_neighbors():
    losses = np.arange(14.0).reshape(2, 7)
    assert blocks(losses, 3).tolist() == [[1.0, 4.0], [8.0, 11.0]]
    with pytest.raises(ValueError, match="size=4: 7 windows give 1 blocks"):
        blocks(losses, 4)


def test_blocks_of_a_text_whose_neighbors_are_alike_keep_the_level_that_windows_lose():
    generator = np.random.default_rng(1)
    held = {1: 0, 40: 0}
    for _ in range(200):
        topic = np.repeat(generator.normal(size=50), 40)  # neighbors share it
        windows = {
            arm: 3 + 0.2 * topic * sign + 0.3 * generator.normal(size=(5, 2000))
            for arm, sign in (("a", 1), ("b", -1))
        }
        for size in held:
            arms = {
                (arm, ""): Outcomes.of_examples(range(5), blocks(own, size)) for arm, own in windows.items()
            }
            low, high = effect_in(Setting("text", arms, "test set"), FEWER).mean.interval(0.95)
            held[size] += low < 0 < high
    assert held[40] >= 182
    assert held[1] < 100
    assert crossed(np.zeros((2, 3, 4))).variance.tolist() == [0.0, 0.0]


def test_mistakes_are_one_line():
    with pytest.raises(ValueError, match="design=all: choose from seeds"):
        values({"a": [1.0] * 5}, design="all")
    with pytest.raises(ValueError, match="setting=mnist: arms have other seeds"):
        values({"a": [1.0] * 5, "b": [1.0] * 6})
    with pytest.raises(ValueError, match="setting=mnist: runs without test examples"):
        values({"a": [1.0] * 5}, design="test set")
    with pytest.raises(ValueError, match="over=x: is not judged over settings"):
        Comparison(kind="increasing", arm="a", over="x").weights([1, 2])
    with pytest.raises(ValueError, match="ranks need a measure without examples"):
        effect_in(errors({"a": 0.1}), Comparison(kind="increasing", arm="a", by="rank"))
