"""Every file in configs/claim is a claim that can be planned; those with a mathematical answer give it."""

import json
import re

import pytest
from asked import over_settings
from committed import CLAIMS, ROOT, TRAINED, altered
from forked import forked

from normexp.claims.evidence.initial import gather, law, plain
from normexp.claims.evidence.registry import protocol_of
from normexp.claims.evidence.search import search
from normexp.claims.judge.one_setting import judge_values
from normexp.claims.spec.find import select
from normexp.claims.words import note
from normexp.cli.main import run

EXACT = [claim for claim in CLAIMS.values() if claim.evidence == "law" and claim.expected]
INITIAL = [claim for claim in CLAIMS.values() if claim.evidence == "initialization" and claim.expected]


def test_every_seed_claim_is_a_file_or_covered_by_one():
    wanted = re.findall(r"^\| (P\w+) \|", (ROOT / "scripts" / "research" / "wanted.md").read_text(), re.M)
    assert not set(wanted) & CLAIMS.keys()
    covered = {name for claim in CLAIMS.values() for name in claim.covers} | set(wanted)
    assert {f"S{number:02d}" for number in range(1, 70)} <= covered
    assert {f"P{number:02d}" for number in range(1, 21)} <= covered


def test_every_claim_has_a_plan():
    for claim in CLAIMS.values():
        assert claim.seconds * claim.values > 0
        if claim.function:
            assert callable(law(claim.function))


@pytest.mark.integration
@pytest.mark.parametrize("name", TRAINED)
def test_training_claims_compose(name):
    claim = CLAIMS[name]
    cell = next((cell.overrides for cell in claim.cells.values()), ())
    for arm in claim.arms.values():
        for key, levels in claim.factor.items() or [("seed", [0])]:
            plain((*cell, *claim.fixed, *arm, f"{key}={levels[-1]}"))


@pytest.mark.integration
@pytest.mark.parametrize("claim", EXACT, ids=lambda claim: claim.id)
def test_mathematics_decides_the_claim(claim):
    check(claim)


@pytest.mark.slow
@pytest.mark.parametrize("claim", INITIAL, ids=lambda claim: claim.id)
def test_theory_decides_the_initialization_claim(claim):
    check(claim)


def check(claim):
    if claim.settings:
        verdict = over_settings(claim, ROOT)[1]
        if not claim.drawn:  # counts, and no word
            assert verdict.counts[0].holds == (verdict.counts[0].n if claim.expected == "supported" else 0)
            return
    else:
        table = search(claim) if claim.search else gather(claim)
        verdict = judge_values(claim, table)
    assert verdict.word == claim.expected, note(verdict)


def test_selection_by_id_name_cover_glob_and_kind():
    ids = lambda text: [claim.id for claim in select(CLAIMS, text)]  # noqa: E731
    assert ids("S03") == ids("correction_is_alias") == ["S03"]
    assert ids("S37") == ["S37", "S37a", "S37b"]
    assert ids("P05") == ["P05", *(f"P05{half}" for half in "abcdefgh")]
    assert ids("P05g") == ["P05g"]
    assert ids("rescaling_invariance") == ["S37"]
    assert set(ids("S03,S40*")) == {"S03", "S40", "S40a"}
    assert len(ids("all")) == len(CLAIMS)
    assert all(claim.evidence == "initialization" for claim in select(CLAIMS, "initialization"))
    with pytest.raises(ValueError, match=r"nearest: .*batch_size_dependence"):
        select(CLAIMS, "batch_size_dependance")
    with pytest.raises(ValueError, match="names no claim"):
        select(CLAIMS, ",")


def test_an_id_brings_all_its_halves_and_names_keep_their_letters():
    names = ["Q1", "Q1a", "Q1z", "Q1ab", "Q11", "QA1b", "mine"]
    claims = {name: altered(CLAIMS["S29"], id=name, name=f"n{name}") for name in names}
    ids = lambda text: [claim.id for claim in select(claims, text)]  # noqa: E731
    assert ids("Q1") == ["Q1", "Q1a", "Q1z", "Q1ab"]
    assert ids("QA1") == ["QA1b"]
    assert ids("mine") == ["mine"]


def test_a_claim_judged_anew_takes_seeds_of_its_own_and_says_why():
    anew = altered(CLAIMS["S29"], first_seed=100)
    assert sorted(gather(anew)["seed"].unique()) == [100, 101, 102, 103, 104]
    assert protocol_of(anew) != protocol_of(CLAIMS["S29"])
    assert all("fresh seeds" in claim.note for claim in CLAIMS.values() if claim.first_seed)


@pytest.mark.integration
def test_command_writes_the_verdict_and_exits_zero_for_any(tmp_path):
    done = forked("claim=S29", f"out={tmp_path}", script="scripts/verify.py")
    assert done.returncode == 0, done.stderr
    assert "S29  REFUTED" in done.stdout
    assert json.loads((tmp_path / "S29" / "verdict.json").read_text())["verdict"] == "refuted"
    assert (tmp_path / "S29" / "figure.png").stat().st_size > 1000


def test_command_lists_claims_and_the_nearest_of_an_unknown_one(tmp_path, capsys):
    assert run("verify", ["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {claim} " in listed for claim in CLAIMS)
    assert run("verify", ["claim=S99", f"out={tmp_path / 'none'}"]) == 2
    assert capsys.readouterr().err.startswith("Error: claim=S99: no such claim; nearest: S")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("argument", ["claim=", "S37", "seed=3", "budget=full", "bank=huge", "page=docs"])
def test_mistakes_on_the_command_line_are_one_line(argument, tmp_path, capsys):
    assert run("verify", [argument, f"out={tmp_path / 'none'}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"Error: {argument}")
    assert said.count("\n") == 1
    assert not (tmp_path / "none").exists()
