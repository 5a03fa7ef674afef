"""Learning curves of claims: from the runs' folders into the ledger, and from there onto the pages."""

import csv
import dataclasses
import gzip
import re

import numpy as np
import pandas as pd
import pytest
from committed import CLAIMS
from fabricated import write_run
from scipy import stats
from settings import FEWER

from normexp.claims.evidence.curves import (
    bank_curves,
    curves_of,
    curves_of_runs,
    mean_curves,
    read_curves,
    write_curves,
)
from normexp.claims.evidence.plan import Known
from normexp.claims.evidence.stored import LEDGER, StoredEvidence, level_text
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.claim import Claim
from normexp.config.folder import CONFIGS
from normexp.runs import read_summary

ROOT = CONFIGS.parent


def rows_of(folders, **more) -> pd.DataFrame:
    """Rows of a ledger."""
    found = [
        {"cell": "c", "norm": summary["choices"]["norm"], "lr": summary["config"]["lr"], "steps": summary["steps"],
         "seed": summary["config"]["seed"], "folder": str(folder), "status": summary["status"], **more}
        for folder in folders for summary in [read_summary(folder)]
    ]  # fmt: skip
    return pd.DataFrame(found)


def test_curves_are_those_of_the_runs_and_the_same_runs_give_the_same_bytes(tmp_path):
    folders = [
        write_run(tmp_path / "runs", norm, 8, seed) for norm in ("none", "batchnorm") for seed in (0, 1)
    ]
    path = tmp_path / "c.curves.csv.gz"
    write_curves(path, curves_of_runs(rows_of(folders)))
    first = path.read_bytes()
    write_curves(path, curves_of_runs(rows_of(folders)))
    assert path.read_bytes() == first
    kept = read_curves(path)
    assert len(kept) == 4 * 11
    for folder in folders:  # slowly, row by row
        summary = read_summary(folder)
        own = kept[(kept["norm"] == summary["choices"]["norm"]) & (kept["seed"] == summary["config"]["seed"])]
        with (folder / "metrics.csv").open() as file:
            rows = [row for row in csv.DictReader(file) if row["metric"] == "val/accuracy"]
        assert own["step"].tolist() == [int(row["step"]) for row in rows]
        assert own["epoch"].tolist() == [float(row["epoch"]) for row in rows]
        np.testing.assert_allclose(own["accuracy"], [float(row["value"]) for row in rows], atol=5e-5)
    assert gzip.decompress(first).startswith(b"cell,norm,level,seed,lr,step,epoch,accuracy\n")
    assert read_curves(tmp_path / "absent.gz").empty


def test_a_run_whose_metrics_are_gone_is_named(tmp_path):
    folder = write_run(tmp_path, "none", 8, 0)
    (folder / "metrics.csv").unlink()
    with pytest.raises(ValueError, match=re.escape(f"{folder / 'metrics.csv'}: absent")):
        write_curves(tmp_path / "c.gz", curves_of_runs(rows_of([folder])))
    assert not (tmp_path / "c.gz").exists()


def test_the_mean_has_the_t_interval_at_steps_that_every_seed_has():
    values = {0: [0.1, 0.5, 0.9], 1: [0.2, 0.7], 2: [0.3, 0.6, 0.8], 3: [0.2, 0.5, 0.7]}
    rows = [
        {"arm": "a", "seed": seed, "step": 10 * step, "epoch": step, "accuracy": value}
        for seed, own in values.items()
        for step, value in enumerate(own)
    ]
    found = mean_curves(pd.DataFrame(rows))
    assert found["step"].tolist() == [0, 10]  # one seed has no third validation
    for place in (0, 1):
        own = np.array([curve[place] for curve in values.values()])
        low, high = stats.t.interval(0.95, 3, loc=own.mean(), scale=stats.sem(own))
        assert found.loc[place, ["mean", "low", "high"]].tolist() == pytest.approx([own.mean(), low, high])
        assert found.loc[place, ["epoch", "n"]].tolist() == [place, 4]


@pytest.mark.parametrize(
    ("level", "text"),
    [("", ""), (2.0, "2"), ("2", "2"), (0.5, "0.5"), ("deep", "deep"), (None, "None"), ([1, 2], "[1, 2]")],
)
def test_a_level_reads_the_same_from_every_table(level, text):
    assert level_text(level) == text


@pytest.mark.integration
@pytest.mark.parametrize("name", ["P06", "P10a", "S32a"])
def test_pages_draw_the_committed_runs_that_the_verdict_compares(name):
    """The last point of each curve is the mean of the ledger's final accuracies; P06 reads the bank, P10a its own runs,
    and in S32a some runs diverged."""
    claim = CLAIMS[name]
    found = curves_of(claim, {"settings": [{"name": cell} for cell in claim.settings]}, ROOT)
    assert list(found) == list(claim.settings)
    known = Known(claim, StoredEvidence(), None)
    for cell, means in found.items():
        runs = known.judged(claim.cells[cell])
        done = runs[runs["status"] == "completed"].groupby("norm")["val_accuracy"].mean()
        assert means.groupby("arm")["mean"].last().to_dict() == pytest.approx(done.to_dict(), abs=6e-5)


def test_every_ledger_has_the_curves_of_its_runs():
    for name, cell in load_bank().grid.cells.items():
        runs, curves = StoredEvidence().grid_rows([cell]), read_curves(bank_curves(ROOT / LEDGER, name))
        keys = ["norm", "lr", "seed"]
        done = runs.loc[runs["status"] == "completed", keys]
        assert len(done.merge(curves[keys].drop_duplicates(), on=keys)) == len(done), name


def test_claims_that_are_not_trained_have_none(tmp_path):
    claim = Claim(
        id="Q1", name="n", sentence="s", source="s", covers=(), evidence="initialization", measure="m", function="f",
        arms={"a": [], "b": []}, comparisons=[FEWER], better="lower",
    )  # fmt: skip
    assert curves_of(claim, {"settings": [{"name": "digits_mlp"}]}, ROOT) == {}
    trained = dataclasses.replace(claim, evidence="training", metric="test/error", function=None)
    assert curves_of(trained, {"settings": [{"name": "digits_mlp"}]}, tmp_path) == {}
