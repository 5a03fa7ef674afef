"""Each cell and each arm of a ledger has the overrides with which its rows were trained: today's files compose their
hashes."""

import pytest
from committed import CLAIMS

from normexp.claims.evidence.disk_runs import DiskRuns, RunKey
from normexp.claims.evidence.keep import grid_claim
from normexp.claims.evidence.measured import measured
from normexp.claims.evidence.stored import ARMS, EVIDENCE, StoredEvidence, ledger_of_bank, level_text
from normexp.claims.spec.bank import load_bank


@pytest.mark.slow
@pytest.mark.parametrize("name", ["small", "drawn", "serious"])
def test_the_first_row_of_each_cell_has_the_hash_of_todays_configuration(name, tmp_path):
    bank = load_bank(name)
    stored = StoredEvidence(EVIDENCE if name == "small" else ledger_of_bank(bank))
    claim = grid_claim(bank)
    rows = stored.grid_rows(claim.cells.values()).drop_duplicates("cell")
    assert set(rows["cell"]) == set(claim.cells) <= set(stored.cells)
    columns = rows[["cell", "norm", "seed", "lr"]].itertuples(index=False)
    keys = [RunKey(cell, norm, "", int(seed), float(lr)) for cell, norm, seed, lr in columns]
    specs = DiskRuns(claim, tmp_path).specs(keys)
    assert [spec.digest for spec in specs] == rows["hash"].tolist()


LEDGERS = [(folder, claim) for folder in (EVIDENCE, EVIDENCE / "drawn") for claim in CLAIMS.values()
           if (folder / "claims" / claim.id / ARMS).exists()]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "claim"), LEDGERS, ids=lambda part: getattr(part, "id", ""))
def test_the_first_row_of_each_arm_has_the_hash_of_todays_configuration(folder, claim, tmp_path):
    stored = StoredEvidence(folder)
    assert stored.edited_arms(claim) == []
    rows = stored.own_rows(claim).drop_duplicates(["norm", "level"])
    assert set(rows["norm"]) <= set(stored.arms(claim.id))
    levels = {level_text(level): level for level in claim.levels}
    columns = rows[["cell", "norm", "level", "seed", "lr"]].itertuples(index=False)
    keys = [
        RunKey(cell, arm, levels[level_text(level)], int(seed), float(lr))
        for cell, arm, level, seed, lr in columns
    ]
    specs = DiskRuns(claim, tmp_path).specs(keys)
    assert [spec.digest for spec in specs] == rows["hash"].tolist()


def test_the_serious_settings_are_measured_in_a_ledger_of_their_own():
    bank = load_bank("serious")
    assert ledger_of_bank(bank) == EVIDENCE / "serious"
    assert [point.name for point in measured(bank)] == list(bank.cells)
    updates = {point.name: set(point.runs["steps"]) for point in measured(bank)}
    assert updates["shakespeare_gpt"] == {2000}  # the small bank has 400 under that name
