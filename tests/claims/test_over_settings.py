"""The mean over settings against statsmodels, its covariances against a joint bootstrap, its word rule by rule."""

import math

import numpy as np
import pytest
from settings import errors
from statsmodels.stats.meta_analysis import combine_effects
from statsmodels.stats.multitest import multipletests

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.estimate import UncertainMean, holm
from normexp.claims.judge.outcomes import Outcomes, Setting
from normexp.claims.judge.random_effects import (
    Pooled,
    covariance,
    covariances,
    decide_over_settings,
    pool,
    pool_settings,
)
from normexp.claims.judge.setting_effect import SettingEffect, effect_in, over_seeds

FEWER = Comparison(kind="smaller", arm="a", baseline="b", log=True, margin=0.1)


def test_mean_and_interval_are_hartung_and_knapps_at_equal_weights():
    generator = np.random.default_rng(0)
    for _ in range(20):
        effects, variance = generator.normal(0.3, 1.0, 7), 0.3
        found = pool(effects, variance * np.eye(7), np.zeros(7))
        twin = combine_effects(effects, np.full(7, variance), method_re="iterated", use_t=True)
        assert found.mean.effect == pytest.approx(twin.mean_effect_re)
        assert found.between == pytest.approx(max(twin.tau2, 0), abs=1e-4)
        if twin.tau2 > 0:
            assert math.sqrt(found.mean.variance) == pytest.approx(twin.sd_eff_w_re_hksj, rel=1e-4)
            low, high = twin.conf_int(use_t=True)[3]  # random effects, Hartung and Knapp
            assert found.mean.interval(0.95) == pytest.approx((low, high), rel=1e-3)
        else:  # settings that agree too well gain nothing
            assert found.mean.variance == pytest.approx(variance / 7)


def test_what_settings_share_is_added_to_the_variance_of_the_mean():
    generator = np.random.default_rng(1)
    k, own, shared, between = 6, 0.5, 0.4, 0.2
    covariance_of_errors = own * np.eye(k) + shared
    errors_of = generator.multivariate_normal(np.zeros(k), covariance_of_errors, size=20_000)
    effects = 1.0 + errors_of + between**0.5 * generator.normal(size=(20_000, k))
    found = pool(effects, np.broadcast_to(covariance_of_errors, (20_000, k, k)), np.zeros((20_000, k)))
    assert found.mean.variance.mean() == pytest.approx(effects.mean(1).var(), rel=0.15)
    low, high = found.mean.interval(0.95)
    assert ((low < 1) & (high > 1)).mean() > 0.95
    alone = pool(effects, (own + shared) * np.broadcast_to(np.eye(k), (20_000, k, k)), np.zeros((20_000, k)))
    low, high = alone.mean.interval(0.95)
    assert ((low < 1) & (high > 1)).mean() < 0.9


def test_prediction_interval_holds_the_effect_of_one_more_setting():
    generator = np.random.default_rng(2)
    effects = generator.normal(0, 0.5, (20_000, 8)) + generator.normal(0, 0.2, (20_000, 8))
    found = pool(effects, 0.04 * np.broadcast_to(np.eye(8), (20_000, 8, 8)), np.zeros((20_000, 8)))
    low, high = found.prediction(0.95)
    another = generator.normal(0, 0.5, 20_000)
    assert 0.93 < ((low < another) & (another < high)).mean() < 0.99
    assert Pooled(UncertainMean(0.0, 1.0, 1.0), 1.0, 2).prediction(0.95) == (-np.inf, np.inf)


def crossed_setting(name: str, z: np.ndarray, shared: str = "", runs: tuple = ()) -> SettingEffect:
    z = z - z.mean()
    variance = over_seeds(z.mean(1)).variance
    seeds = np.arange(len(z))
    return SettingEffect(
        Setting(name, {}, shared=shared), UncertainMean(0.0, variance, 1.0), seeds, z, frozenset(runs)
    )


@pytest.mark.parametrize("runs", [False, True])
def test_covariance_of_settings_that_share_a_test_set_is_that_of_a_joint_bootstrap(runs):
    generator = np.random.default_rng(3)
    n, examples = 60, 400
    example, seed = 2 * generator.normal(size=examples), 0.3 * generator.normal(size=(n, 1))
    a, b = (example + runs * seed + generator.normal(size=(n, examples)) for _ in range(2))
    pairs = []
    for _ in range(4000):
        columns, rows = generator.integers(examples, size=examples), generator.integers(n, size=n)
        others = rows if runs else generator.integers(n, size=n)
        pairs.append((a[rows].mean(0)[columns].mean(), b[others].mean(0)[columns].mean()))
    first, second = (crossed_setting(name, z, "mnist", ["run"] * runs) for name, z in (("a", a), ("b", b)))
    assert covariance(first, second) == pytest.approx(np.cov(np.transpose(pairs))[0, 1], rel=0.1)
    stranger = crossed_setting("b", b, "cifar")
    assert covariance(first, stranger) == 0.0


def test_covariance_of_splits_cut_alike_is_over_the_seeds_that_both_have():
    generator = np.random.default_rng(4)
    common = generator.normal(size=(8, 1))
    x, y = common + generator.normal(size=(8, 1)), common + generator.normal(size=(8, 1))
    a, b = (
        SettingEffect(
            Setting(name, {}, "cut again", shared="digits", test_to_train=0.3),
            UncertainMean(0.0, 1.0, 7.0), np.arange(8), z[:, 0], frozenset(),
        )
        for name, z in (("a", x), ("b", y))
    )  # fmt: skip
    assert covariance(a, b) == pytest.approx((1 / 8 + 0.3) * np.cov(x[:, 0], y[:, 0])[0, 1])
    assert covariances([a, b])[0, 1] == covariances([a, b])[1, 0] == covariance(a, b)


def test_settings_of_one_test_set_are_pooled_with_their_covariance():
    generator = np.random.default_rng(5)
    # Every model finds the same images hard, in one arm more than in the other.
    hard = generator.exponential(size=500)
    settings = []
    for name in "abcdef":
        arms = {
            (arm, ""): Outcomes.of_examples(range(5), generator.random((5, 500)) < np.minimum(0.1 * own, 1))
            for arm, own in (("a", hard), ("b", hard[::-1]))
        }
        settings.append(Setting(name, arms, "test set", True, shared="mnist"))
    together = pool_settings([effect_in(setting, FEWER) for setting in settings])
    apart = pool(
        np.array([effect_in(s, FEWER).mean.effect for s in settings]),
        np.diag([effect_in(s, FEWER).mean.variance for s in settings]),
        np.zeros(6),
    )
    assert together.mean.effect == pytest.approx(apart.mean.effect)
    assert together.mean.variance > 2 * apart.mean.variance


def test_holm_along_an_axis_is_statsmodels():
    p = np.random.default_rng(6).random((3, 7)) ** 3
    expected = [multipletests(row, method="holm")[1] for row in p]
    assert holm(p) == pytest.approx(np.array(expected))


def word(effects, variance=0.01, *, pairs=80, comparison=FEWER, alpha=0.05, third=0.0):
    effects = np.array(effects, float)
    k = len(effects)
    pooled = pool(effects, variance * np.eye(k), np.full(k, third))
    cells = UncertainMean(effects, np.full(k, variance), np.full(k, 9.0), np.full(k, third))
    return decide_over_settings(comparison, pooled, cells, pairs, alpha)


def test_the_mean_decides_where_eight_tenths_point_its_way_and_none_decides_against():
    assert word([-0.5] * 8).word == "supported"
    assert word([0.0] * 8, 0.001).word == "refuted"  # no difference is less than a tenth
    assert word([-0.1] * 8).word == "inconclusive"
    two_of_eight = word([-1.2] * 6 + [0.0, 0.0], 0.3)
    assert (two_of_eight.word, two_of_eight.p < 0.05) == ("inconclusive", True)  # but 75% point that way
    assert word([-1.2] * 7 + [0.0], 0.3).word == "supported"
    assert word([-1.2] * 7 + [0.3], 0.001).word == "varies across settings"  # one decides against, seven for


def test_settings_that_decide_both_ways_vary_even_where_the_mean_decides_nothing():
    found = word([-1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0])
    assert found.word == "varies across settings"
    assert found.cells.tolist() == [1] * 4 + [-1] * 4
    assert 0 < found.p < 0.05
    weak = word([-0.3, -0.3, -0.3, -0.3, 0.1, 0.1, 0.1, 0.1], 0.02)
    assert weak.word == "inconclusive"


def test_few_pairs_or_few_settings_decide_nothing():
    assert word([-0.5] * 8, pairs=59).word == "inconclusive"
    assert word([-0.5] * 8, pairs=60).word == "supported"
    assert word([-0.5] * 3).word == "inconclusive"
    assert word([-0.5] * 4, 0.0001).word == "supported"
    assert word([-1.0, 1.0, -1.0, 1.0], pairs=20).word == "inconclusive"


def test_skewness_widens_the_mean_over_settings_too():
    assert word([-0.5] * 8).p < word([-0.5] * 8, third=0.004).p


def test_no_setting_decides_by_the_number_of_settings_alone():
    p_alone = word([-0.28] * 4).cells
    assert p_alone.tolist() == [0] * 4  # p is 0.1 each


def test_effects_of_settings_come_with_their_own_noise():
    found = effect_in(errors({"a": 0.05, "b": 0.1}), FEWER)
    pooled = pool_settings([found, found])
    assert pooled.mean.effect == pytest.approx(found.mean.effect)
    assert pooled.mean.third == pytest.approx(found.mean.third / 4)
