"""A claim judged over settings: words with their scope, settings that do not vote, failures, contrasts."""

import json
import math

import numpy as np
import pytest
from settings import FEWER, errors, family

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.outcomes import Outcomes, Setting
from normexp.claims.judge.several_settings import Rules, judge_contrast, judge_settings
from normexp.claims.judge.verdict import _plain


def judged(settings, comparison=FEWER, **rules):
    return judge_settings(settings, [comparison], Rules(better="lower", **rules))[0]


def test_the_word_says_in_how_many_settings_and_which():
    found = judged(family([-0.5, -0.4, -0.6, -0.5, -0.5, -0.4]))
    assert found.verdict == "supported"
    assert found.scope == "in 6 of 6 settings (digits, MNIST, CIFAR-10; MLP, CNN)"
    assert found.interval[1] < -0.1
    assert found.prediction[0] < found.interval[0] < found.effect < found.interval[1] < found.prediction[1]
    assert (found.pairs, found.n_seeds, found.level) == (72, 12, 0.95)
    assert [row["verdict"] for row in found.settings] == ["supported"] * 6
    assert found.worst_case == pytest.approx((found.effect, found.effect), abs=0.01)
    refuted = judged(family([0.0] * 5 + [0.2]))
    assert (refuted.verdict, refuted.scope[:18]) == ("refuted", "in 6 of 6 settings")


def test_settings_that_decide_both_ways_vary():
    found = judged(family([-0.5, -0.4, -0.6, 0.5, 0.5, 0.4]))
    assert found.verdict == "varies across settings"
    assert found.scope.startswith("supported in 3 and refuted in 3 of 6 (digits")
    assert found.p_adjusted < 0.05 < found.p_raw


def test_inconclusive_says_what_is_missing():
    assert (
        judged(family([-0.5] * 6, n=5)).note
        == "30 pairs of runs, and 60 are needed; 5 more seeds in each setting"
    )
    assert judged(family([-0.5] * 3, n=30)).note == "3 settings vote, and 4 are needed"
    spread = judged(family([-0.5, 0.1, -0.9, 0.0, -0.1, 0.0], noise=0.3))
    assert spread.verdict == "inconclusive"
    assert spread.note.startswith("settings differ by more than seeds explain")
    noisy = judged(family([-0.12] * 6, noise=0.5))
    assert noisy.note.startswith("more seeds would help")
    few = judged(family([-1.0, -1.1, -1.2, -1.0, -0.05, -0.05], noise=0.5, seed=None))
    assert few.p_adjusted <= 0.05
    assert few.note == "the mean decides, but only 4 of 6 settings point that way"


def test_ceiling_and_floor_are_shown_and_do_not_vote():
    settings = [errors({"a": 0.05, "b": 0.1}, seed, f"s{seed}", n=15) for seed in range(5)]
    easy = errors({"a": 0.002, "b": 0.0015}, 9, "easy", n=15)
    generator = np.random.default_rng(9)
    guesses = {
        (arm, ""): Outcomes.of_examples(range(15), generator.random((15, 1000)) < 0.87) for arm in "ab"
    }
    hard = Setting("hard", guesses, "test set", True, guess=0.9)
    few = errors({"a": 0.1, "b": 0.1}, 9, "few", n=4)
    found = judged([*settings, easy, hard, few])
    assert found.verdict == "supported"
    assert found.scope == "in 5 of 5 settings (MNIST; MLP)"
    assert [row["flag"] for row in found.settings[5:]] == ["ceiling", "floor", "fewer than 5 pairs of runs"]
    assert found.settings[5]["effect"] is not None  # shown
    assert found.settings[7]["effect"] is None
    assert judged(settings).effect == found.effect
    json.dumps(_plain(found.settings), allow_nan=False)


def test_runs_that_failed_are_left_out_said_and_bounded():
    failed = {"a": [True, False, True] + [False] * 9}
    found = judged(family([-0.5] * 6, failed=failed))
    assert found.verdict == "supported"
    assert found.scope.endswith(", given that both trained")
    assert found.failures == {"arm": 12, "baseline": 0, "pairs": 72, "p": 2 / 2**12, "unequal": True}
    low, high = found.worst_case
    assert low < found.effect < -0.1 < high  # guessing in a sixth of the runs would take the word away
    guess = judged(family([-0.5] * 6, failed=failed), failed="guess")
    assert guess.effect > found.effect
    assert "given" not in guess.scope
    assert guess.pairs == 72


def test_a_sentence_about_failure_is_judged_by_shares_of_failed_runs():
    often = family([0.0] * 6, failed={"a": [True] * 8 + [False] * 4})
    fails_more = Comparison(kind="greater", arm="a", baseline="b", margin=0.1)
    found = judge_settings(often, [fails_more], Rules(measure="failed"))[0]
    assert (found.verdict, found.effect) == ("supported", pytest.approx(8 / 14))
    assert found.pairs == 72
    always = family([0.0] * 6, failed={"a": [True] * 12})
    assert judge_settings(always, [fails_more], Rules(measure="failed"))[0].verdict == "supported"
    assert judged(always).note == "0 settings vote, and 4 are needed"
    assert math.isnan(judged(always).effect)
    never = judge_settings(family([0.0] * 6), [fails_more], Rules(measure="failed"))[0]
    assert never.verdict == "inconclusive"  # twelve runs a setting cannot exclude a tenth in each
    seldom = Comparison(kind="greater", arm="a", baseline="b", margin=0.2)
    assert judge_settings(family([0.0] * 6, n=40), [seldom], Rules(measure="failed"))[0].verdict == "refuted"


def test_several_comparisons_are_one_holm_family():
    other = Comparison(kind="greater", arm="b", baseline="a", log=True, margin=0.1)
    one, two = judge_settings(family([-0.5] * 6, noise=0.8, n=20), [FEWER, other], Rules(better="lower"))
    assert one.p_adjusted == pytest.approx(2 * one.p_raw)
    assert one.p_raw == pytest.approx(two.p_raw)


def test_an_amendment_is_judged_at_its_share_of_alpha():
    settings = family([-0.35] * 6, noise=0.7, n=10, seed=None)
    full = judged(settings)
    assert full.verdict == "supported"
    assert 0.0125 < full.p_raw < 0.05
    assert judged(settings, alpha=0.0125).verdict == "inconclusive"
    assert judged(settings, alpha=0.0125).interval[1] > full.interval[1]


def contrast(before: float, after: float, *, n=30, first=100, seen=range(12), noise=0.1):
    groups = {
        name: family([own] * 2, n=n, first=first, noise=noise)
        for name, own in (("before", before), ("after", after))
    }
    return judge_contrast("placement", groups, FEWER, Rules(better="lower"), set(seen))


def test_a_word_depends_on_what_a_contrast_varies_where_both_groups_decide():
    found = contrast(-0.5, 0.1)
    assert found.confirmed
    assert found.word == "depends on placement"
    assert found.scope == "supported where before, refuted where after"
    assert found.p < 0.05
    assert [group["pairs"] for group in found.groups] == [60, 60]
    low, high = found.groups[0]["interval"]
    assert low < -0.5 < high < -0.1


def test_a_contrast_needs_both_sides_enough_pairs_and_fresh_seeds():
    assert not contrast(-0.5, -0.4).confirmed
    assert contrast(-0.5, -0.4).p == 1.0
    assert not contrast(-0.5, 0.1, n=29).confirmed
    assert not contrast(-0.5, -0.05, noise=1.0).confirmed
    with pytest.raises(ValueError, match="contrast=placement: seed 100 was seen"):
        contrast(-0.5, 0.1, seen=range(101))


def test_equal_groups_are_called_dependent_in_fewer_than_five_percent():
    calls = 0
    for seed in range(200):
        groups = {
            name: family([-0.1] * 2, n=30, seed=2 * seed + place) for place, name in enumerate(("x", "y"))
        }
        calls += judge_contrast("x", groups, FEWER, Rules(better="lower"), set()).confirmed
    assert calls <= 10
