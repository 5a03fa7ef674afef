"""The judge keeps its promise: false words on known truths, and the committed table of them."""

import json

import calibrate
import numpy as np
import pytest
from committed import ROOT
from forked import forked
from scipy import stats
from simulated_designs import (
    DESIGNS,
    PRACTICAL,
    SHAPES,
    called_different,
    cells_of,
    false_in_one_setting,
    false_over_settings,
    false_with_weights,
    pooled_of,
    power,
    spread_of,
)
from statsmodels.stats.meta_analysis import combine_effects

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.outcomes import Outcomes, Setting
from normexp.claims.judge.random_effects import decide_over_settings
from normexp.claims.judge.several_settings import Rules, judge_settings
from normexp.claims.pages.error_rates import qualifies
from normexp.claims.pages.verdicts_page import CALIBRATION, page_of

TRIALS = 2000


def test_shapes_have_the_mean_that_they_are_judged_by():
    for name, draw in SHAPES.items():
        values = draw(np.random.default_rng(1), (400_000,))
        error = 4 * values.std() / len(values) ** 0.5
        assert abs(values.mean()) < error, name
        assert spread_of(draw) > 0


@pytest.mark.parametrize("name", SHAPES)
def test_at_most_five_percent_of_words_are_false_in_every_shape(name):
    spread = spread_of(SHAPES[name])
    assert qualifies(false_over_settings(SHAPES[name], spread, 8, 8, TRIALS), TRIALS)
    assert false_over_settings(SHAPES[name], spread, 8, 7, TRIALS) == 0.0  # 56 pairs decide nothing


def test_errors_are_too_frequent_without_the_floor_the_equal_weights_or_more_seeds():
    stuck, log = SHAPES["5% stuck halfway"], SHAPES["lognormal(1)"]
    assert false_over_settings(stuck, spread_of(stuck), 8, 5, TRIALS, floor=False) > 0.08
    assert false_in_one_setting(stuck, spread_of(stuck), 5, TRIALS) > 0.08
    assert false_in_one_setting(log, spread_of(log), 5, TRIALS) > 0.09
    assert false_with_weights(log, spread_of(log), 8, 8, TRIALS) > 0.3


def test_weights_of_one_over_variance_are_those_of_statsmodels():
    effects = np.random.default_rng(8 * 1000 + 6).normal(size=(60, 8, 6))
    cells = cells_of(effects)
    wrong = 0
    for own, variance in zip(cells.effect, cells.variance, strict=True):
        twin = combine_effects(own, variance, method_re="iterated", use_t=True)
        error = twin.sd_eff_w_re_hksj if twin.tau2 > 1e-6 else max(twin.sd_eff_w_fe_hksj, twin.sd_eff_w_fe)
        wrong += abs(twin.mean_effect_re / error) > stats.t.ppf(0.975, 7)
    assert false_with_weights(SHAPES["normal"], 1.0, 8, 6, 60) == pytest.approx(wrong / 60, abs=0.02)


def test_an_effect_of_practical_size_is_found_more_often_than_not():
    for question in PRACTICAL:
        assert power(SHAPES["normal"], 1.0, question, 8, 8, TRIALS) > 0.9
        assert power(SHAPES["lognormal(1)"], spread_of(SHAPES["lognormal(1)"]), question, 8, 8, TRIALS) > 0.5


def test_simulated_words_are_those_of_the_judge_itself():
    """The arrays of the simulation and `judge_settings` give one word for the same numbers."""
    draw, comparison = SHAPES["exponential"], Comparison(kind="greater", arm="a", baseline="b", margin=0.2)
    effects = draw(np.random.default_rng(0), (20, 8, 8)) + np.linspace(-0.5, 1.5, 20)[:, None, None]
    zeros = np.zeros(8)
    for trial in effects:
        settings = [
            Setting(str(place), {
                ("a", ""): Outcomes(np.arange(8), own, zeros > 0), ("b", ""): Outcomes(np.arange(8), zeros, zeros > 0)
            })
            for place, own in enumerate(trial)
        ]  # fmt: skip
        cells = cells_of(trial)
        expected = str(decide_over_settings(comparison, pooled_of(cells), cells, 64, 0.05).word)
        assert judge_settings(settings, [comparison], Rules())[0].verdict == expected


@pytest.mark.parametrize("name", DESIGNS)
def test_a_test_set_that_is_a_sample_is_counted(name):
    seeds_alone, own = called_different(DESIGNS[name], 300)
    assert qualifies(own, 300)
    assert seeds_alone > own


def test_a_quick_table_has_every_row_and_the_page_shows_them(tmp_path):
    found = calibrate.calibrate(trials=100, slow_trials=20, report=lambda line: None)
    assert [row["name"] for row in found["shapes"]] == list(SHAPES)
    assert "has not been run" in page_of({}, {}, tmp_path)
    path = tmp_path / CALIBRATION
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(found))
    text = page_of({}, {}, tmp_path)
    for row in (*found["shapes"], *found["failing"], *found["designs"]):
        assert f"\n| {row['name']} | " in text


def test_the_committed_table_keeps_the_promise_and_is_what_the_judge_does():
    found = json.loads((ROOT / CALIBRATION).read_text())
    assert found["trials"] >= 10_000
    assert [row["name"] for row in found["shapes"]] == list(SHAPES)
    for row in found["shapes"]:
        assert all(qualifies(share, found["trials"]) for share in row["false"].values()), row["name"]
        assert row["least_pairs"] <= 64
        assert row["pairs_for_half_power"] is not None
        stuck = "stuck" in row["name"]
        assert stuck or all(p >= 0.5 for own in row["power"].values() for p in own.values()), row["name"]
        draw = SHAPES[row["name"]]
        again = false_over_settings(draw, spread_of(draw), 8, 8, TRIALS)
        share = row["false"]["8 x 8"]
        assert again == pytest.approx(share, abs=5 * (max(share, 0.001) / TRIALS) ** 0.5)
    assert all(row["qualifies"] for row in (*found["failing"], *found["designs"]))
    assert qualifies(found["looks"]["false"], found["trials"])


@pytest.mark.parametrize("argument", ["trials=10", "shape=normal"])
def test_mistakes_on_the_command_line_are_one_line(argument):
    done = forked(argument, script="scripts/calibrate.py")
    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: {argument}")
    assert done.stderr.count("\n") == 1
