"""scripts/compare_precision.py: the same runs in both precisions give the same words and accuracies."""

import compare_precision as compare
import pandas as pd
from benchmarks.page import PRECISION
from doc_tables import read_rows

from normexp.claims.evidence.disk_runs import DiskRuns
from normexp.config.compose import compose


def test_means_are_those_of_each_norm_and_precision():
    full = pd.DataFrame({"norm": ["none", "none", "layernorm"], "test_accuracy": [0.5, 0.7, 0.9]})
    half = full.assign(test_accuracy=[0.4, 0.4, 0.8])
    found = compare.accuracies(full, half)
    assert list(found) == ["none", "layernorm"]
    assert found["none"] == [pd.Series([0.5, 0.7]).mean(), 0.4]
    assert found["layernorm"] == [0.9, 0.8]


def test_runs_of_the_ledger_are_asked_for_in_bfloat16_and_compared(monkeypatch, tmp_path, capsys):
    asked = []

    def rows(disk: DiskRuns, keys):
        """The ledger's rows, as if bfloat16 had changed nothing."""
        (pair,) = (pair for pair in asked if pair.disk is disk and pair.keys is keys)
        return pair.full

    monkeypatch.setattr(compare, "train_missing", asked.extend)
    monkeypatch.setattr(DiskRuns, "rows", rows)
    monkeypatch.setattr(compare, "DATA", tmp_path)
    monkeypatch.setattr(compare, "write_page", lambda: None)
    compare.main(2, ["P06a"])
    _, *words = capsys.readouterr().out.strip().split(" | ")
    assert len(set(words)) == 1
    assert "of 2" in words[0]
    found = read_rows(tmp_path / PRECISION)
    assert [row["setting"] for row in found] == ["d001", "d002"]
    assert all(full == half for row in found for full, half in row["accuracy"].values())
    for pair in asked:  # without their data, which a clean machine has not
        cfg, _ = compose(["data=digits", *pair.disk.claim.fixed])
        assert cfg.trainer.precision == "bf16-mixed"
        assert [key.lr for key in pair.keys] == pair.full["lr"].tolist()
