"""What a verdict says in English where no committed claim says it; tests/frozen holds the paragraphs of those."""

import dataclasses
import json
import math
import re

import pytest
from committed import CLAIMS, altered
from tables import spread, table_of
from test_settings_count import MORE, claim, family, judge, setting

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.limits import Limits, limits_of
from normexp.claims.judge.moderators import moderators
from normexp.claims.judge.one_setting import judge_values
from normexp.claims.judge.settings_count import count
from normexp.claims.judge.verdict import RunsBeforeRegistration
from normexp.claims.numbers import by_arm, numbers_of
from normexp.claims.record import table_of_settings, to_json
from normexp.claims.words import does_not_show, note, paragraph, scope

ZERO = [0.0] * 8
LAW = altered(CLAIMS["S05"], expected=None)
TRAINED = altered(CLAIMS["P14"], comparisons=[MORE], measure="share of answers", cells={}, factor={})


def of_difference(claim, mean, deviation=0.1):
    """The verdict where a is this much above b."""
    return judge_values(claim, table_of({"a": spread(mean, deviation), "b": ZERO}))


def shown(verdict) -> str:
    return " ".join(paragraph(verdict).split())


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
    verdict = of_difference(claim, mean)
    assert (verdict.word, verdict.as_expected) == (word, as_expected)
    assert ("UNEXPECTED: mathematics says" in paragraph(verdict)) == (as_expected is False)
    verdict = of_difference(altered(claim, withdrawn="why"), mean)
    assert (verdict.word, verdict.as_expected, note(verdict)) == ("withdrawn", None, "withdrawn: why")
    assert json.loads(json.dumps(to_json(verdict), allow_nan=False))["verdict"] == "withdrawn"


def test_every_comparison_of_trained_networks_is_told():
    low = Comparison(kind="smaller", arm="b", target=0.3)
    table = table_of({"a": spread(1.0, 0.0), "b": spread(0.0, 0.1)})
    assert re.fullmatch(
        r"a 100 points higher than b \(.*\); b against 0.3: -0.3 \(.*\)\. "
        r"The claim: a against b: more than 50 points higher, b against 0.3: smaller by more than 0",
        numbers_of(judge_values(altered(TRAINED, comparisons=[MORE, low]), table)),
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
    table = table_of({"a": spread(1.0, 0.01), "b": [1.0] * 8})
    text = shown(judge_values(altered(TRAINED, comparisons=[allowed], measure=measure), table))
    assert f"being up to {said} was allowed" in text
    assert f"at most {said.removesuffix(' worse')}" in text


@pytest.mark.parametrize("arm", ["a", None])
def test_a_mean_beside_a_universal_sentence_is_told(arm):
    every = Comparison(kind="every", arm=arm, at_least=-1)
    more = Comparison(kind="greater", arm="a", baseline="b", margin=0.05)
    verdict = of_difference(altered(TRAINED, comparisons=[every, more]), 0.1, 0.01)
    assert verdict.word == "holds here"
    for said in (
        "a 10 points higher than b (9.2 to 11 points higher)", "more than 5 points higher", "at least -1",
        "In brackets the 95% interval over the differences of 8 seeds (paired t).", "0.0857 to 0.114",
    ):  # fmt: skip
        assert said in shown(verdict)


def test_where_no_network_learns_one_stratum_is_told_and_where_nobody_knows_none():
    settings = family([1.0] * 9 + [0.1] * 3)
    none = [dataclasses.replace(own, learned=False) for own in settings]
    assert "where networks do not learn 9 of 12" in numbers_of(judge(none, claim(MORE)))
    assert "where networks" not in numbers_of(judge(settings, claim(MORE)))


def test_relative_changes_of_rounding_are_told_as_0():
    bound = Comparison(kind="every", arm="a", at_most=2)
    one = judge_values(altered(LAW, comparisons=[bound], measure="relative x"), table_of({"a": [1e-14] * 5}))
    assert (by_arm(one), numbers_of(one, asked=False)) == ([], "all values 0")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"own": "ResNets that have learned."}, " Nor does it show: ResNets that have learned."),
        ({"sizes": {"epochs": 1.0}}, " population: A, B, C, D, E on X, at most 1 epoch."),
    ],
)
def test_limits_keep_capitals_of_names_and_the_singular(changes, said):
    names, sizes = {"models": tuple("ABCDE"), "data": ("X",)}, {"depth": 3}
    limits = {
        "evidence": "training",
        "drawn": True,
        "chosen": False,
        "equal": False,
        "own": "",
        "sizes": sizes,
    }
    assert does_not_show(Limits(**limits | names | changes)).endswith(said)


def test_limits_are_short_for_every_claim():
    assert all(0 < len(does_not_show(limits_of(claim))) < 420 for claim in CLAIMS.values())


def test_settings_are_clear_by_their_own_seeds_or_open():
    pairs = ((1.0, 0.1), (0.6, 0.5), (0.2, 0.1), (-2.0, 0.1))
    settings = [setting(spread(*pair, 5), [0.0] * 5, name=str(pair[0])) for pair in pairs]
    found = count(settings, MORE, 0.95)
    assert (found.holds, found.clear) == (2, (1, 2, 1))
    assert count(family([1.0] * 3), MORE, 0.95).clear is None  # two seeds give no interval
    table = table_of_settings(judge(settings[:2], claim(MORE, first=0)))
    assert table["setting"].tolist() == ["1.0", "0.6"]
    assert (table["low"] < table["effect"]).all()
    assert table["holds"].tolist() == [True, True]


def test_runs_before_the_registration_are_told_and_keep_their_keys():
    found = judge(family([1.0] * 6), claim(MORE))
    assert (found.word, to_json(found)["late"]) == ("supported", None)
    assert scope(found) == "beyond the margin in 6 of 6 drawn settings, unregistered"
    late = dataclasses.replace(found, late=RunsBeforeRegistration(early=3, of=1200))
    assert to_json(late)["late"] == {"early": 3, "of": 1200}


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
