"""The grid of a claim, what is missing of it, how its runs widen it, and the grids that kept verdicts store."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml
from committed import CLAIMS, TRAINED, altered, read_claim
from refusals import refused
from test_population import PILOT, write

from normexp.claims.conclude import conclude
from normexp.claims.evidence.disk import DiskRuns
from normexp.claims.evidence.grid import ARM, RUN, grid_of, grid_of_bank, missing, overrides_text, runs_of
from normexp.claims.evidence.rates import tuned_runs
from normexp.claims.evidence.settings import compared_runs, finished_settings, settings
from normexp.claims.evidence.table import EVIDENCE, NO_RUNS, kept_grid, read, runs_in
from normexp.claims.evidence.widen import widen
from normexp.claims.gather import Evidence, gathered, kept
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.cell import value_of
from normexp.claims.train import Rounds
from normexp.cli.main import run
from normexp.sweeps.options import Options

CLAIM = yaml.safe_load("""
name: two_is_few
sentence: BatchNorm is worse at a batch of 4.
source: s
covers: []
kind: ours
evidence: training
metric: test/error
measure: share of wrong answers
better: lower
arms: {batchnorm: [norm=batchnorm], few: [norm=batchnorm, batch_size=4]}
settings: {bank: tiny, first: 2, at: final}
seeds: 2
comparison: {kind: different, arm: batchnorm, baseline: few, margin: 0.01}
""")


@pytest.fixture
def claim(tmp_path):
    """Over the tiny population with pilots of its first two settings."""
    cells = load_bank(write(tmp_path)).cells
    pilots = [{"draw": cells[name].draw, **PILOT} for name in ("d001", "d002")]
    (tmp_path / "Q1.yaml").write_text(yaml.safe_dump(CLAIM))
    return read_claim(tmp_path / "Q1.yaml", load_bank(write(tmp_path, pilots=pilots)))


def made(grid, accuracy):
    """Finished runs of a grid, with accuracies from a function of its rows."""
    right = [accuracy(row) for row in grid.itertuples()]
    numbers = {
        "status": "completed", "val_loss": 0.5, "train_loss": 0.5, "test_loss": 0.7, "train_accuracy": 0.9,
        "steps": 10, "seconds": 1.0, "numerics": 1, "answers": 100.0, "late_gain": np.nan, "asked_by": "",
        "started": "2026-01-01T00:00:00+00:00", "val_accuracy": right, "test_accuracy": right,
    }  # fmt: skip
    return grid[RUN].assign(**numbers).drop_duplicates(RUN)


def test_an_arm_replaces_what_its_setting_says_however_it_is_written(claim):
    """`++batch_size=4` stands before `batch_size=32` in the order of letters, and Hydra takes the last one."""
    arms = {**claim.arms, "few": ["norm=batchnorm", "++batch_size=4"]}
    plain, forced = grid_of(claim), grid_of(altered(claim, arms=arms))
    assert forced["lr"].tolist() == plain["lr"].tolist()  # those of a batch of 4
    for first, second in zip(plain["overrides"], forced["overrides"], strict=True):
        assert sorted(second.replace("++", "").split("\n")) == first.split("\n")
    assert overrides_text(["batch_size=32", "++batch_size=4"]) == "++batch_size=4"
    assert overrides_text(["norm=none", "a=1", "a=2", "monitor=none"]) == overrides_text(["a=2", "norm=none"])
    assert overrides_text(["monitor=full"]) == "monitor=full"
    assert altered(claim, factor={"norm.momentum": [None, 0.1]}).factor_of(None) == ["norm.momentum=null"]


@pytest.mark.parametrize("name", ["P14", "P06a", "S05"])  # runs in one setting and over several, values
def test_what_is_kept_for_another_protocol_is_not_the_claims(name):
    claim = CLAIMS[name]
    assert kept(claim, EVIDENCE) is not None
    assert kept(altered(claim, sentence="Another one."), EVIDENCE) is None


def test_a_plan_with_nothing_to_train_is_a_plan(capsys):
    assert run("verify", ["claim=P14", "--plan"]) == 0
    assert re.search(r"P14: 0 of \d+ runs to train", capsys.readouterr().out)


def test_each_row_asks_for_its_run_and_no_row_for_none(claim, tmp_path):
    disk, grid = DiskRuns(claim, tmp_path), grid_of(claim)
    assert disk.specs(grid.iloc[:0]) == []
    rows = grid.iloc[[0, 7, 1]]
    found = [(spec.config["seed"], spec.config["lr"], spec.choices["norm"]) for spec in disk.specs(rows)]
    assert found == [(seed, lr, "batchnorm") for seed, lr in zip(rows["seed"], rows["lr"], strict=True)]
    assert all(spec.folder.is_relative_to(tmp_path) for spec in disk.specs(rows))


def test_a_grid_has_each_arm_and_seed_at_the_rates_of_the_pilot(claim):
    grid = grid_of(claim)
    assert len(grid) == 2 * 2 * 2 * 3  # settings, arms, seeds, rates
    (few,) = grid.loc[(grid["setting"] == "d001") & (grid["arm"] == "few"), "overrides"].unique()
    batch_size = int(value_of("batch_size", claim.cells["d001"].overrides))
    assert f"max_steps={round(80 * batch_size / 4)}\n" in few  # as many passes
    of_bank = grid_of_bank(claim.drawn_from)
    assert len(of_bank) == 2 * 2 * 2 * 2 * 3  # at both lengths, for both norms
    assert set(of_bank["arm"]) == {"none", "batchnorm"}
    assert not grid.duplicated([*ARM, *RUN]).any()
    assert len(missing(grid, NO_RUNS)) == len(grid)
    pd.testing.assert_frame_equal(widen(claim, grid, NO_RUNS), grid)
    table = made(grid.iloc[3:], lambda row: 0.5)
    assert missing(grid, table).index.tolist() == [0, 1, 2]
    assert finished_settings(claim, grid, table)["setting"].unique().tolist() == ["d002"]


def test_a_run_that_is_older_than_a_number_of_the_claim_is_missing(claim):
    """It would count as diverged otherwise. One that did diverge has no number, and needs none."""
    own = altered(claim, metric="test/error_reestimated")
    grid = grid_of(own)
    older = made(grid, lambda row: 0.5)
    older.loc[older.index[:2], "status"] = "diverged"
    lacking = lambda of, runs: missing(grid, read(None, grid, of, runs)).index.tolist()  # noqa: E731
    assert (lacking(own, older), lacking(claim, older)) == (older.index[2:].tolist(), [])
    newer = older.assign(test_accuracy_reestimated=0.7)
    assert lacking(own, newer) == []
    found = settings(own, compared_runs(own, finished_settings(own, grid, read(None, grid, own, newer))))
    assert found[0].quantity == "error"


def test_a_finished_run_without_the_number_of_its_claim_ends_the_rounds(claim, tmp_path, monkeypatch):
    """As one of an earlier version: it is skipped, and would be missing for ever."""
    skipped = {"name": "x", "state": "skipped", "error": "", "job": SimpleNamespace(log="")}
    skip = lambda specs, *_, **options: [SimpleNamespace(spec=spec, **skipped) for spec in specs]  # noqa: E731
    monkeypatch.setattr("normexp.sweeps.run.run", skip)
    rounds = Rounds([claim], tmp_path / "out", "", None)
    assert list(rounds.run(Options())) == []
    reason, status = rounds.failed["Q1"]
    assert re.search(
        r"^x: .*out.cache.* is finished and lacks what the claim reads; give another out=$", reason
    )
    assert status == 1


def test_a_best_rate_at_an_edge_asks_for_one_more_there_twice_at_most(claim):
    grid, rates = grid_of(claim), []
    for _ in range(4):
        few = grid[(grid["setting"] == "d001") & (grid["arm"] == "few")]
        rates.append(sorted(few["lr"].unique()))
        grid = widen(claim, grid, made(grid, lambda row: 0.3 + 0.01 * row.lr * (row.arm == "few")))
    first = rates[0]
    assert rates[1:] == [[*first, 10 * first[1]], *[[*first, 10 * first[1], 10 * first[2]]] * 2]


def test_a_setting_near_its_margin_gets_two_more_seeds(claim):
    grid = grid_of(claim)
    middle = {key: rows["lr"].median() for key, rows in grid.groupby(ARM[:2])}

    def accuracy(row):
        best = 0.1 * (row.lr == middle[row.setting, row.arm])
        near = row.setting == "d002" and row.arm == "few"
        return 0.5 + best + (0.02 * (row.seed % 2) if near else 0.0)

    for _ in range(2):
        grid = widen(claim, grid, made(grid, accuracy))
    assert grid.groupby("setting")["seed"].nunique().to_dict() == {"d001": 2, "d002": 4}
    table = made(grid, accuracy)
    assert widen(claim, grid, table) is grid
    for order in (1, -1):  # whichever ended first
        finished = finished_settings(claim, grid[::order], table[::order])
        found = settings(claim, compared_runs(claim, finished))
        assert [(own.name, len(own.outcomes["few", ""].seeds)) for own in found] == [("d001", 2), ("d002", 4)]


def test_a_verdict_refuses_numbers_that_were_never_compared(claim):
    grid = grid_of(claim)
    table = made(grid, lambda row: 0.5 + 0.01 * row.seed)

    def word(later):
        runs = table.assign(numerics=[1, later] * (len(table) // 2))
        return conclude(Evidence(claim, runs, grid), [])[1]

    assert word(2).numerics == (1, 2)
    with refused(r"numerics \[1, 3\]"):
        word(3)


def test_the_evidence_has_each_run_once_with_the_words_that_train_it():
    runs = runs_in(EVIDENCE)
    assert runs["run"].is_unique
    assert (runs["overrides"] != "").all()
    assert (runs["seconds"] >= 0).all()
    assert not runs.duplicated(
        ["overrides", "seed", "lr", "finished", "test_loss", "val_loss", "train_loss"]
    ).any()
    assert runs.loc[runs["status"] != "completed", "failed"].all()


@pytest.mark.integration
@pytest.mark.parametrize("name", TRAINED)
def test_a_kept_grid_is_the_one_that_its_runs_ask_for(name):
    claim = CLAIMS[name]
    kept = kept_grid(claim, runs_in(EVIDENCE))
    if set(kept["setting"]) != set(claim.cells):
        return
    found = gathered(claim, EVIDENCE, DiskRuns(claim, Path("absent")))
    assert found.is_whole
    rows = [set(pd.MultiIndex.from_frame(grid[[*ARM, *RUN]])) for grid in (found.grid, kept)]
    assert rows[0] == rows[1]
    assert runs_of(found.grid, found.table)["status"].notna().all()


def test_each_seed_takes_its_best_rate_among_the_runs_that_did_not_fail():
    rows = [
        (0, 0.1, "completed", 0.8, 0.5), (0, 0.3, "diverged", 0.9, 0.1), (1, 0.1, "completed", 0.8, 0.5),
        (1, 0.3, "completed", 0.8, 0.4), (2, 0.1, "diverged", 0.2, 0.5), (2, 0.3, "diverged", 0.3, 0.5),
    ]  # fmt: skip
    names = ["seed", "lr", "status", "val_accuracy", "val_loss"]
    runs = pd.DataFrame(rows, columns=names).assign(setting="s", arm="a", level="")
    assert tuned_runs(runs, "error")["lr"].tolist() == [0.1, 0.3, 0.3]  # a tie falls to the lower loss
