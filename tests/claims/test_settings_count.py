"""Settings are the sample: exact intervals against slow twins, every word from constructed settings, failures."""

import dataclasses
import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from committed import CLAIMS, altered
from scipy import optimize, special

from normexp.claims.judge.comparison import Comparison, practical_margin
from normexp.claims.judge.estimate import median_interval, p_of_share, share_interval
from normexp.claims.judge.moderators import SIDES
from normexp.claims.judge.outcomes import Outcomes, Setting
from normexp.claims.judge.over_settings import judge_settings
from normexp.claims.judge.settings_count import count, is_near_margin, number_in, word_of
from normexp.claims.judge.verdict import Registered, Trained
from normexp.claims.spec.bank import load_bank
from normexp.claims.words import note, paragraph, scope, with_scope

FEWER = Comparison(kind="smaller", arm="a", baseline="b", log=True, margin=0.1)
SAME = Comparison(kind="equivalent", arm="a", baseline="b", margin=0.5)
MORE = Comparison(kind="greater", arm="a", baseline="b", margin=0.5)
ROW = Registered(row=7, date="d", alpha=0.05)


def setting(a, b=(0.0, 0.0), name="s", failed=None, **options) -> Setting:
    """One number per run of each arm."""
    arms = {"a": np.atleast_1d(a).astype(float), "b": np.atleast_1d(b).astype(float)}
    lost = {arm: np.array((failed or {}).get(arm, np.zeros(len(own))), bool) for arm, own in arms.items()}
    found = {(arm, ""): Outcomes(np.arange(len(own)), own, lost[arm]) for arm, own in arms.items()}
    return Setting(name, found, **options)


def family(effects) -> list[Setting]:
    """A setting for each effect of a against b, two seeds each."""
    return [setting((x - 0.01, x + 0.01), name=f"s{place}") for place, x in enumerate(effects)]


def claim(*comparisons, **options):
    """A claim over drawn settings; `first=0` over hand-picked ones."""
    return altered(
        CLAIMS["P10"], **{"comparisons": [*comparisons], "manipulation": None, "first": 6} | options
    )


def judge(settings, claim, **options):
    return judge_settings(claim, settings, **options)


@pytest.mark.parametrize(("k", "n"), [(0, 6), (1, 6), (12, 24), (17, 24), (18, 24), (48, 48)])
def test_the_interval_of_a_share_is_where_the_binomial_tails_are(k, n):
    """Found by bisection on the tail of the binomial distribution, summed term by term."""

    def end(counts) -> float:
        tail = lambda p: sum(special.comb(n, i) * p**i * (1 - p) ** (n - i) for i in counts) - 0.025  # noqa: E731
        return optimize.brentq(tail, 1e-12, 1 - 1e-12)

    low = end(range(k, n + 1)) if k else 0.0
    high = end(range(k + 1)) if k < n else 1.0
    assert share_interval(k, n, 0.95) == pytest.approx((low, high))


@pytest.mark.parametrize("n", [5, 6, 9, 12])
def test_the_interval_of_a_median_inverts_the_sign_test_over_all_signs(n):
    """A value m stays in the interval while so uneven a split of signs round it is no rarer than 5% of all 2^n."""
    values = np.sort(np.random.default_rng(n).normal(size=n))
    signs = np.array(list(itertools.product((0, 1), repeat=n))).sum(1)

    def kept(m: float) -> bool:
        above = int((values > m).sum())
        tail = min((signs <= above).mean(), (signs >= above).mean())
        return bool(tail > 0.025)

    low, high = median_interval(values, 0.95)
    between = [-math.inf, *values, math.inf]
    middles = [values[0] - 1, *((values[1:] + values[:-1]) / 2), values[-1] + 1]
    inside = [place for place, m in enumerate(middles) if kept(m)]
    assert (low, high) == (between[inside[0]], between[inside[-1] + 1])


def test_p_is_the_share_of_all_outcomes_that_are_as_uneven():
    signs = np.array(list(itertools.product((0, 1), repeat=10))).sum(1)
    for k in range(11):
        assert p_of_share(k, 10) == pytest.approx((np.abs(signs - 5) >= abs(k - 5)).mean())


@pytest.mark.parametrize(
    ("holds", "n", "word"),
    [
        (18, 24, "supported"), (17, 24, "undecided"), (6, 24, "refuted"), (7, 24, "undecided"), (12, 24, "divided"),
        (24, 48, "divided"), (32, 48, "supported"), (16, 48, "refuted"), (6, 6, "supported"), (5, 6, "undecided"),
        (8, 16, "undecided"),
    ],
)  # fmt: skip
def test_words_from_counts_of_drawn_settings(holds, n, word):
    settings = family([1.0] * holds + [0.2] * (n - holds))
    found = judge(settings, claim(MORE), registered=ROW)
    assert (found.word, found.counts[0].holds, found.counts[0].n) == (word, holds, n)
    assert word == word_of(share_interval(holds, n, 0.95))
    assert scope(found) == f"beyond the margin in {holds} of {n} drawn settings"
    assert found.p == p_of_share(holds, n)


@pytest.mark.parametrize(
    ("n", "first", "word", "said", "limits"),
    [
        (60, 0, "counted", "beyond the margin in 60 of 60 hand-picked settings", ""),  # however long the list is
        (5, 6, "begun", "begun: 5 of 6 drawn settings are finished", ""),
        (23, 24, "begun", "begun: 23 of 24 drawn settings are finished", ""),
        (3, 4, "begun", "begun: 3 of 4 drawn settings are finished", ""),
        (4, 4, "counted", "beyond the margin in 4 of 4 drawn settings",
         "no word is possible with fewer than 6 settings; few settings: 16 of the 48"),
    ],
)  # fmt: skip
def test_hand_picked_or_too_few_settings_make_no_word(n, first, word, said, limits):
    found = judge(family([1.0] * n), claim(MORE, first=first), registered=ROW)
    assert (found.word, found.p, with_scope(found)) == (word, None, said)
    assert note(found).startswith(limits)
    assert bool(note(found)) == bool(limits)
    assert ("beyond" in paragraph(found)) == (word != "begun")


def test_each_comparison_of_a_sentence_has_a_word_and_the_sentence_has_none():
    other = Comparison(kind="smaller", arm="a", target=0.9)
    found = judge(family([1.0] * 12 + [0.2] * 3), claim(MORE, other), registered=ROW)
    assert (found.word, found.p) == ("counted", None)
    assert scope(found) == (
        "a against b: supported, beyond the margin in 12 of 15 drawn settings; "
        "a against 0.9: refuted, beyond the margin in 3 of 15 drawn settings"
    )


def test_a_setting_without_a_number_cannot_be_asked_and_leaves_the_count():
    lost = setting((9.0, 9.0), (0.0, 0.0), "lost", {"a": [1, 1], "b": [1, 1]})
    found = judge([*family([1.0] * 9 + [0.2]), *[lost] * 3], claim(MORE), registered=ROW)
    assert (found.word, found.counts[0].asked, found.counts[0].n) == ("supported", 10, 13)
    assert found.counts[0].share_interval == share_interval(9, 10, 0.95)
    few = judge([*family([1.0] * 5), lost], claim(MORE), registered=ROW)
    assert (few.word, few.p) == ("counted", None)
    assert note(few).startswith("no word is possible with fewer than 6 settings")


def test_a_withdrawn_sentence_keeps_its_counts_and_loses_its_word():
    found = judge(family([1.0] * 9), claim(MORE, withdrawn="why"), registered=ROW)
    assert (found.word, found.p, found.counts[0].holds) == ("withdrawn", None, 9)
    assert note(found).startswith("withdrawn: why")


def labelled(effects, labels) -> list[Setting]:
    return [dataclasses.replace(own, labels=x) for own, x in zip(family(effects), labels, strict=True)]


def test_a_moderator_knows_the_words_of_drawn_settings_and_leaves_others_out():
    cells = load_bank("drawn").cells.values()
    for label, sides in SIDES.items():
        assert {cell.labels[label].lower() for cell in cells if label in cell.labels} <= sides.keys()
    models = ["CNN"] * 6 + ["conv net"] * 3 + ["tanh MLP"] * 6
    (found,) = count(labelled([1.0] * 9 + [0.1] * 6, [{"model": x} for x in models]), MORE, 0.95).moderators
    assert found.groups == {"with": (6, 6), "without": (0, 6)}  # a conv net is not said to have none


def test_moderators_are_tested_by_all_ways_to_deal_out_the_settings():
    labels = [{"model": "CNN", "depth": "2"}] * 6 + [{"model": "MLP", "depth": "8"}] * 6
    settings = labelled([1.0] * 7 + [0.1] * 5, labels)
    by_name = {own.name: own for own in count(settings, MORE, 0.95).moderators}
    assert by_name.keys() == {"convolutions", "depth"}
    assert by_name["convolutions"].groups == {"with": (6, 6), "without": (1, 6)}
    ways = [sum(place < 6 for place in chosen) for chosen in itertools.combinations(range(12), 7)]
    chance = {k: ways.count(k) / len(ways) for k in set(ways)}
    p = sum(share for share in chance.values() if share <= chance[6] * (1 + 1e-9))
    assert by_name["convolutions"].p == pytest.approx(2 * p)  # Holm over two
    assert count(settings[3:9], MORE, 0.95).moderators == ()  # six could show nothing, however they fell


@pytest.mark.parametrize("scale", [0.1, 0.3, 1, 7, 30, 60, 80])
@pytest.mark.parametrize("kind", ["greater", "smaller", "different", "equivalent"])
def test_an_effect_of_exactly_the_margin_lies_within_it(kind, scale):
    """Of shares and steps many do. The twin counts in whole numbers: 22 - 20 is 2, and 1 + 2 - 3 is 0."""
    comparison = Comparison(kind=kind, arm="a", baseline="b", margin=2 * scale / 100)
    low, high, odd, even = np.array([[20, 41, 0], [22, 43, 2], [21, 43, 19], [20, 41, 22]]) * (scale / 100)
    row = number_in(setting(*((low, high) if kind == "smaller" else (high, low))), comparison)
    assert (row.side, abs(row.number)) == ("within", comparison.margin)
    assert number_in(setting(odd, even), comparison).number == 0


def test_two_copies_of_an_arm_score_as_many_as_a_simulation_says():
    """Four seeds an arm, of normal values: two means over four other seeds are drawn a thousand times."""
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(2, 400, 4))
    settings = [setting(x, y, name=str(place)) for place, (x, y) in enumerate(zip(a, b, strict=True))]
    comparison = Comparison(kind="equivalent", arm="a", baseline="b", margin=0.5)
    drawn = generator.normal(size=(2, 100_000, 4)).mean(-1)
    expected = (np.abs(drawn[0] - drawn[1]) <= 0.5).mean()
    assert count(settings, comparison, 0.95).ceiling / 400 == pytest.approx(expected, abs=0.02)
    assert count(settings, MORE, 0.95).ceiling is None


@pytest.mark.parametrize(
    ("comparison", "effect", "side", "holds"),
    [
        (MORE, 0.6, "beyond", True), (MORE, 0.5, "within", False), (MORE, -0.6, "opposite", False),
        (FEWER, -0.2, "beyond", True), (FEWER, 0.2, "opposite", False), (FEWER, 0.0, "within", False),
        (SAME, 0.4, "within", True), (SAME, 0.6, "beyond", False), (SAME, -0.6, "opposite", False),
        (Comparison(kind="different", arm="a", baseline="b", margin=0.5), -0.6, "beyond", True),
        (Comparison(kind="smaller", arm="a", baseline="b", margin=-0.1), 0.05, "beyond", True),  # not much larger
        (Comparison(kind="smaller", arm="a", baseline="b", margin=-0.1), 0.2, "opposite", False),
    ],
)  # fmt: skip
def test_sides_of_the_margin(comparison, effect, side, holds):
    pair = (np.exp([effect] * 2), (1.0, 1.0)) if comparison.log else ((effect, effect), (0.0, 0.0))
    found = number_in(setting(*pair), comparison)
    assert (found.side, found.holds, found.number) == (side, holds, pytest.approx(effect, abs=1e-8))


def test_the_number_is_the_mean_of_the_seeds_log_ratios_with_half_an_answer_each():
    own = setting((0.02, 0.0), (0.05, 0.03), quantity="error", answer=0.01)
    found = number_in(own, FEWER)
    logs = np.log([0.025 / 0.055, 0.005 / 0.035])
    assert found.number == pytest.approx(logs.mean())
    assert found.error == pytest.approx(logs.std(ddof=1) / math.sqrt(2))
    assert math.isnan(number_in(setting(0.02, 0.05), FEWER).error)


def test_a_failed_run_counts_as_a_guess_and_the_second_line_says_what_holds_without():
    own = setting((0.1, 0.1), (0.1, 5.0), failed={"b": [False, True]}, quantity="error", guess=0.9)
    found = number_in(own, FEWER)
    assert found.number == pytest.approx(math.log(0.1 / 0.9) / 2)
    assert (found.side, found.trained, found.failures) == ("beyond", 0.0, {"a": 0, "b": 1})
    both = count([own, own], FEWER, 0.95)
    assert (both.holds, both.trained) == (2, Trained(n=2, holds=0, median=0.0))
    assert (both.failures, both.runs) == ({"a": 0, "b": 2}, {"a": 4, "b": 4})


@pytest.mark.parametrize("comparison", [FEWER, MORE, SAME])
def test_where_every_run_failed_no_claim_holds_not_even_an_equivalence(comparison):
    lost = setting((0.1, 0.1), (0.1, 0.1), failed={"a": [1, 1], "b": [1, 1]}, guess=0.9)
    found = count([lost, *family([0.0])], altered(comparison, log=False), 0.95)
    assert (found.failed, found.n, found.settings[0].holds) == (1, 2, False)


@pytest.mark.parametrize(("lost", "number"), [([False, False], 1.0), ([True, False], None)])
def test_where_the_value_of_guessing_is_not_known_pairs_decide_or_nothing_does(lost, number):
    row = number_in(setting((1.0, 9.0), (0.0, 0.0), failed={"a": [False, True], "b": lost}), MORE)
    assert (row.number, row.side) == (number, "beyond" if number else "failed")


def test_failures_of_one_arm_are_a_number_where_all_failed():
    lost = {"a": [True, True], "b": [True, True]}
    all_lost = setting((1.0, 1.0), (1.0, 1.0), failed=lost, quantity="failed", guess=1.0)
    found = count([all_lost], Comparison(kind="greater", arm="a", target=0.4), 0.95)
    assert (found.holds, found.settings[0].number) == (1, pytest.approx(0.6))
    assert found.trained == Trained(n=0, holds=0, median=None)  # no run that trained says more of failures
    assert count([all_lost], MORE, 0.95).failed == 1


def test_one_seed_and_a_number_have_no_copy_and_rounding_is_no_error():
    assert count([setting(1.0, 0.0)], SAME, 0.95).ceiling is None
    assert count(family([1.0, -1.0]), altered(SAME, baseline=None, target=0.0), 0.95).ceiling is None
    assert number_in(setting((0.1 + 0.2, 0.3)), MORE).error == 0


@pytest.mark.parametrize(
    ("baseline", "measure", "margin"),
    [
        (0.01, "error", 0.003), (0.03, "error", 0.003), (0.0301, "error", 0.00301), (0.05, "error", 0.005),
        (0.10, "error", 0.010), (0.11, "error", 0.010), (0.65, "error", 0.010), (2.0, "loss", 0.02),
    ],
)  # fmt: skip
def test_margins_of_practice_follow_the_baselines_errors(baseline, measure, margin):
    assert practical_margin(baseline, measure) == pytest.approx(margin)
    practical = Comparison(kind="smaller", arm="a", baseline="b", margin="practical")
    for step, side in ((-1.1, "beyond"), (-0.9, "within"), (1.1, "opposite")):
        own = setting([baseline + step * margin] * 2, [baseline] * 2, quantity=measure)
        found = number_in(own, practical)
        assert (found.side, found.margin) == (side, pytest.approx(margin))


@pytest.mark.parametrize(
    ("seeds", "comparison", "near"),
    [((0.8, 0.9), MORE, False), ((0.45, 0.65), MORE, True), ((0.35, 0.55), MORE, True), ((0.5,), MORE, False),
     ((0.4, 0.6, 0.4, 0.6), MORE, False), ((-0.6, -0.45), SAME, True),
     ((-0.6, -0.45), MORE, False)],  # only the margin that decides counts
)  # fmt: skip
def test_settings_within_a_standard_error_of_the_margin_need_two_more_seeds(seeds, comparison, near):
    assert is_near_margin(setting(seeds, [0.0] * len(seeds)), [comparison]) == near


@pytest.mark.parametrize(
    ("first", "effects", "word", "held"),
    [(6, [1.0] * 12, "supported", True), (6, [0.1] * 12, "undecided", False), (0, [1.0] * 6, "counted", True),
     (0, [1.0] * 5 + [0.1], "counted", False)],
)  # fmt: skip
def test_a_manipulation_that_fails_forbids_the_word_and_is_said(first, effects, word, held):
    """It holds in most drawn settings, or in all hand-picked ones."""
    causal = claim(MORE, first=first, manipulation=SimpleNamespace(comparison=MORE, measure="noise"))
    found = judge(family([1.0] * 12), causal, registered=ROW, manipulation=family(effects))
    assert (found.word, found.manipulation.held) == (word, held)
    assert (found.p is None) == (word != "supported")
    text = f"the manipulation check holds in {effects.count(1.0)} of {len(effects)}, so nothing is said of the cause"
    assert (f"{text} (noise)" in note(found)) != held


@pytest.mark.parametrize("comparison", [FEWER, SAME, MORE], ids=lambda comparison: comparison.kind)
def test_a_side_stands_whatever_the_steps_of_runs_that_never_reached_their_target(comparison):
    """Their value is a lower bound: with any later steps a decided side is the same, and some are not decided."""
    draw, decided = np.random.default_rng(5), 0
    for _ in range(300):
        a, b = draw.lognormal(0, 1, (2, 3))
        never = {"a": draw.random(3) < 0.2, "b": draw.random(3) < 0.2}
        known = setting(a, b).outcomes
        row = number_in(
            Setting("s", {(arm, ""): dataclasses.replace(known[arm, ""], unreached=never[arm]) for arm in never}),
            comparison,
        )  # fmt: skip
        some = bool(never["a"].any() or never["b"].any())
        if row.side == "failed":
            assert row.number is None
            assert some
            continue
        decided += some
        for far in (1.5, 1e6):
            later = setting(np.where(never["a"], far * a, a), np.where(never["b"], far * b, b))
            assert number_in(later, comparison).side == row.side
    assert decided > 10
