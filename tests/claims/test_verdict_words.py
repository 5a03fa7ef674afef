"""What a verdict says in English: what was expected, the question, arms, strata, limits, counterexamples."""

import dataclasses
import json
import math
import re

import pytest
from committed import CLAIMS, altered
from tables import spread, table_of
from test_settings_count import MORE, claim, family, judge, setting

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.limits import Few, Limits, few_of, limits_of
from normexp.claims.judge.moderators import moderators
from normexp.claims.judge.one_setting import judge_comparisons, judge_values
from normexp.claims.judge.settings_count import count
from normexp.claims.judge.verdict import RunsBeforeRegistration
from normexp.claims.numbers import by_arm, numbers_of
from normexp.claims.record import table_of_settings, to_json
from normexp.claims.words import does_not_show, few_settings, lateness, note, note_of_values, paragraph, scope

ZERO = [0.0] * 8
LAW = altered(CLAIMS["S05"], expected=None)
TRAINED = altered(CLAIMS["P14"], comparisons=[MORE], measure="share of answers", cells={}, factor={})


@pytest.mark.parametrize(
    ("of", "mean", "expected", "word", "as_expected"),
    [
        (LAW, 1.0, "supported", "supported", True), (LAW, 1.0, "refuted", "supported", False),
        (LAW, 1.0, None, "supported", None), (TRAINED, 1.0, "supported", "holds here", True),
        (TRAINED, 1.0, "refuted", "holds here", False), (TRAINED, 0.1, "supported", "not shown here", None),
    ],
)  # fmt: skip
def test_a_word_is_what_mathematics_says_or_unexpected_or_nothing(of, mean, expected, word, as_expected):
    claim = altered(of, comparisons=[MORE], expected=expected)
    table = table_of({"a": spread(mean, 0.1), "b": ZERO})
    verdict = judge_values(claim, table)
    assert (verdict.word, verdict.as_expected) == (word, as_expected)
    assert ("UNEXPECTED: mathematics says" in paragraph(verdict)) == (as_expected is False)
    verdict = judge_values(altered(claim, withdrawn="why"), table)
    assert (verdict.word, verdict.as_expected, note(verdict)) == ("withdrawn", None, "withdrawn: why")
    assert json.loads(json.dumps(to_json(verdict), allow_nan=False))["verdict"] == "withdrawn"


def test_every_comparison_of_trained_networks_is_told():
    low = Comparison(kind="smaller", arm="b", target=0.3)
    verdict = judge_values(
        altered(TRAINED, comparisons=[MORE, low]), table_of({"a": spread(1.0, 0.0), "b": spread(0.0, 0.1)})
    )
    assert re.fullmatch(
        r"a 100 points higher than b \(.*\); b against 0.3: -0.3 \(.*\)\. "
        r"The claim: a against b: more than 50 points higher, b against 0.3: smaller by more than 0",
        numbers_of(verdict),
    )


@pytest.mark.parametrize(
    ("kind", "margin", "measure", "log", "said"),
    [
        ("greater", -0.5, "accuracy", False, "50 points worse"), ("smaller", -0.01, "accuracy", False, "1 point worse"),
        ("smaller", -2, "steps", False, "2 steps worse"), ("smaller", -0.02, "loss", False, "0.02 worse"),
        ("greater", -math.log(1.25), "", True, "20% worse"), ("smaller", -math.log(4), "", True, "4 times as high"),
    ],
)  # fmt: skip
def test_what_a_margin_allows_is_in_the_unit_of_the_question(kind, margin, measure, log, said):
    allowed = Comparison(kind=kind, arm="a", baseline="b", margin=margin, log=log)
    verdict = judge_values(
        altered(TRAINED, comparisons=[allowed], measure=measure),
        table_of({"a": spread(1.0, 0.01), "b": [1.0] * 8}),
    )
    shown = " ".join(paragraph(verdict).split())
    assert f"being up to {said} was allowed" in shown
    assert f"at most {said.removesuffix(' worse')}" in shown


@pytest.mark.parametrize("arm", ["a", None])
def test_a_mean_beside_a_universal_sentence_is_told(arm):
    every = Comparison(kind="every", arm=arm, at_least=-1)
    more = Comparison(kind="greater", arm="a", baseline="b", margin=0.05)
    table = table_of({"a": spread(0.1, 0.01), "b": ZERO})
    verdict = judge_values(altered(TRAINED, comparisons=[every, more]), table)
    assert verdict.word == "holds here"
    said = " ".join(paragraph(verdict).split())
    assert "a 10 points higher than b (9.2 to 11 points higher)" in said
    assert "In brackets the 95% interval over the differences of 8 seeds (paired t)." in said
    assert "more than 5 points higher" in said
    assert "at least -1" in said
    assert "0.0857 to 0.114" in said


def test_the_question_stands_behind_the_numbers_where_it_is_asked():
    found = judge(family([1.0] * 6), claim(MORE))
    assert numbers_of(found).endswith(". The claim: more than 50 points higher")
    assert "laim:" not in numbers_of(found, asked=False)


def test_settings_that_learn_and_others_are_both_told():
    settings = family([1.0] * 9 + [0.1] * 3)
    settings = [dataclasses.replace(own, learned=place < 8) for place, own in enumerate(settings)]
    text = numbers_of(judge(settings, claim(MORE)))
    assert "where networks learn 8 of 8 (0.63 to 1.00); where they do not 1 of 4 (0.01 to 0.81)" in text
    none = [dataclasses.replace(own, learned=False) for own in settings]
    assert "where networks do not learn 9 of 12" in numbers_of(judge(none, claim(MORE)))
    assert "where networks" not in numbers_of(judge(family([1.0] * 6), claim(MORE)))


def test_each_arm_of_a_universal_sentence_has_its_own_values_and_bound():
    bounds = [Comparison(kind="every", arm="a", at_most=2), Comparison(kind="every", arm="b", at_least=0.5)]
    table = table_of({"a": [[0, 1]] * 5, "b": [[1, math.inf]] * 4 + [[3, math.inf]]}, [1, 2])
    verdict = judge_values(altered(LAW, comparisons=bounds), table)
    assert by_arm(verdict) == [
        "a: 0 at 1, 1 at 2; claimed: at most 2",
        "b: 1 to 3 at 1, inf at 2; claimed: at least 0.5",
    ]
    assert "\n    b: 1 to 3 at 1, inf at 2; claimed: at least 0.5" in paragraph(verdict)
    assert numbers_of(verdict, asked=False) == "a: 0 at 1, 1 at 2; b: 1 to 3 at 1, inf at 2"
    one = judge_values(
        altered(LAW, comparisons=bounds[:1], measure="relative x"), table_of({"a": [1e-14] * 5})
    )
    assert (by_arm(one), numbers_of(one, asked=False)) == ([], "all values 0")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([[1, 9], [1, 1], [1, 1], [1, 1], [1, 1]], "1 of 10 cases fail, all at level 20, the worst: a, seed 0"),
        ([[9, 1], [1, 8], [1, 1], [1, 1], [1, 1]], "2 of 10 cases fail, the worst: a, 10, seed 0"),
        ([[1, 1]] * 5, ""),
    ],
)  # fmt: skip
def test_a_counterexample_says_where_it_is(values, said):
    (found,) = judge_comparisons(table_of({"a": values}, [10, 20]), [Comparison(kind="every", at_most=2)])
    assert note_of_values(found) == said


def test_limits_name_five_and_count_the_rest():
    names = tuple("ABCDEFG")
    limits = Limits(
        evidence="training", drawn=True, chosen=False, models=names, data=("X",), sizes={"depth": 3, "updates": 1200},
        equal=True, own="That it helps.",
    )  # fmt: skip
    assert does_not_show(limits) == (
        "This does not show what holds outside its population: A, B, C, D, E and 2 more on X, at most depth 3, 1,200 "
        "updates. It does not exclude differences below its margin. Nor does it show: that it helps."
    )
    resnets = dataclasses.replace(limits, own="ResNets that have learned.")
    assert does_not_show(resnets).endswith("Nor does it show: ResNets that have learned.")
    once = dataclasses.replace(limits, sizes={"epochs": 1.0}, equal=False, own="")
    assert does_not_show(once).endswith(" on X, at most 1 epoch.")
    five = dataclasses.replace(limits, models=names[:5], chosen=True, drawn=False, equal=False, own="")
    assert does_not_show(five).endswith(
        "chose these settings (A, B, C, D, E on X, at most depth 3, 1,200 updates)."
    )


def test_limits_are_those_of_the_settings_and_of_what_a_claim_sets_itself():
    arms = {"a": ["norm=none"], "b": ["norm=layernorm", "model.width=48"]}
    fixed = ["model=mlp", "data=mnist", "model.depth=3", "max_steps=1200", "max_epochs=2"]
    same = Comparison(kind="equivalent", arm="a", baseline="b", margin=0.01)
    found = limits_of(
        altered(CLAIMS["P14"], arms=arms, fixed=fixed, cells={}, comparisons=[same], does_not_show="It.")
    )
    assert (found.models, found.data, found.equal, found.own) == (("MLP",), ("MNIST",), True, "It.")
    assert found.sizes == {"depth": 3, "width": 48, "updates": 1200}
    assert "at most depth 8, width" in does_not_show(limits_of(CLAIMS["S91"]))
    assert all(0 < len(does_not_show(limits_of(claim))) < 420 for claim in CLAIMS.values())
    assert few_of(CLAIMS["P08"]) is None
    assert (few := few_of(CLAIMS["P12"])) is not None
    assert (few.bank, few.fitting, few.cells, few.where) == ("drawn", 4, 48, {"model": ("ResNet",)})


@pytest.mark.parametrize(
    ("fitting", "where", "said"),
    [
        (16, {"model": ("MLP", "CNN")}, "16 of the 48 of bank=drawn have model MLP or CNN, of which"),
        (10, {"model": ("MLP",)}, "10 of the 48 of bank=drawn have model MLP"),
        (10, {}, "bank=drawn has 10"),
    ],
)  # fmt: skip
def test_few_settings_say_of_how_many(fitting, where, said):
    few = Few(bank="drawn", cells=48, fitting=fitting, where=where, first=10)
    assert few_settings(few).startswith(f"few settings: {said}")
    assert few_settings(few).endswith("first 10") == (fitting > 10)


def test_settings_are_clear_by_their_own_seeds_or_open():
    def seeds(mean, deviation):
        return setting(spread(mean, deviation, 5), [0.0] * 5, name=f"{mean} {deviation}")

    found = count([seeds(1.0, 0.1), seeds(0.6, 0.5), seeds(0.2, 0.1), seeds(-2.0, 0.1)], MORE, 0.95)
    assert (found.holds, found.clear) == (2, (1, 2, 1))
    verdict = judge([seeds(1.0, 0.1), seeds(0.6, 0.5)], claim(MORE, first=0))
    assert "by the seeds of each setting clear in 1, clearly not in 0, open in 1" in numbers_of(verdict)
    assert count(family([1.0] * 3), MORE, 0.95).clear is None  # two seeds give no interval
    table = table_of_settings(verdict)
    assert table["setting"].tolist() == ["1.0 0.1", "0.6 0.5"]
    assert (table["low"] < table["effect"]).all()
    assert table["holds"].tolist() == [True, True]


def test_repeated_draws_and_runs_before_the_registration_are_told_and_keep_their_keys():
    found = judge(family([1.0] * 6), claim(MORE, first=8), repeated=2)
    assert found.word == "supported"
    assert note(found).startswith("2 of 8 draws were the same network as an earlier one; ")
    assert scope(found) == "beyond the margin in 6 of 6 drawn settings, unregistered"
    assert to_json(found)["late"] is None
    before = RunsBeforeRegistration(early=3, of=1200)
    found = dataclasses.replace(judge(family([1.0] * 6), claim(MORE)), late=before)
    assert lateness(found) == "registered after 3 of 1,200 runs"
    assert to_json(found)["late"] == {"early": 3, "of": 1200}


def test_arms_that_were_not_trained_to_an_end_are_told():
    late = [dataclasses.replace(own, unfitted=("a", "b")) for own in family([1.0] * 2)]
    late += [dataclasses.replace(own, unfitted=("b",)) for own in family([1.0] * 4)]
    said = "not trained to the end, so more updates may lower the error: a in 2, b in 6 settings"
    assert said in numbers_of(judge(late, claim(MORE)))


def test_the_effect_over_drawn_settings_is_the_median_with_its_interval():
    found = judge(family([0.9, 1.0, 1.1, 1.2, 1.3, 1.4]), claim(MORE))
    assert found.effect == pytest.approx(1.15)
    assert found.interval == found.counts[0].median_interval == pytest.approx((0.9, 1.4))
    chosen = judge(family([1.0] * 6), claim(MORE, first=0))
    assert (chosen.effect, chosen.interval, chosen.n_seeds) == (None, None, 2)


def test_settings_at_the_median_are_on_its_lower_side():
    labels = [{"depth": depth} for depth in ("2", "2", "2", "4", "4", "8", "8", "8")]
    (found,) = moderators([True] * 5 + [False] * 3, labels)
    assert (found.name, dict(found.groups)) == ("depth", {"up to 4": (5, 5), "above 4": (0, 3)})
    assert found.p == pytest.approx(1 / math.comb(8, 3))


@pytest.mark.parametrize(("few", "tested"), [(2, []), (3, ["convolutions"])])
def test_a_moderator_needs_three_settings_on_each_side(few, tested):
    labels = [{"model": "CNN"}] * few + [{"model": "MLP"}] * 40
    found = moderators([True] * few + [False] * 40, labels)
    assert [moderator.name for moderator in found] == tested
