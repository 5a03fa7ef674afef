"""Every file in configs/claim is a claim that can be planned; those with a mathematical answer give it."""

import json
import re

import pandas as pd
import pytest
from committed import CLAIMS, ROOT, TRAINED, altered
from forked import forked
from refusals import refused
from test_broken_claims import GOOD, HEAD, line

from normexp.claims.conclude import conclude
from normexp.claims.evidence.initial import gather, law, plain
from normexp.claims.spec.find import arxiv_id, find, own_claims, select
from normexp.claims.verify import computed
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
        assert not claim.function or callable(law(claim.function))


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
    verdict = conclude(computed(claim))[1]
    if claim.cells and not claim.drawn:  # counts, and no word
        assert verdict.counts[0].holds == (verdict.counts[0].n if claim.expected == "supported" else 0)
    else:
        assert verdict.word == claim.expected, note(verdict)


def test_selection_by_id_name_cover_glob_and_kind():
    ids = lambda text: [claim.id for claim in select(CLAIMS, text)]  # noqa: E731
    assert ids("S03") == ids("correction_is_alias") == ["S03"]
    assert ids("rescaling_invariance") == ["S37"]
    assert set(ids("S03,S40*")) == {"S03", "S40", "S40a"}
    assert len(ids("all")) == len(CLAIMS)
    assert all(CLAIMS[name].evidence == "initialization" for name in ids("initialization"))
    named = {name for name, claim in CLAIMS.items() if claim.name.startswith("batchnorm_")}
    assert set(ids("batchnorm_*")) == named
    with refused(r"nearest: .*batch_size_dependence"):
        ids("batch_size_dependance")
    with refused("names no claim"):
        ids(",")


@pytest.mark.parametrize(
    ("word", "ids"), [("Q1", ["Q1", "Q1a", "Q1z", "Q1ab"]), ("QA1", ["QA1b"]), ("mine", ["mine"])]
)
def test_an_id_brings_all_its_halves_and_names_keep_their_letters(word, ids):
    names = ["Q1", "Q1a", "Q1z", "Q1ab", "Q11", "QA1b", "mine"]
    claims = {name: altered(CLAIMS["S29"], id=name, name=f"n{name}") for name in names}
    assert [claim.id for claim in select(claims, word)] == ids


def test_the_glob_of_a_study_names_no_claim_of_the_project():
    pages = "".join(path.read_text() for path in ROOT.glob("docs/studies/*/README.md"))
    globs = re.findall(r"claim='(\w\*)'", pages)
    assert len(globs) >= 7
    for glob in globs:
        with refused("no such claim"):
            select(CLAIMS, glob)


@pytest.mark.parametrize(
    "word", ["2503.10622", "arXiv:2503.10622v2", "arxiv:2503.10622", "https://arxiv.org/abs/2503.10622", "https://arxiv.org/pdf/2503.10622.pdf"]
)  # fmt: skip
def test_every_way_to_write_the_id_of_a_paper(word):
    assert arxiv_id(word) == "2503.10622"
    assert not any(map(arxiv_id, ("S37", "all", "12.5", "2503.106221234", "mine.yaml")))


def test_the_id_of_a_paper_brings_its_claims_and_no_others(capsys, monkeypatch, tmp_path):
    found = {claim.id for claim in select(CLAIMS, "2002.04745")}
    assert found == {name for name, claim in CLAIMS.items() if "Xiong et al. 2020" in claim.source}
    with refused(r"claim=1234\.56789: no claim has this paper as its source"):
        select(CLAIMS, "1234.56789")
    monkeypatch.setenv("NORMEXP_DATA", str(tmp_path))  # also where the data of a claim are not here
    assert run("verify", ["claim=2402.17762", "--plan", "evidence=none"]) == 2
    assert "tinyshakespeare.txt.gz: No such file or directory; give a text file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["law", "S06", "2503.10622"])
def test_a_path_stands_for_the_claim_in_it_whatever_its_name(name, tmp_path):
    path = tmp_path / f"{name}.yaml"
    path.write_text(GOOD)
    assert own_claims(f"S37, {path}")[0] == f"S37,{name}"
    (claim,), left_out = find(str(path))
    assert (claim.id, claim.sentence, left_out) == (name, "s", [])


def test_a_claim_judged_anew_takes_seeds_of_its_own_and_says_why():
    anew = altered(CLAIMS["S29"], first_seed=100)
    assert sorted(gather(anew)["seed"].unique()) == [100, 101, 102, 103, 104]
    assert all("fresh seeds" in claim.note for claim in CLAIMS.values() if claim.first_seed)


@pytest.mark.integration
def test_command_writes_the_verdict_and_exits_zero_for_any(tmp_path):
    done = forked("claim=S29", f"out={tmp_path}", script="scripts/verify.py")
    assert done.returncode == 0, done.stderr
    assert "S29  REFUTED" in done.stdout
    assert json.loads((tmp_path / "S29" / "verdict.json").read_text())["verdict"] == "refuted"
    assert (tmp_path / "S29" / "figure.png").stat().st_size > 1000


def test_command_lists_claims(capsys):
    assert run("verify", ["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {claim} " in listed for claim in CLAIMS)


@pytest.mark.parametrize(
    ("argument", "said"),
    [("claim=", ""), ("claim=S99", ": no such claim; nearest: S"), ("S37", ""), ("seed=3", ""), ("budget=full", ""),
     ("bank=huge", ""), ("page=docs", "")],
)  # fmt: skip
def test_mistakes_on_the_command_line_are_one_line(argument, said, tmp_path, capsys):
    assert run("verify", [argument, f"out={tmp_path / 'none'}"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"Error: {argument}{said}")
    assert told.count("\n") == 1
    assert not (tmp_path / "none").exists()


LOGGED = """evidence: training
metric: logged/last:val/loss
better: lower
arms: {fast: [lr=0.1], slow: [lr=0.001]}
fixed: [model=mlp, model.width=8, data=digits, norm=layernorm, batch_size=64, max_steps=12]
comparison: {kind: smaller, arm: fast, baseline: slow, margin: 0.05}
"""


@pytest.mark.integration
def test_a_claim_of_a_logged_metric_in_an_empty_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(line("seeds: 5", HEAD) + LOGGED)
    assert run("verify", ["claim=mine.yaml", "--workers", "0"]) == 0
    assert "fast" in capsys.readouterr().out
    out = tmp_path / "outputs/claims/mine"
    found = json.loads((out / "verdict.json").read_text())
    rows = pd.read_csv(out / "evidence.csv").pivot(index="seed", columns="arm", values="value")
    assert found["effect"] == pytest.approx((rows["fast"] - rows["slow"]).mean())
    assert (found["verdict"] == "holds here") == (found["interval"][1] < -0.05)
