"""What is kept of a claim is enough to judge it again: the same words and numbers, from the committed files alone."""

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from asked import verify
from committed import CLAIMS, ROOT
from test_verify_settings import INITIAL

from normexp.claims.conclude import judge_again, judge_all_again
from normexp.claims.evidence import initial
from normexp.claims.evidence.keep import keep_verdict, write_manifest
from normexp.claims.evidence.protocol import resolved_protocol
from normexp.claims.evidence.stored import KEPT, PLACE, StoredEvidence
from normexp.claims.spec.claim_files import read_claim
from normexp.claims.spec.registry import REGISTRY, digest, register

SAME = (
    "verdict",
    "scope",
    "effect",
    "interval",
    "p",
    "n_seeds",
    "note",
    "arms",
    "comparisons",
    "seconds",
)


def plain(verdict: dict) -> str:
    return json.dumps({key: verdict[key] for key in SAME}, default=str)


def refuse(*_, **__):
    raise AssertionError("was made anew")


@pytest.fixture
def nothing_is_made(monkeypatch):
    """Called after the first verdict: from then on no network is made and no law is asked."""

    def forbid():
        monkeypatch.setattr(initial, "gather", refuse)
        monkeypatch.setattr(initial, "initial_settings", refuse)

    return forbid


# Numbers, words, infinities, nan, a trend.
@pytest.mark.integration
@pytest.mark.parametrize("name", ["S45", "S38", "S52", "S03", "S30", "P02"])
def test_a_law_is_judged_again_from_its_table(name, tmp_path, nothing_is_made):
    claim = CLAIMS[name]
    first = verify(claim, tmp_path / "out", keep_in=tmp_path / PLACE)
    nothing_is_made()
    assert plain(judge_again(claim, tmp_path)) == plain(first)
    assert judge_again(claim, tmp_path)["command"] == "c"
    assert judge_again(dataclasses.replace(claim, seeds=50), tmp_path) is None


CHECK = """manipulation: {function: covariate_shift.moment_shift, measure: shift,
  comparison: {kind: smaller, arm: batchnorm, baseline: none, log: true, margin: 0.1}}
"""


@pytest.mark.integration
def test_a_claim_over_settings_is_judged_again_with_its_check_and_row(tmp_path, nothing_is_made):
    (tmp_path / "claim").mkdir()
    path = tmp_path / "claim" / "Q01.yaml"
    text = INITIAL.replace("seeds: [5, 10]", "seeds: 10").replace("step: 0.1", "step: 0.1, lr: null")
    text = text.replace("covariate_shift.gradient_turn", "covariate_shift.moment_shift")
    path.write_text(text + CHECK)
    claim = dataclasses.replace(read_claim(path), first=6)  # as if they were drawn
    first = verify(claim, tmp_path / "out", keep_in=tmp_path / PLACE)
    nothing_is_made()
    again = judge_again(claim, tmp_path)
    assert plain(again) == plain(first)
    for key in ("settings", "manipulation"):
        assert json.dumps(again[key], default=str) == json.dumps(first[key], default=str)
    assert {row["labels"]["data"] for row in again["settings"]} == {"digits", "Gaussian noise"}
    protocol = digest(resolved_protocol(claim))
    register(tmp_path / REGISTRY, subject="Q01", protocol=protocol, reason="r", seeds=[[0, 10]], commit="")
    assert judge_again(claim, tmp_path)["unregistered_because"] == "gathered before row 1"
    record = tmp_path / KEPT / "Q01.json"
    record.write_text(record.read_text().replace('"row": null', '"row": 1'))
    with pytest.raises(ValueError, match=r"Q01\.json: is not the file of manifest\.json"):
        judge_again(claim, tmp_path)
    write_manifest(tmp_path / PLACE, [f"verdicts/{record.name}"])
    assert judge_again(claim, tmp_path)["registered"]["row"] == 1


def test_the_same_values_are_kept_in_the_same_bytes(tmp_path):
    table = initial.gather(CLAIMS["S45"])
    for folder in ("a", "b"):
        keep_verdict(tmp_path / folder, CLAIMS["S45"], table, {})
    first, second = (tmp_path / folder / "verdicts" / "S45.csv.gz" for folder in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    kept = StoredEvidence(tmp_path / "a").verdict(CLAIMS["S45"])
    assert kept.table["value"].tolist() == table["value"].tolist()
    assert kept.table["factor"].tolist() == table["factor"].tolist()


def test_claims_that_are_kept_side_by_side_all_stand_in_the_manifest(tmp_path):
    table = initial.gather(CLAIMS["S45"])
    claims = [dataclasses.replace(CLAIMS["S45"], id=f"Q{number:02d}") for number in range(12)]
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda claim: keep_verdict(tmp_path, claim, table, {}), claims))
    stored = StoredEvidence(tmp_path)
    assert {f"verdicts/{claim.id}.json" for claim in claims} <= stored.manifest.keys()
    assert stored.check() == []
    assert list(tmp_path.glob(".*")) == []  # no lock


def test_every_committed_record_belongs_to_a_claim():
    for path in (ROOT / KEPT).glob("*.json"):
        assert path.stem in CLAIMS, path
        assert json.loads(path.read_text())["id"] == path.stem
    assert set(judge_all_again({"S29": CLAIMS["S29"]}, ROOT)) <= {"S29"}
