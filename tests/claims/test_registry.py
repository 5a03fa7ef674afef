"""Rows of the registry: the error and the seeds of amendments, and what makes a verdict registered."""

import json

import pytest
from committed import CLAIMS, altered

from normexp.claims.evidence.registry import (
    REGISTRY,
    latest,
    protocol_of,
    read_registry,
    register,
    registration,
    registries_of,
    seeds_of,
    subject_of,
)
from normexp.claims.evidence.table import EVIDENCE
from normexp.claims.judge.verdict import Registered
from normexp.cli.main import run

ROW = {"subject": "P1", "protocol": "a", "reason": "first", "seeds": [[2, 4]]}


def test_an_amendment_takes_fresh_seeds_and_half_the_error(tmp_path):
    path = tmp_path / "registry.jsonl"
    assert register(path, **ROW).alpha == 0.05
    with pytest.raises(ValueError, match="is registered, row 1"):
        register(path, **ROW)
    for seen in ([2, 4], [1, 3], [3, 5]):
        with pytest.raises(ValueError, match="set first_seed: 4"):
            register(path, **ROW | {"protocol": "b", "seeds": [seen]})
    fresh = ROW | {"protocol": "b", "seeds": [[0, 2], [4, 6]]}
    with pytest.raises(ValueError, match="reason=: is empty"):
        register(path, **fresh | {"reason": " "})
    row = register(path, **fresh)
    assert (row.number, row.alpha) == (2, 0.025)
    assert latest(read_registry(path), "P1") == row


@pytest.mark.parametrize("line", ["{", "[]", json.dumps({"subject": "P1"})])
def test_a_row_that_cannot_stand_there_is_refused(tmp_path, line):
    path = tmp_path / "registry.jsonl"
    register(path, **ROW)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ValueError, match="row 2: must have the keys"):
        read_registry(path)


def test_a_claim_is_registered_while_its_protocol_is_that_of_its_row(tmp_path):
    claim = next(claim for claim in CLAIMS.values() if claim.drawn and claim.evidence == "training")
    path, subject = tmp_path / "registry.jsonl", subject_of(claim.id, claim.bank)
    assert registration(claim, [path]) == (None, "no row of the registry")
    protocol = protocol_of(claim)
    row = register(path, subject=subject, protocol=protocol, reason="r", seeds=seeds_of(claim))
    assert registration(claim, [path]) == (Registered(row=1, date=row.date, alpha=0.05), "")
    assert (row.number, row.seeds) == (1, [[claim.first_seed, claim.first_seed + 4]])
    amended = altered(claim, seeds=claim.seeds + 1)
    assert registration(amended, [path])[1] == "the protocol is not the one of row 1; register the amendment"


def test_rows_are_looked_for_in_the_users_registry_and_that_of_the_evidence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shipped = EVIDENCE / REGISTRY.name
    assert [path.samefile(shipped) for path in registries_of()] == [True]
    register(tmp_path / REGISTRY.name, **ROW)
    assert [path.samefile(shipped) for path in registries_of()] == [False, True]
    monkeypatch.chdir(shipped.parents[2])
    assert [path.samefile(shipped) for path in registries_of()] == [True]


def test_every_drawn_claim_is_registered_as_it_stands():
    rows = read_registry(EVIDENCE / REGISTRY.name)
    for claim in CLAIMS.values():
        row = latest(rows, subject_of(claim.id, claim.bank))
        assert not claim.drawn or row is None or row.protocol == protocol_of(claim), claim.id


def test_a_registry_without_a_row_says_so(tmp_path, capsys):
    assert run("register", [f"registry={tmp_path / 'registry.jsonl'}"]) == 0
    assert "no row yet" in capsys.readouterr().out
