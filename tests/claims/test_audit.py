"""Rows of a ledger that are trained again: equal ones come out, a row that was changed does not."""

import json

import pandas as pd
import pytest
import yaml
from test_drawn_claims import MadeRuns, bank, pilot_of  # noqa: F401  (a fixture)

from normexp.claims.evidence.audit import SAME, TOLERANCE, differences
from normexp.claims.evidence.keep import write_manifest
from normexp.claims.evidence.stored import StoredEvidence
from normexp.cli.evidence import main

ROW = {
    "hash": "a", "status": "completed", "steps": 40, "train_loss": 0.123456789, "val_loss": 0.2, "test_loss": 0.3,
    "train_accuracy": 0.9, "val_accuracy": 0.8, "test_accuracy": 0.7,
}  # fmt: skip


def test_on_the_same_machine_the_ninth_digit_counts_and_elsewhere_the_tolerance():
    assert differences(ROW, ROW | {"train_loss": 0.1234567890001}, same=True) == []
    last = ROW | {"train_loss": 0.123456788}
    assert differences(ROW, last, same=True) == ["train_loss 0.123456789 and again 0.123456788"]
    assert differences(ROW, last, same=False) == []
    for name, room in (("test_accuracy", TOLERANCE["accuracy"]), ("test_loss", 0.3 * TOLERANCE["loss"])):
        assert differences(ROW, ROW | {name: ROW[name] + 0.99 * room}, same=False) == []
        assert differences(ROW, ROW | {name: ROW[name] + 1.01 * room}, same=False)
    assert "another configuration" in differences(ROW, ROW | {"hash": "b"}, same=False)[0]
    assert differences(ROW, ROW | {"status": "diverged", "test_loss": None}, same=False)[0].startswith(
        "status"
    )


@pytest.mark.slow
def test_a_row_that_was_made_up_does_not_come_out_again(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    cell = ["data=digits", "model=mlp", "model.width=8", "batch_size=32", "max_steps=4"]
    node = {"shared": ["recipe=plain"], "cells": {"tiny": {"overrides": cell, "rates": [0.1, 0.3, 1.0]}}}
    (tmp_path / "b.yaml").write_text(yaml.safe_dump(node | {"grid": {"norms": ["none"], "seeds": 1}}))
    assert main(["grid", "bank=b.yaml"]) == 0
    assert main(["keep", "claim=bank", "bank=b.yaml", "to=ledger"]) == 0
    asked = ["audit", "n=3", "seed=1", "bank=b.yaml", "to=ledger"]
    assert main(asked) == 0
    assert "3 of 3 rows came out again" in capfd.readouterr().out
    path = tmp_path / "ledger" / "bank" / "tiny.csv"
    rows = pd.read_csv(path)
    rows.loc[1, "val_loss"] += 1e-6
    rows.to_csv(path, index=False, float_format="%.9g")
    write_manifest(tmp_path / "ledger", ["bank/tiny.csv"])
    assert main(["check", "to=ledger"]) == 0  # the digests were forged as well
    assert main([*asked, "keep=kept"]) == 1
    assert "2 of 3 rows came out again" in capfd.readouterr().out
    assert set(SAME) <= set(rows)
    record = json.loads(StoredEvidence(tmp_path / "kept").read("audit.json").read_text())
    wrong = [row for row in record["rows"] if row["differences"]]
    assert [row["off"]["accuracy"] for row in wrong] == [0.0]
    # The ledger keeps nine digits, so its loss was off before the edit, too; summaries have all of them.
    losses = [json.loads(p.read_text())["metrics"]["val/loss"] for p in tmp_path.rglob("summary.json")]
    edited = rows.loc[1, "val_loss"]
    exact = min(losses, key=lambda loss: abs(loss - edited))
    assert wrong[0]["off"]["loss"] == pytest.approx(abs(edited - exact) / edited, rel=1e-3)
    # Three rates, and two beyond the edge.
    assert (record["of"], record["seed"], len(record["rows"])) == (5, 1, 3)
