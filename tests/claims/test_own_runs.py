"""Runs that a claim adds to the bank: which they are, and their way from folders into its ledger and out of it."""

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from committed import CLAIMS

from normexp.claims.evidence.claim_runs import ClaimCell
from normexp.claims.evidence.ledger import OWN_LEDGER
from normexp.claims.evidence.own_runs import OwnRuns, own_runs, runs_in, write_own_ledger
from normexp.claims.evidence.resolved_protocol import resolved_protocol
from normexp.claims.evidence.settings_evidence import gather_settings
from normexp.claims.judge.comparison import Comparison
from normexp.claims.spec.bank import load_bank, load_cells
from normexp.claims.spec.claim import Claim, Manipulation
from normexp.claims.train_claims import train_cells
from normexp.config.folder import CONFIGS
from normexp.runs import load_test_examples
from normexp.sweeps.options import Options

SMALLER = Comparison(kind="smaller", arm="two", baseline="all", log=True)
CELL = "small_digits"
CLAIM = Claim(
    id="Q03", name="n", sentence="s", source="s", covers=(), evidence="training", metric="test/error", seeds=2,
    arms={"two": ["norm=batchnorm_ghost", "norm.virtual_batch_size=2"], "all": ["norm=batchnorm"]},
    comparisons=[SMALLER], settings={CELL: []},
)  # fmt: skip


NOTHING = pd.DataFrame({"cell": [], "lr": []})  # of the bank


def wanted(claim, cell, bank, rates=()):
    return ClaimCell(claim, cell, bank, NOTHING).wanted(rates)


@pytest.fixture(scope="module")
def parts():
    return load_bank(CONFIGS / "bank.yaml"), load_cells(CONFIGS)


def test_what_the_bank_has_is_not_trained_again(parts):
    bank, cells = parts
    cell = cells["digits_mlp"]
    claim = dataclasses.replace(CLAIM, seeds=bank.seeds + 1, settings={cell.name: [], CELL: []})
    asked = pd.DataFrame(wanted(claim, cell, bank))
    assert asked.groupby("arm").size().to_dict() == {
        "two": 7 * len(cell.rates), "all": len(cell.rates),
    }  # fmt: skip
    assert set(asked.loc[asked["arm"] == "all", "seed"]) == {bank.seeds}
    for other in ({"fixed": ["batch_size=4"]}, {"factor": {"batch_size": [2, 4]}}):
        levels = 2 if "factor" in other else 1
        each = 2 * levels * (bank.seeds + 1) * len(cell.rates)
        assert len(wanted(dataclasses.replace(claim, **other), cell, bank)) == each
    one = wanted(dataclasses.replace(claim, rate="middle"), cells[CELL], bank)
    assert {run.lr for run in one} == {cells[CELL].rates[2]}


@pytest.mark.parametrize("name", ["digits_mlp", "shakespeare_gpt"])
def test_a_cell_that_names_other_values_composes(name, parts, tmp_path, monkeypatch):
    """`${seed}` is the seed of each run, `${oc.env:...}` a value of the environment."""
    bank, cells = parts
    claim = dataclasses.replace(
        CLAIM, seeds=bank.seeds + 2, settings={name: []}, arms={"all": ["norm=layernorm_simple"]}
    )
    monkeypatch.setattr("normexp.config.run_spec.fingerprint", lambda *given: "")  # the file is not here
    runs = runs_in(claim, cells[name], tmp_path)
    run = wanted(claim, cells[name], bank)[-1]
    data = runs.spec(run).config["data"]
    assert data.get("split_seed", run.seed) == run.seed == bank.seeds + 1
    assert data.get("path", "tinyshakespeare").count("tinyshakespeare") == 1


def test_the_cells_of_a_contrast_take_its_seeds_and_the_protocol_has_their_rates(parts):
    bank, cells = parts
    claim = CLAIMS["P06c"]
    own, fresh = [*range(300, 310)], [*range(400, 460)]
    asked = pd.DataFrame(wanted(claim, cells["batch4_mnist"], bank))
    assert sorted(asked["seed"].unique()) == fresh
    assert asked.groupby(["arm", "lr"]).size().tolist() == [60] * 2 * len(cells["batch4_mnist"].rates)
    assert sorted(pd.DataFrame(wanted(claim, cells["digits_mlp"], bank))["seed"].unique()) == own
    assert not wanted(CLAIMS["P06a"], cells["digits_mlp"], bank)  # the bank has them
    both = {"it is 64": {"digits_mlp": []}, "it is 4": {"batch4_mnist": []}}
    shared = dataclasses.replace(claim, contrast=dataclasses.replace(claim.contrast, groups=both))
    assert ClaimCell(shared, cells["digits_mlp"], bank, NOTHING).seeds == [*own, *fresh]
    grids = resolved_protocol(claim)["grids"]
    assert set(grids) == {*claim.settings, *claim.contrast.cells}
    assert grids["batch4_mnist"]["rates"] == [0.003, 0.01, 0.03, 0.1]


@pytest.mark.slow
def test_own_runs_are_trained_kept_and_judged(parts, tmp_path):
    bank, cells = parts
    cell = dataclasses.replace(cells[CELL], rates=(0.01, 0.1, 1.0))
    check = Manipulation(measure="m", metric="train/loss", comparison=SMALLER)
    claim = dataclasses.replace(CLAIM, fixed=["max_epochs=1"], manipulation=check)

    def now() -> dict[str, OwnRuns]:
        return own_runs(claim, [cell], bank, tmp_path, tmp_path / "root")

    folder = tmp_path / "root" / OWN_LEDGER
    with pytest.raises(ValueError, match="claim=Q03: small_digits: 12 runs are missing; train them first"):
        write_own_ledger(claim, now(), folder)
    count = 0
    while left := (own := now()[CELL]).missing():  # the grid, then what the rule asks for
        count += len(left)
        assert train_cells([(own.runs, left)], tmp_path / "cache", Options(), "") == 0
    assert write_own_ledger(claim, now(), folder) == count >= 12
    root = root_with(tmp_path / "root", cell)
    (setting,) = gather_settings(claim, claim.settings, range(2), root=root)
    runs = runs_in(claim, cell, tmp_path)
    rates = tuple(sorted(set(pd.read_csv(folder / "Q03" / "runs.csv")["lr"].tolist())))
    for arm in claim.arms:  # slowly, from the folders
        for seed in range(2):
            own = {
                run.lr: runs.summary(run)
                for run in wanted(claim, cell, bank, rates)
                if (run.arm, run.seed) == (arm, seed)
            }
            best = max(
                own,
                key=lambda lr, own=own: (
                    own[lr][0]["metrics"]["val/accuracy"],
                    -own[lr][0]["metrics"]["val/loss"],
                ),
            )
            examples = load_test_examples(own[best][1])
            np.testing.assert_array_equal(setting.outcomes[arm, ""].examples[seed], ~examples.right)
            assert setting.outcomes[arm, ""].runs[seed] == own[best][0]["hash"]
    (checked,) = gather_settings(claim, claim.settings, range(2), root=root, check=True)
    assert checked.design == "seeds"
    table = pd.read_csv(folder / "Q03" / "runs.csv").set_index("hash")
    names = checked.outcomes["two", ""].runs
    np.testing.assert_allclose(checked.outcomes["two", ""].values, table.loc[list(names), "train_loss"])


def root_with(root: Path, cell) -> Path:
    """A repository whose cells are the committed ones but for the rates of one."""
    (root / "configs").mkdir(parents=True, exist_ok=True)
    (root / "configs" / "bank.yaml").write_text((CONFIGS / "bank.yaml").read_text())
    text = (CONFIGS / "own_cells.yaml").read_text()
    head, name, rest = text.partition(f"  {cell.name}:\n")
    old = "rates: [0.01, 0.03, 0.1, 0.3, 1.0]"
    assert old in rest
    (root / "configs" / "own_cells.yaml").write_text(
        head + name + rest.replace(old, f"rates: {list(cell.rates)}", 1)
    )
    return root
