"""Predictions: a planted effect is found, intervals hold as often as they say, the jackknife+ is a slow loop."""

import math

import numpy as np
import pytest
from made_settings import NORMS, made
from sklearn.linear_model import Ridge

from normexp.advise.forecast import MOST, Expected, Forecast, change, effects_of, nearest, ridge


def planted(norm: str, labels: dict, at: str) -> float:
    """BatchNorm gains with the logarithm of the batch, LayerNorm in one kind of model."""
    if norm == "batchnorm":
        return 0.05 * math.exp(1.5 - 0.3 * math.log(float(labels["batch size"])))
    return 0.05 * (1.5 if norm == "layernorm" and labels["model"] == "CNN" else 1.0)


LABELS = {
    "data": "MNIST", "model": "MLP", "depth": "4", "activation": "ReLU", "updates": "1000", "batch size": "100",
}  # fmt: skip


def test_a_planted_effect_is_predicted_and_norms_are_in_its_order():
    forecast = Forecast(made(planted, n=40, noise=0.02), NORMS)
    for size, model in ((12, "CNN"), (60, "MLP"), (300, "CNN")):
        own = LABELS | {"batch size": str(size), "model": model}
        told = {one.norm: one for one in forecast.expect(own)}
        for norm in ("batchnorm", "layernorm"):
            truth = math.log(planted(norm, own, "final") / 0.05)
            assert told[norm].low <= truth <= told[norm].high
            assert told[norm].effect == pytest.approx(truth, abs=0.1)
            assert told[norm].high - told[norm].low < 0.25
    order = [one.norm for one in forecast.expect(LABELS | {"batch size": "8", "model": "MLP"})]
    assert order == ["layernorm", "batchnorm"]


def in_order(forecast: Forecast, labels: dict) -> list[Expected]:
    """What is expected of each norm but the first, in the order of the norms."""
    return sorted(forecast.expect(labels), key=lambda told: NORMS.index(told.norm))


@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
def test_ridge_leaves_each_setting_out_as_a_slow_loop_of_scikit_learn_does(size):
    generator = np.random.default_rng(4)
    x, y = generator.normal(size=(15, 5)), generator.normal(size=(15, 2))
    x -= x.mean(0)
    slow = []
    for out in range(15):
        kept = np.arange(15) != out
        # Only the fit of the others has a center of its own; the intercept is refitted, the columns are not.
        slow.append(Ridge(size).fit(x[kept], y[kept]).predict(x[[out]])[0])
    np.testing.assert_allclose(ridge(None, x, y, size), slow, rtol=1e-9)
    np.testing.assert_allclose(ridge(x[:3] + 1, x, y, size), Ridge(size).fit(x, y).predict(x[:3] + 1))


def test_the_nearest_are_those_of_a_slow_loop():
    generator = np.random.default_rng(5)
    x, y = generator.normal(size=(12, 4)), generator.normal(size=(12, 3))
    for place in range(12):
        others = sorted(set(range(12)) - {place}, key=lambda one: math.dist(x[one], x[place]))
        expected = [sorted(y[others[:5], column])[2] for column in range(3)]
        np.testing.assert_allclose(nearest(None, x, y, 5)[place], expected)
    np.testing.assert_array_equal(nearest(x[:2], x, y, 1), y[:2])


def test_failed_runs_are_guesses_and_ratios_beyond_fourfold_count_as_fourfold():
    settings = made(lambda norm, labels, at: 0.95 if norm == "none" else 0.01, n=1)
    assert effects_of(settings[0], NORMS) == [-MOST, -MOST]
    both = made(lambda norm, labels, at: 0.95, n=1)
    assert effects_of(both[0], NORMS) == [0.0, 0.0]


def test_what_lies_outside_is_named_against_networks_of_its_kind():
    forecast = Forecast(made(planted, n=24), NORMS)
    assert forecast.outside(forecast.settings[0].cell.labels) == []
    found = forecast.outside(LABELS | {"data": "photos", "batch size": "4096", "width": "7"})
    assert found[0] == "data photos (measured: CIFAR-10, MNIST)"
    assert found[1].startswith("batch size 4,096 (measured: ")
    assert len(found) == 2
    assert forecast.outside(LABELS | {"model": "mine"})[0] == "model mine (measured: CNN, MLP)"


def test_the_nearest_setting_of_a_measured_one_is_itself():
    forecast = Forecast(made(planted, n=24), NORMS)
    for own in forecast.settings[:8:2]:
        assert forecast.nearest(own.cell.labels)[0] is own


def test_few_settings_predict_nothing():
    with pytest.raises(ValueError, match="11 settings of it are finished, and a prediction needs 12"):
        Forecast(made(planted, n=11), NORMS)


def test_ratios_in_words():
    assert str(Expected("a", math.log(0.88), math.log(0.5), math.log(2.5))) == "-12% (-50% to x2.5)"
    assert change(0.0) == "+0%"
