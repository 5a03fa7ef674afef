"""verdict.json of a claim over settings: word and scope, registration, contrast, manipulation check, kind."""

import dataclasses
import json

import pytest
from committed import CLAIMS
from settings import FEWER, family, values
from tables import spread, table_of

from normexp.claims.evidence.initial import gather
from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.verdict import judge, write_verdict
from normexp.claims.judge.verdict_text import paragraph, section, title, with_scope
from normexp.claims.spec.claim import Claim, Manipulation
from normexp.claims.spec.registry import Row
from normexp.claims.spec.settings import Contrast

CLAIM = Claim(
    id="Q1",
    name="n",
    sentence="a has fewer errors.",
    source="s",
    covers=("Q1",),
    evidence="training",
    measure="errors",
    metric="test/error",
    arms={"a": [], "b": []},
    comparisons=[FEWER],
    better="lower",
    kind="verbatim",
    note="A note.",
    paper_effect={"value": "3 points", "where": "table 1", "size": "ResNet-50", "effect": -0.3},
    settings={"x": []},
)
ROW = Row(
    number=3, before="", subject="Q1", protocol="p", reason="r", date="2026-01-01", commit="", amends=1, alpha=0.025,
    seeds=[[0, 12]],
)  # fmt: skip


def test_the_verdict_has_all_that_a_page_needs(tmp_path):
    verdict = judge(family([-0.5] * 6), CLAIM, row=ROW)
    write_verdict(tmp_path, verdict)
    read = json.loads((tmp_path / "verdict.json").read_text())
    assert read["verdict"] == "supported"
    assert read["scope"] == "in 6 of 6 settings (digits, MNIST, CIFAR-10; MLP, CNN)"
    assert (read["kind"], read["paper_effect"]["where"]) == ("verbatim", "table 1")
    assert read["failures"] == {"arm": 0, "baseline": 0, "pairs": 72, "p": 1.0, "unequal": False}
    assert len(read["settings"]) == 6
    assert set(read["settings"][0]) >= {
        "name",
        "verdict",
        "effect",
        "interval",
        "votes",
        "flag",
        "pairs",
        "worst_case",
    }
    assert read["registered"] == {"row": 3, "hash": ROW.hash, "date": "2026-01-01", "alpha": 0.025}
    assert read["level"] == 0.975
    assert read["arms"]["a"].keys() == {row["name"] for row in read["settings"]}


def test_the_word_never_stands_without_its_scope():
    verdict = judge(family([-0.5] * 6), CLAIM) | {"untuned": False, "command": "c"}
    assert verdict["scope"].endswith(", unregistered")
    assert title(verdict) == (
        "Q1: supported in 6 of 6 settings (digits, MNIST, CIFAR-10; MLP, CNN), unregistered"
    )
    assert paragraph(verdict).startswith("Q1  SUPPORTED in 6 of 6 settings (digits")
    assert "12 seeds a setting" in paragraph(verdict)
    assert (
        max(map(len, paragraph(verdict, 60).splitlines()))
        <= 60
        < max(map(len, paragraph(verdict).splitlines()))
    )
    unclear = {**verdict, "verdict": "inconclusive", "scope": "supported in 1 and refuted in 2 of 6"}
    assert with_scope(unclear) == "inconclusive: supported in 1 and refuted in 2 of 6"
    assert section(verdict).startswith("## Q1: supported in 6 of 6 settings")


def test_an_amendment_and_looks_share_alpha():
    settings = family([-0.35] * 6, noise=0.7, n=10, seed=None)
    assert judge(settings, CLAIM)["verdict"] == "supported"
    strict = judge(settings, CLAIM, row=ROW, looks=2)
    assert (strict["verdict"], strict["level"]) == ("inconclusive", 0.9875)


def test_a_claim_falls_with_one_comparison_and_varies_before_it_is_inconclusive():
    other = Comparison(kind="greater", arm="a", baseline="b", log=True, margin=0.1)
    both = dataclasses.replace(CLAIM, comparisons=[FEWER, other])
    found = judge(family([-0.5] * 6), both)
    assert (found["verdict"], found["comparison"]["kind"]) == ("refuted", "greater")
    assert judge(family([-0.5] * 3 + [0.5] * 3), both)["verdict"] == "varies across settings"


def test_a_confirmed_contrast_gives_the_word():
    contrast = Contrast(varies="the place of the norm", key="k", groups={}, first_seed=100, seeds=30)
    claim = dataclasses.replace(CLAIM, contrast=contrast)
    groups = {name: family([own] * 2, n=30, first=100) for name, own in (("before", -0.5), ("after", 0.1))}
    found = judge(family([-0.5] * 3 + [0.1] * 3), claim, contrast=groups, row=ROW)
    assert found["verdict"] == "depends on the place of the norm"
    assert found["scope"] == "supported where before, refuted where after"
    assert found["p_raw"] < 0.025
    assert found["contrast"]["confirmed"]
    assert title(found) == "Q1: depends on the place of the norm: supported where before, refuted where after"
    unconfirmed = {name: family([-0.5] * 2, n=30, first=100) for name in groups}
    found = judge(family([-0.5] * 3 + [0.1] * 3), claim, contrast=unconfirmed)
    assert found["verdict"] == "varies across settings"


def test_a_causal_word_needs_a_manipulation_that_held():
    changed = Comparison(kind="smaller", arm="a", baseline="b", log=True)
    claim = dataclasses.replace(
        CLAIM, manipulation=Manipulation(measure="shift", comparison=changed, metric="m")
    )
    held = judge(family([-0.5] * 6), claim, manipulation=family([-0.3] * 6))
    assert (held["verdict"], held["manipulation"]["held"]) == ("supported", True)
    failed = judge(family([-0.5] * 6), claim, manipulation=family([0.3] * 6))
    assert failed["verdict"] == "inconclusive"
    assert failed["note"] == "the manipulation check did not hold: shift is refuted"
    # "refuted" would acquit a cause that was never present
    without_effect = judge(family([0.5] * 6), claim, manipulation=family([0.3] * 6))
    assert without_effect["verdict"] == "inconclusive"


def test_failure_as_the_measure():
    claim = dataclasses.replace(
        CLAIM, metric="failed", comparisons=[Comparison(kind="smaller", arm="a", baseline="b", margin=0.1)]
    )
    settings = [values({"a": [1.0] * 12, "b": [1.0] * 12}, str(i), {"b": [True] * 12}) for i in range(6)]
    found = judge(settings, claim)
    assert (found["verdict"], found["failures"]["baseline"]) == ("supported", 72)
    assert found["arms"]["a"]["0"] == 1.0


@pytest.mark.parametrize(
    ("name", "word", "scope"),
    [
        ("S29", "refuted", ""),
        ("S01", "supported", ""),
        ("S42", "no counterexample", "in 5 cases"),
    ],
)
def test_verdicts_of_one_setting_say_so_and_cases_prove_nothing(name, word, scope):
    claim = CLAIMS[name]
    table = gather(claim, claim.looks[-1])
    found = judge(table, claim)
    assert found["verdict"] == word
    if scope:
        assert found["scope"] == f"in {len(table)} cases"
        assert title(found) == f"{name}: no counterexample in {len(table)} cases"
    assert (found["settings"], found["failures"], found["kind"]) == ([], {}, claim.kind)


def test_an_old_verdict_of_training_is_one_setting_and_counts_what_failed():
    claim = CLAIMS["P08"]
    table = table_of({"rmsnorm": [*spread(0.9, 0.01, 9), float("nan")], "layernorm": spread(0.9, 0.01, 10)})
    found = judge(table, claim)
    assert found["scope"] == "one setting, unregistered"
    assert found["failures"] == {"rmsnorm": {"failed": 1, "of": 10}, "layernorm": {"failed": 0, "of": 10}}
    assert title(found).startswith("P08: ")
    assert title(found).endswith("(one setting, unregistered)")
