"""One setting: fabricated tables give every word; Holm, failed, censored and missing runs do what their rules say."""

import math

import numpy as np
import pandas as pd
import pytest
from committed import CLAIMS, altered
from refusals import refused
from scipy import stats
from tables import spread, table_of

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.estimate import SeedMean, holm
from normexp.claims.judge.kinds import KINDS
from normexp.claims.judge.one_setting import judge_comparisons as judge
from normexp.claims.judge.one_setting import judge_values
from normexp.claims.judge.outcomes import Setting
from normexp.claims.units import question, stated
from normexp.claims.words import method, note_of_values

ZERO = [0.0] * 8
EFFECTS = [kind for kind in KINDS.values() if not kind.universal]


@pytest.mark.parametrize("kind", EFFECTS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("margin", [0.5, 0.0, -0.3])
def test_a_region_is_where_the_side_of_an_effect_makes_the_sentence_true(kind, margin):
    if margin <= 0 and (kind.within or not kind.sign):
        return  # refused: nothing could show it
    for effect in np.arange(-1.05, 1.1, 0.1):
        there = any(low < effect < high for low, high in kind.region(margin))
        assert there == (kind.side(effect, margin) == kind.true_side), effect
        assert there != any(low < effect < high for low, high in kind.complement(margin)), effect


GREATER = Comparison(kind="greater", arm="a", baseline="b")


def one(values: dict[str, list], comparison: Comparison = GREATER, factors: list | None = None, **options):
    """The judgement of one comparison."""
    return judge(table_of(values, factors), [comparison], **options)[0]


@pytest.mark.parametrize(
    ("kind", "mean", "deviation", "verdict"),
    [
        ("greater", 1.0, 0.1, "supported"), ("greater", -1.0, 0.1, "refuted"), ("greater", 0.6, 0.5, "undecided"),
        ("greater", 0.2, 0.1, "refuted"),  # there is a difference, but it is too small to matter
        ("smaller", -1.0, 0.1, "supported"), ("smaller", -0.6, 0.5, "undecided"), ("different", 0.2, 0.1, "refuted"),
        ("different", 0.6, 0.5, "undecided"), ("different", -1.0, 0.1, "supported"),
        ("equivalent", 0.2, 0.1, "supported"), ("equivalent", 1.0, 0.1, "refuted"),
        ("equivalent", 0.4, 0.5, "undecided"),
    ],
)  # fmt: skip
def test_fabricated_differences_give_every_verdict(kind, mean, deviation, verdict):
    asked = Comparison(kind=kind, arm="a", baseline="b", margin=0.5)
    assert one({"a": spread(mean, deviation), "b": ZERO}, asked).word == verdict


@pytest.mark.parametrize(
    ("kind", "slope", "target", "verdict"),
    [
        ("increasing", 1.0, None, "supported"), ("increasing", 0.1, None, "refuted"),
        ("decreasing", -1.0, None, "supported"), ("decreasing", 1.0, None, "refuted"),
        ("flat", 0.1, None, "supported"), ("flat", 1.0, None, "refuted"), ("flat", 1.0, 1.2, "supported"),
    ],
)  # fmt: skip
def test_trend_is_the_slope_over_the_factor_minus_a_number(kind, slope, target, verdict):
    factors = [1, 2, 4]
    values = [
        [slope * math.log2(f) + 0.02 * ((seed + i) % 3) for i, f in enumerate(factors)] for seed in range(8)
    ]
    asked = Comparison(kind=kind, arm="a", target=target, margin=0.5, log2_factor=True)
    found = one({"a": values}, asked, factors)
    assert found.word == verdict
    assert found.effect == pytest.approx(slope - (target or 0), abs=0.03)


def test_trend_of_a_baseline_is_subtracted_and_order_of_rows_does_not_matter():
    factors = [8, 2, 4]
    arms = {
        "a": [[3.0 * f + seed for f in factors] for seed in range(5)],
        "b": [[2.0 * f for f in factors]] * 5,
    }
    table = table_of(arms, factors).sample(frac=1, random_state=0)
    (found,) = judge(table, [Comparison(kind="increasing", arm="a", baseline="b")])
    assert found.effect == pytest.approx(1.0)


def test_pairing_by_seed_removes_what_seeds_share():
    shared = np.linspace(0, 100, 8)
    found = one({"a": shared + spread(1.0, 0.1), "b": shared}, altered(GREATER, margin=0.5))
    assert found.word == "supported"
    expected = stats.ttest_1samp(spread(1.0, 0.1), 0.0).confidence_interval(0.95)
    assert found.interval == pytest.approx((expected.low, expected.high))


def test_p_value_is_scipys_and_agrees_with_the_interval():
    effects = np.array(spread(1.0, 1.2, n=6))
    estimate = SeedMean.of(effects)
    assert estimate.p_within([(0, math.inf)]) == pytest.approx(stats.ttest_1samp(effects, 0.0).pvalue)
    low, _ = estimate.interval(0.9)
    assert estimate.p_within([(low, math.inf)]) == pytest.approx(0.1)
    assert estimate.p_within([(-math.inf, 0)]) == 1.0
    assert SeedMean.of(np.array([0.1, 0.1, 0.1])).error == 0  # whatever the rounding of their mean
    nothing = SeedMean.of(np.array([]))
    assert math.isnan(nothing.effect)
    assert nothing.interval(0.95) == (-math.inf, math.inf)


def test_what_decides_nothing_is_refused():
    with refused("a value of 0 or below has no logarithm"):
        one({"a": [1.0, 2.0, 0.0, 1.0, 1.0], "b": [1.0] * 5}, altered(GREATER, log=True))
    with refused("arms have other seeds; a missing run decides nothing"):
        judge(table_of({"a": spread(1.0, 0.1), "b": ZERO}).iloc[1:], [GREATER])


def test_one_counterexample_refutes_a_universal_sentence():
    values = {"a": [0.0] * 7 + [1.0]}
    found = one(values, Comparison(kind="every", at_most=0.5))
    assert (found.word, found.effect, found.interval) == ("refuted", 1.0, (0.0, 1.0))
    assert note_of_values(found) == "1 of 8 cases fail, the worst: a, seed 7"
    assert one(values, Comparison(kind="every", at_most=1.0)).word == "supported"
    assert one({"a": [*ZERO[:7], math.nan]}, Comparison(kind="every", at_most=1)).word == "refuted"


def test_universal_bounds_follow_the_factor_and_the_arm():
    table = table_of({"a": [[1, 2]] * 5, "b": [[3, 4]] * 5}, [10, 20])
    bounds = {"a": [1, 2], "b": [3, 4]}
    assert judge(table, [Comparison(kind="every", equals=bounds)])[0].word == "supported"
    assert judge(table, [Comparison(kind="every", arm="a", equals=[1, 3])])[0].word == "refuted"
    (one,) = judge(table, [Comparison(kind="every", arm="b", at=20, at_least=4, equals=4.5, tolerance=0.5)])
    assert (one.word, one.cases, one.ranges) == ("supported", 5, {"b": {"20": (4, 4)}})


@pytest.mark.parametrize("tenths", range(1, 40))
def test_a_value_at_the_end_of_its_tolerance_is_no_counterexample(tenths):
    """The twin counts tenths: the next value further out is one."""
    for away, word in ((1, "supported"), (-1, "supported"), (1 + 1e-12, "refuted")):
        bound = Comparison(kind="every", equals=tenths / 10, tolerance=0.1)
        assert one({"a": [(tenths + away) / 10] * 5}, bound).word == word


def test_holm_is_the_step_down_rule_and_belongs_to_one_claim():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    many = [*np.random.default_rng(0).random(30), 0.5, 0.5]
    # By the rule itself: reject from the smallest on until the first that is too large.
    for level in (*many, 0.001):
        order = sorted(range(len(many)), key=many.__getitem__)
        kept = (index for index, place in enumerate(order) if many[place] > level / (len(many) - index))
        rejected = {*order[: next(kept, len(many))]}
        assert {place for place, value in enumerate(holm(many)) if value <= level} == rejected
    # p = .025 for a against b
    table = table_of({"a": spread(1.0, 1.0), "b": ZERO, "c": spread(0.9, 1.0)[::-1]})
    assert judge(table, [GREATER])[0].word == "supported"
    assert judge(table, [GREATER, altered(GREATER, baseline="c")])[0].word == "undecided"


def test_a_claim_falls_with_one_of_its_comparisons():
    table = table_of({"a": spread(1.0, 0.1), "b": ZERO})
    down = Comparison(kind="smaller", arm="a", baseline="b", margin=0.5)
    decided = judge_values(altered(CLAIMS["S05"], comparisons=[GREATER, down]), table).deciding
    assert (decided.word, decided.comparison.kind) == ("refuted", "smaller")


def test_of_trained_values_the_mean_stays_a_mean_where_runs_diverged():
    a, b = [0.9, 0.91, 0.92, 0.93, 0.94, 0.9, 0.91, math.nan], [*[0.5, 0.51, 0.52] * 2, 0.5, 0.9]
    found = one({"a": a, "b": b}, trained=True)
    effects = np.subtract(a[:7], b[:7])
    expected = stats.ttest_1samp(effects, 0.0)
    assert (found.word, method(found), found.n_seeds) == ("supported", "paired t", 7)
    assert found.interval == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert note_of_values(found) == "1 of 8 seeds are left out, in which a run failed"


@pytest.mark.parametrize(
    ("a", "b", "trained", "word", "effect", "said"),
    [
        ([0.9] * 8, [math.nan] * 8, True, "undecided", math.nan, "every arm trained at 0 of 8 seeds"),
        ([0.1] * 5, [0.0] * 5, True, "undecided", 0.1, "all effects are equal, so the measure resolves too little"),
        ([0.1] * 5, [0.0] * 5, False, "supported", 0.1, ""),  # a proof
        ([1.0] * 7 + [math.inf], ZERO, False, "undecided", math.nan, "1 of 8 values are not finite"),
    ],
)  # fmt: skip
def test_failures_alone_and_equal_effects_of_trained_values_decide_nothing(a, b, trained, word, effect, said):
    found = one({"a": a, "b": b}, trained=trained)
    assert (found.word, note_of_values(found)) == (word, said)
    assert found.effect == pytest.approx(effect, nan_ok=True)
    assert found.interval == ((found.effect,) * 2 if word == "supported" else (-math.inf, math.inf))


RATIO = {"baseline": None, "target": 0.9, "log": True}


@pytest.mark.parametrize(
    ("comparison", "measure", "numbers", "effect", "asked"),
    [
        ({"kind": "greater", "margin": 0.5, "log": True}, "loss", (2.3, 1.1, 3.0),
         "a 9.97 times as high as none (3 to 20.1 times as high)", "more than 65% higher"),
        ({"kind": "smaller", "margin": 2}, "steps", (-8, -math.inf, math.inf),
         "a 8 steps fewer than none (no interval)", "more than 2 steps fewer"),
        ({"kind": "greater", "margin": 0.999}, "share of x", (1, 0.99992, 1.0001),
         "a 100 points higher than none (100 to 100 points higher)", "more than 100 points higher"),
        # A ratio to a number names the number.
        ({**RATIO, "kind": "smaller", "margin": 0.05}, "loss", (0, -0.1, 0.1), "a 0.9 (0.814 to 0.995)",
         "smaller than 0.9 by more than 4.9%"),
        ({**RATIO, "kind": "greater", "margin": 0.05}, "loss", (0, -0.1, 0.1), "a 0.9 (0.814 to 0.995)",
         "greater than 0.9 by more than 5.1%"),
        ({**RATIO, "kind": "equivalent", "margin": 0.05}, "loss", (0, -0.1, 0.1), "a 0.9 (0.814 to 0.995)",
         "no difference from 0.9 beyond 5.1%"),
    ],
)  # fmt: skip
def test_an_effect_and_its_question_in_words(comparison, measure, numbers, effect, asked):
    """Where no paragraph of tests/frozen has them."""
    compared = Comparison(**{"arm": "a", "baseline": "none", **comparison})
    assert stated(compared, measure, numbers[0], numbers[1:]) == effect
    assert question(compared, measure) == asked


def test_steps_of_a_run_that_never_reached_its_target_show_less_but_never_the_opposite():
    """A baseline that was not there by step 60 is slower than an arm at 10; how much slower than 55 is not known."""
    fewer, none = Comparison(kind="smaller", arm="a", baseline="b", margin=2), np.zeros(5, bool)
    b = [60.0, 50, 60, 60, 60]
    table = pd.DataFrame({
        "arm": ["a"] * 5 + ["b"] * 5, "factor": "", "seed": [*range(5)] * 2, "unreached": [*none, *(np.array(b) == 60)],
    })  # fmt: skip
    for a, word in (([10.0, 12, 9, 11, 10], "supported"), ([59.0, 49.5, 59.1, 59.2, 59], "undecided")):
        (judged,) = judge(table.assign(value=[*a, *b]), [fewer], trained=True)
        assert (judged.word, judged.unreached) == (word, {"b": 4})
        (judged,) = judge(table.assign(value=[*a, *b], unreached=False), [fewer], trained=True)
        assert judged.word == ("supported" if word == "supported" else "refuted")
        assert not judged.unreached


def test_a_comparison_at_one_level_reads_that_level_of_its_two_arms_alone():
    values = {"a": [[seed, 10.0 + seed] for seed in range(5)], "b": [[9.0, 1.0]] * 5, "c": [[7.0, 7.0]] * 5}
    outcomes = Setting.of_table(table_of(values, [2, 4])).outcomes
    at = Comparison(kind="greater", arm="a", baseline="b", at=4)
    assert (list(at.reads(outcomes)), at.levels(outcomes)) == ([("a", 4), ("b", 4)], [4])
    assert at.effects(outcomes) == pytest.approx([9, 10, 11, 12, 13])
