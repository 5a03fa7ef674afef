"""Several claims at a time: which go together, and what comes back."""

import os
from pathlib import Path

from normexp.claims.evidence.parallel import groups, outcomes
from normexp.claims.spec.claim_files import load_claims
from normexp.cores import cores

CLAIMS = load_claims(Path(__file__).parents[2] / "configs" / "claim")


def ids(*names: str) -> list[list[str]]:
    return [[claim.id for claim in group] for group in groups([CLAIMS[name] for name in names])]


def test_claims_that_may_share_runs_stay_together():
    assert ids("P03", "S06", "P03b", "P08", "S56") == [["S06"], ["P03", "P03b"], ["P08", "S56"]]
    assert sorted(name for group in ids(*CLAIMS) for name in group) == sorted(CLAIMS)


def place(claim):
    if claim.id == "S06":
        raise ValueError("no such luck")
    return {"id": claim.id, "process": os.getpid(), "threads": int(os.environ["OMP_NUM_THREADS"])}


def test_each_group_in_a_process_of_its_own_and_an_error_takes_nobody_along(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    found = {
        claim.id: what
        for claim, what in outcomes([CLAIMS[i] for i in ("P08", "S06", "S56", "P20")], 2, place)
    }
    assert str(found.pop("S06")) == "no such luck"
    assert {i: what["id"] for i, what in found.items()} == {i: i for i in ("P08", "S56", "P20")}
    assert found["P08"]["process"] == found["S56"]["process"] != os.getpid()
    assert {what["threads"] for what in found.values()} == {max(1, cores() // 2)}
    assert os.environ["OMP_NUM_THREADS"] == "7"
