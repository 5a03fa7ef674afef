"""Claims over drawn settings: which runs they ask for, which they share with the bank, and what the judge gets."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from test_population import PILOT, TINY, write

from normexp.claims.conclude import conclude
from normexp.claims.evidence.keep import keep_claim, keep_runs, setting_claim
from normexp.claims.evidence.plan import Known, missing_keys
from normexp.claims.evidence.protocol import resolved_protocol, seeds_of
from normexp.claims.evidence.stored import StoredEvidence, grid_arms
from normexp.claims.judge.plain_words import paragraph
from normexp.claims.rounds import Rounds
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.claim_files import read_claim
from normexp.claims.spec.population import equal_passes
from normexp.claims.spec.registry import digest, register
from normexp.claims.verify_claims import Verdicts, show_plan
from normexp.cli.evidence import main
from normexp.runs import TestExamples
from normexp.runs.read import HEADER, write_test_examples
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


class MadeRuns:
    """Finished runs of any key: accuracies from a function in place of training."""

    def __init__(self, outputs, accuracy, only=()):
        self.outputs, self.accuracy, self.made = outputs, accuracy, {}
        self.only = only  # settings; empty: all
        self.new = set()

    def rows(self, keys):
        keys = [key for key in keys if key.setting in (self.only or [key.setting])]
        return pd.DataFrame([self.made.setdefault(key, self._row(key)) for key in keys])

    def _row(self, key):
        name = f"{key.setting}-{key.arm}-{key.seed}-{key.lr}"
        folder = self.outputs / name
        folder.mkdir(parents=True, exist_ok=True)
        right = np.arange(100) < 100 * self.accuracy(key)
        write_test_examples(folder, TestExamples(right, np.ones(100, np.float32), "the test set"))
        (folder / "metrics.csv").write_text(f"{HEADER.decode()}10,1,0.1,val/accuracy,0.5\n")
        return {
            "cell": key.setting, "norm": key.arm, "level": key.level, "lr": key.lr, "seed": key.seed,
            "status": "completed", "val_accuracy": float(right.mean()), "val_loss": 0.5, "train_loss": 0.5,
            "test_accuracy": float(right.mean()), "test_loss": 0.7, "steps": 10, "seconds": 1.0, "replicas": 1,
            "precision": "32-true", "hash": name, "finished": "2026-01-01T00:00:00+00:00", "commit": "c" * 40,
            "dirty": False, "code": "", "folder": str(folder), "value": 0.5,
            "check": None, "censored": False,
        }  # fmt: skip


def pilot_of(bank, names):
    return [{"draw": bank.cells[name].draw, **PILOT} for name in names]


@pytest.fixture
def bank(tmp_path):
    """The tiny population with pilots of its first three settings."""
    first = load_bank(write(tmp_path))
    return load_bank(write(tmp_path, pilots=pilot_of(first, ["d001", "d002", "d003"])))


def claim_of(folder, bank, **changes):
    path = folder / "Q1.yaml"
    path.write_text(yaml.safe_dump(CLAIM | changes))
    return read_claim(path, bank)


def test_a_claim_takes_the_first_settings_with_its_labels_and_a_pilot(tmp_path, bank):
    claim = claim_of(tmp_path, bank)
    assert list(claim.settings) == ["d001", "d002"]
    assert (claim.first, claim.bank, claim.seeds) == (2, "tiny", 2)
    assert all("max_steps=80" in overrides for overrides in claim.settings.values())
    kind = bank.cells["d003"].labels["model"]
    early = claim_of(
        tmp_path, bank, settings={"bank": "tiny", "first": 9, "at": "early", "where": {"model": kind}}
    )
    wanted = [
        f"{name}-early" for name in ("d001", "d002", "d003") if bank.cells[name].labels["model"] == kind
    ]
    assert list(early.settings) == wanted
    assert all("max_steps=10" in overrides for overrides in early.settings.values())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"bank": "tiny", "first": 2, "at": "final", "where": {"model": "GPT"}},
            "where.model=GPT: no setting",
        ),
        (
            {"bank": "tiny", "first": 2, "at": "final", "where": {"color": "red"}},
            "where.color=red: no setting",
        ),
        ({"bank": "tiny", "first": 2}, "settings.at: is final or early"),
    ],
)
def test_a_mistake_in_the_settings_is_one_line(tmp_path, bank, settings, message):
    with pytest.raises(ValueError, match=message):
        claim_of(tmp_path, bank, settings=settings)


def test_without_pilots_nothing_is_trained(tmp_path):
    claim = claim_of(tmp_path, load_bank(write(tmp_path)))
    with pytest.raises(ValueError, match="setting=d001: has no pilot yet"):
        missing_keys(claim, Known(claim, None, None))


def test_arms_have_their_own_rates_which_move_with_the_batch(tmp_path, bank):
    claim = claim_of(tmp_path, bank)
    cell = claim.cells["d001"]
    keys = missing_keys(claim, Known(claim, None, None))
    rates = {
        arm: sorted({key.lr for key in keys if key.setting == "d001" and key.arm == arm})
        for arm in claim.arms
    }
    assert rates["batchnorm"] == [0.1, 0.3, 1.0]
    ratio = 4 / int(cell.labels["batch size"])
    expected = ratio if cell.labels["optimizer"] == "SGD" else ratio**0.5
    # To the nearest of 1, 3, 10: within a quarter of a decade, and 1, 3, 10 itself is off by a fortieth.
    assert abs(np.log10(rates["few"][1] / 0.3) - np.log10(expected)) < 0.25 + 0.025
    assert len(rates["few"]) == 3


def test_an_arm_whose_best_rate_is_an_edge_gets_one_more_and_others_do_not(tmp_path, bank):
    made = MadeRuns(tmp_path / "runs", lambda key: 0.8 if key.lr in (0.03, 1.0) else 0.6)
    claim = setting_claim(bank, "d001")
    rows, missing = Known(claim, None, made).cell_runs(claim.cells["d001"], range(2))
    assert not missing
    rates = {norm: sorted(own["lr"].unique()) for norm, own in rows.groupby("norm")}
    assert rates == {"none": [0.01, 0.03, 0.1], "batchnorm": [0.1, 0.3, 1.0, 3.0]}


def test_a_batch_of_another_size_trains_as_many_passes(bank):
    cell = bank.at_lengths("d001")[0]
    own = int(cell.labels["batch size"])
    assert equal_passes(cell, ["norm=none"]) == equal_passes(cell, [f"batch_size={own}"]) == []
    assert equal_passes(cell, ["batch_size=2"])[0] == f"max_steps={40 * own}"


def test_the_bank_is_kept_in_a_ledger_of_its_own_and_shared_with_claims(tmp_path, bank):
    def accuracy(key):
        return 0.5 if key.arm == "none" else 0.8 if key.lr == 0.3 else 0.7

    for name in ("d001", "d002"):
        known = Known(setting_claim(bank, name), None, MadeRuns(tmp_path / "runs", accuracy))
        keep_runs(tmp_path / "ledger" / "tiny", known)
    stored = StoredEvidence(tmp_path / "ledger")
    arms = {"batchnorm": ["norm=batchnorm"], "none": ["norm=none"]}
    comparison = {"kind": "different", "arm": "batchnorm", "baseline": "none", "margin": 0.01}
    claim = claim_of(tmp_path, bank, arms=arms, comparison=comparison)
    known = Known(claim, stored, None)
    assert missing_keys(claim, known) == []
    for setting in known("", claim.settings):
        np.testing.assert_allclose(setting.outcomes["batchnorm", ""].values, [0.2, 0.2])
        np.testing.assert_allclose(setting.outcomes["none", ""].values, [0.5, 0.5])
        assert setting.guess == pytest.approx(0.9)
        assert setting.labels["updates"] == "80"
        assert setting.labels["values per statistic"] == "32"
    few = claim_of(tmp_path, bank)  # its second arm alone is missing
    assert {key.arm for key in missing_keys(few, Known(few, stored, None))} == {"few"}


def test_verify_keeps_the_runs_of_a_claim_over_drawn_settings(tmp_path, bank, capsys):
    def accuracy(key):
        return 0.5 if key.arm == "none" else 0.8

    claim = claim_of(tmp_path, bank, **TWO_NORMS)
    own = Verdicts(tmp_path / "out", "x claim={id}", registries=[], keep_in=tmp_path / "kept")
    found = own.verdict(claim, Known(claim, None, MadeRuns(tmp_path / "runs", accuracy)))
    assert isinstance(found, dict), found
    kept = tmp_path / "kept" / "tiny"
    count = len(pd.read_csv(kept / "claims" / claim.id / "runs.csv"))
    assert count >= 24
    assert f"{claim.id}: {count} runs in {kept}" in capsys.readouterr().out
    again = Known(claim, StoredEvidence(tmp_path / "kept"), None)
    assert missing_keys(claim, again) == []


def test_finished_settings_of_an_unfinished_claim_are_kept_and_the_others_join_them(tmp_path, bank):
    claim = claim_of(tmp_path, bank, fixed=["optimizer.weight_decay=0.3"], **TWO_NORMS)  # no arms of the grid

    def disk(*settings):
        return MadeRuns(tmp_path / "runs", lambda key: 0.5 if key.arm == "none" else 0.8, only=settings)

    ledger = tmp_path / "kept"
    with pytest.raises(
        ValueError, match=f"runs are missing; train them first: normexp verify claim={claim.id}"
    ):
        keep_claim(ledger, Known(claim, None, disk("d003")))
    assert not ledger.exists()
    first = keep_claim(ledger, Known(claim, None, disk("d001")))
    runs = pd.read_csv(ledger / "tiny" / "claims" / claim.id / "runs.csv")
    assert set(runs["cell"]) == {"d001"}
    assert first == f"{claim.id}: {len(runs)} runs of 1 of 2 settings in {ledger / 'tiny'}"
    missing = missing_keys(claim, Known(claim, StoredEvidence(ledger), None))
    assert {key.setting for key in missing} == {"d002"}
    keep_claim(ledger, Known(claim, StoredEvidence(ledger), disk("d002")))
    both = pd.read_csv(ledger / "tiny" / "claims" / claim.id / "runs.csv")
    assert sorted(both.loc[both["cell"] == "d001", "hash"]) == sorted(runs["hash"])
    assert missing_keys(claim, Known(claim, StoredEvidence(ledger), None)) == []
    keep_claim(ledger, Known(claim, None, disk("d002")))  # d001 is not finished for whoever asks now
    again = pd.read_csv(ledger / "tiny" / "claims" / claim.id / "runs.csv")
    assert sorted(again["hash"]) == sorted(both["hash"])
    assert StoredEvidence(ledger / "tiny").check() == []


def test_an_arm_that_repeats_what_a_setting_has_shares_its_runs(tmp_path, bank):
    cell = bank.at_lengths("d001")[0]
    same, other = f"batch_size={cell.labels['batch size']}", "batch_size=4"
    claim = claim_of(tmp_path, bank, fixed=[same], arms={"a": ["norm=none"], "b": ["norm=batchnorm", other]},
                     comparison={"kind": "different", "arm": "a", "baseline": "b", "margin": 0.01})  # fmt: skip
    assert grid_arms(claim, cell) == {("a", ""): "none"}


@pytest.mark.integration
def test_the_protocol_names_the_banks_own(tmp_path, bank):
    claim = claim_of(tmp_path, bank)
    protocol = resolved_protocol(claim)
    assert protocol["names"] == ["d001", "d002"]
    assert protocol["budget"] == "tiny"
    longer = [row | {"updates": 160} for row in pilot_of(bank, ["d001", "d002", "d003"])]
    other = claim_of(tmp_path, load_bank(write(tmp_path, TINY, longer)))
    assert resolved_protocol(other)["bank"] != protocol["bank"]


TWO_NORMS = {
    "arms": {"batchnorm": ["norm=batchnorm"], "none": ["norm=none"]},
    "comparison": {"kind": "greater", "arm": "none", "baseline": "batchnorm", "margin": 0.01},
}


def test_a_setting_near_its_margin_gets_two_more_seeds_and_others_do_not(tmp_path, bank):
    def accuracy(key):
        if key.arm == "none":
            return 0.5
        best = 0.8 if key.setting == "d002" else 0.52 if key.seed == 0 else 0.5
        return best if key.lr == 0.3 else 0.4

    claim = claim_of(tmp_path, bank, **TWO_NORMS)
    known = Known(claim, None, MadeRuns(tmp_path / "runs", accuracy))
    assert missing_keys(claim, known) == []
    assert {name: known.seeds_in(cell) for name, cell in claim.cells.items()} == {
        "d001": range(4),
        "d002": range(2),
    }
    near, far = known("", claim.settings)
    np.testing.assert_allclose(near.outcomes["batchnorm", ""].values, [0.48, 0.5, 0.5, 0.5])
    assert len(far.outcomes["batchnorm", ""].values) == 2
    assert seeds_of(claim) == [[0, 4]]


def kept_grid(tmp_path, bank, names):
    """A ledger with the grid of these settings."""
    for name in names:
        made = MadeRuns(tmp_path / "runs", lambda key: 0.8 if key.arm == "none" else 0.5)
        keep_runs(tmp_path / "ledger" / "tiny", Known(setting_claim(bank, name), None, made))
    return StoredEvidence(tmp_path / "ledger")


def test_a_claim_trains_its_own_arms_in_finished_settings_alone_and_has_begun(tmp_path, bank, capsys):
    claim = claim_of(tmp_path, bank)
    stored = kept_grid(tmp_path, bank, ["d001"])
    missing = missing_keys(claim, Known(claim, stored, None))
    assert {(key.setting, key.arm) for key in missing} == {("d001", "few")}
    made = MadeRuns(tmp_path / "own", lambda key: 0.5, only=["d001"])
    assert missing_keys(claim, Known(claim, stored, made)) == []
    _, verdict = conclude(claim, Known(claim, stored, made), registries=[])
    why = "1 of 2 wait for the grid of bank=tiny, which is unfinished: "
    assert verdict["scope"].startswith(f"1 of 6 drawn settings are finished, {why}")
    assert verdict["scope"].endswith(f" evidence grid bank={bank.path}, unregistered")

    show_plan(
        [claim], Rounds([claim], tmp_path / "out", command="normexp verify claim={id}", evidence=stored)
    )
    said = capsys.readouterr().out
    assert said.count(why) == 1
    assert "at most 6 of 24 runs" in said
    everything = missing_keys(claim, Known(claim, None, None))  # evidence=none trains all of it
    assert {(key.setting, key.arm) for key in everything} == {
        (name, arm) for name in claim.cells for arm in claim.arms
    }


def test_a_setting_whose_pilots_found_another_length_waits_for_a_grid_of_its_own(tmp_path, bank, capsys):
    """Its name is that of the finished one."""
    stored = kept_grid(tmp_path, bank, ["d001"])
    pilots = [
        {**pilot, "updates": 7 * PILOT["updates"]} for pilot in pilot_of(bank, ["d001", "d002", "d003"])
    ]
    longer = load_bank(write(tmp_path, pilots=pilots))
    claim = claim_of(tmp_path, longer)
    assert Known(claim, stored, None).ready == []
    assert missing_keys(claim, Known(claim, stored, None)) == []
    assert main(["grid", f"bank={longer.path}", f"to={tmp_path}/ledger/tiny"]) == 2
    assert "has runs of another setting named d001; name a new folder" in capsys.readouterr().err


def test_arms_that_no_grid_trains_wait_for_none(tmp_path, bank):
    claim = claim_of(tmp_path, bank, arms={"few": ["norm=none", "batch_size=4"], "more": ["norm=none", "batch_size=5"]},
                     comparison={"kind": "different", "arm": "few", "baseline": "more", "margin": 0.01})  # fmt: skip
    assert len(Known(claim, StoredEvidence(tmp_path), None).ready) == 2


def test_a_claim_without_a_finished_setting_has_begun_too(tmp_path, bank):
    claim = claim_of(tmp_path, bank)
    out, asked = tmp_path / "out", {"command": "c {id}", "registries": []}
    own = Rounds([claim], out, evidence=StoredEvidence(tmp_path), **asked)
    own.run(Options(), Verdicts(out, **asked).verdict)
    verdict = json.loads((tmp_path / "out" / "Q1" / "verdict.json").read_text())
    assert (verdict["verdict"], verdict["n"], own.failed) == ("begun", 0, {})
    assert "0 of 6 drawn settings are finished, 2 of 2 wait" in paragraph(verdict)


@pytest.mark.integration
def test_a_claim_without_its_row_says_so_before_its_first_run(tmp_path, bank, capsys):
    claim = claim_of(tmp_path, bank)
    path = tmp_path / "registry.jsonl"

    def said() -> str:
        own = Rounds([claim], tmp_path / "out", command="normexp verify claim={id} evidence=there",
                     evidence=StoredEvidence(tmp_path / "ledger"), registries=[path])  # fmt: skip
        show_plan([claim], own)
        return capsys.readouterr().out

    def row(subject: str, protocol: str) -> None:
        register(path, subject=subject, protocol=protocol, reason="r", seeds=[[0, 4]], commit="")

    kept_grid(tmp_path, bank, ["d001", "d002"])
    row("another", "0" * 64)
    assert "registration" not in said()  # nobody registered this population
    row("bank tiny", "1" * 64)
    assert "Q1: no row of the registry, so its runs come before its registration" in said()
    assert "fix its protocol first: " in (found := said())
    assert found.rstrip().endswith(" claim=Q1 reason=...")
    row("Q1 tiny", digest(resolved_protocol(claim)))
    assert "registration" not in said()


def test_a_bank_that_is_half_trained_counts_its_finished_settings_and_gives_no_word(tmp_path, bank):
    known = Known(
        setting_claim(bank, "d001"),
        None,
        MadeRuns(tmp_path / "runs", lambda key: 0.8 if key.arm == "none" else 0.5),
    )
    keep_runs(tmp_path / "ledger" / "tiny", known)
    claim = claim_of(tmp_path, bank, **TWO_NORMS)
    _, verdict = conclude(claim, Known(claim, StoredEvidence(tmp_path / "ledger"), None), registries=[])
    assert (verdict["verdict"], verdict["n"]) == ("begun", 1)
    assert verdict["scope"] == "1 of 6 drawn settings are finished, unregistered"
