"""A bank: its file, what it leaves out, and the way of its runs into a ledger and out of it into settings."""

import dataclasses
import shutil
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from normexp.claims.evidence.curves import bank_curves, read_curves
from normexp.claims.evidence.disk_runs import complete
from normexp.claims.evidence.keep import export, grid_claim, keep_runs
from normexp.claims.evidence.measured import measured
from normexp.claims.evidence.plan import Known, missing_keys
from normexp.claims.evidence.stored import StoredEvidence
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.cell import BankCell
from normexp.cli.evidence import main
from normexp.runs import TestExamples
from normexp.runs.read import HEADER, write_test_examples

ROOT = Path(__file__).parents[2]
EXAMPLES, SEEDS, RATES, NORMS = 40, 5, (0.01, 0.03, 0.1), ("none", "batchnorm")
CELL = {
    "labels": {"data": "MNIST", "model": "MLP"},
    "overrides": ["optimizer=sgd", "data=mnist", "model=mlp"],
    "rates": list(RATES),
    "test": "test set",
    "replicas": True,
    "facts": {"validation": 2000, "chance": 0.1, "guess_loss": 2.3, "test_to_train": 2.0},
}
GRID = {"norms": list(NORMS), "seeds": SEEDS}
BANK = {"shared": ["trainer=cpu"], "grid": GRID, "cells": {"small": CELL}}


def bank_of(folder: Path, **changes):
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump({**BANK, **changes}))
    return load_bank(path)


class MadeRuns:
    """Finished runs of a grid: random numbers in place of training."""

    def __init__(self, outputs: Path, rng: np.random.Generator, fewer: int = 0, precision: str = "32-true"):
        self.precision = precision
        self.rows_of: dict[tuple, dict] = {}
        self.right: dict[tuple, np.ndarray] = {}
        self.new: set[Path] = set()
        for norm in NORMS:
            for lr in RATES:
                for seed in range(SEEDS - fewer):
                    right = rng.random(EXAMPLES) < 0.8
                    best = 0.1 if seed == 0 else 0.03  # more at an edge would ask for a wider grid
                    accuracy = float(rng.integers(1200, 1500) + 400 * (lr == best)) / 2000
                    folder = outputs / f"{norm}-{lr}-{seed}"
                    folder.mkdir(parents=True)
                    losses = rng.random(EXAMPLES).astype(np.float32)
                    write_test_examples(folder, TestExamples(right, losses, "the test set"))
                    logged = [
                        f"{step},{step / 10},0.1,val/accuracy,{accuracy * step / 10}\n" for step in (5, 10)
                    ]
                    (folder / "metrics.csv").write_text("".join([HEADER.decode(), *logged]))
                    self.right[norm, lr, seed] = right
                    self.rows_of["small", norm, "", seed, lr] = {
                        "cell": "small", "norm": norm, "level": "", "lr": lr, "seed": seed, "status": "completed",
                        "val_accuracy": accuracy, "val_loss": 0.5, "train_loss": 0.5,
                        "test_accuracy": float(right.mean()), "steps": 10, "seconds": 1.0, "replicas": 1,
                        "precision": self.precision,
                        "hash": f"{norm}-{lr}-{seed}", "finished": "2026-01-01T00:00:00+00:00", "commit": "c" * 40,
                        "dirty": False, "code": "", "folder": str(folder),
                        "value": 0.5, "check": None, "censored": False,
                    }  # fmt: skip

    def rows(self, keys) -> pd.DataFrame:
        found = [self.rows_of[tuple(key)] for key in keys if tuple(key) in self.rows_of]
        return pd.DataFrame(found) if found else pd.DataFrame({"cell": [], "lr": []})


def settings_of(bank, stored: StoredEvidence) -> list:
    """The settings of a bank's grid as the judge gets them."""
    claim = grid_claim(bank)
    return Known(claim, stored, None)("", claim.settings)


@pytest.fixture
def kept(tmp_path):
    """A ledger of made runs: its bank, the runs, and what reads it."""
    bank = bank_of(tmp_path)
    runs = MadeRuns(tmp_path / "outputs", np.random.default_rng(0))
    assert keep_runs(tmp_path / "ledger", Known(grid_claim(bank), None, runs)) == 30
    return bank, runs, StoredEvidence(tmp_path / "ledger")


def test_settings_from_the_ledger_take_each_seed_at_its_own_best_rate(kept):
    bank, runs, stored = kept
    (setting,) = settings_of(bank, stored)
    for norm in NORMS:
        outcomes = setting.outcomes[norm, ""]
        for seed in range(SEEDS):  # slowly, from the runs as they were made
            best = max(
                RATES, key=lambda lr, s=seed, n=norm: runs.rows_of["small", n, "", s, lr]["val_accuracy"]
            )
            assert outcomes.values[seed] == pytest.approx((~runs.right[norm, best, seed]).mean())
    assert (setting.measure, setting.answer, setting.guess) == ("error", 1 / EXAMPLES, 0.9)


@pytest.mark.parametrize("trained", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("asked", ["32-true", "bf16-mixed"])
def test_evidence_of_one_precision_is_none_of_another(tmp_path, trained, asked):
    """A cell of the same name that asks for another precision finds no run in the ledger."""
    shared = {"32-true": ["trainer=cpu"], "bf16-mixed": ["trainer=cpu", "trainer.precision=bf16-mixed"]}
    bank = bank_of(tmp_path, shared=shared[trained])
    runs = MadeRuns(tmp_path / "outputs", np.random.default_rng(0), precision=trained)
    keep_runs(tmp_path / "ledger", Known(grid_claim(bank), None, runs))
    claim = dataclasses.replace(grid_claim(bank_of(tmp_path, shared=shared[asked])), id="Q1")
    found = StoredEvidence(tmp_path / "ledger").rows(claim, claim.cells["small"])
    assert len(found) == (30 if asked == trained else 0)
    missing = missing_keys(claim, Known(claim, StoredEvidence(tmp_path / "ledger"), None))
    assert len(missing) == (0 if asked == trained else 30)
    as_arm = {"none": ["norm=none"], "half": ["norm=none", "trainer=bf16"]}
    claim = dataclasses.replace(claim, arms=as_arm)
    found = StoredEvidence(tmp_path / "ledger").rows(claim, claim.cells["small"])
    assert set(found["norm"]) == {"none"} if asked == trained else found.empty


def test_runs_of_another_setting_of_the_same_name_are_not_read_and_not_written_over(kept, tmp_path):
    """The bank of serious settings has a `shakespeare_gpt` five times as long as that of the small one."""
    _, runs, stored = kept
    longer = bank_of(tmp_path, cells={"small": {**CELL, "overrides": [*CELL["overrides"], "max_epochs=9"]}})
    claim = grid_claim(longer)
    assert stored.rows(claim, claim.cells["small"]).empty
    assert stored.grid_rows(longer.cells.values()).empty
    assert len(missing_keys(claim, Known(claim, stored, None))) == 30
    before = (tmp_path / "ledger" / "bank" / "small.csv").read_bytes()
    with pytest.raises(ValueError, match="has runs of another setting named small; name a new folder"):
        keep_runs(tmp_path / "ledger", Known(claim, None, runs))
    assert (tmp_path / "ledger" / "bank" / "small.csv").read_bytes() == before


def test_an_arm_that_was_edited_finds_none_of_its_old_runs(tmp_path):
    """Its rows have the claim, the cell and the arm by name; the arm may have been narrower then."""
    arms = {norm: [f"norm={norm}", "model.width=8"] for norm in NORMS}
    claim = dataclasses.replace(grid_claim(bank_of(tmp_path)), id="Q1", name="mine", arms=arms)
    runs, ledger = MadeRuns(tmp_path / "outputs", np.random.default_rng(0)), tmp_path / "ledger"
    keep_runs(ledger, Known(claim, None, runs))
    stored = StoredEvidence(ledger)
    assert len(stored.rows(claim, claim.cells["small"])) == 30
    first, *others = NORMS
    edited = dataclasses.replace(claim, arms=arms | {first: [f"norm={first}", "model.width=16"]})
    assert set(stored.rows(edited, claim.cells["small"])["norm"]) == set(others)
    missing = missing_keys(edited, Known(edited, stored, None))
    assert {key.arm for key in missing} == {first}
    assert len(missing) == 15
    renamed = dataclasses.replace(claim, factor={"model.depth": [""]})
    assert stored.own_rows(renamed).empty
    before = (ledger / "claims" / "Q1" / "runs.csv").read_bytes()
    with pytest.raises(ValueError, match=f"has runs of another arm named {first}; name a new folder"):
        keep_runs(ledger, Known(edited, None, runs))
    assert (ledger / "claims" / "Q1" / "runs.csv").read_bytes() == before


def test_runs_without_the_facts_of_their_setting_are_not_taken_for_failures(kept):
    """Of no answers on validation, every run would have had none right."""
    bank, _, stored = kept
    bare = dataclasses.replace(bank.cells["small"], validation=0)
    claim = dataclasses.replace(grid_claim(bank), cells={"small": bare})
    with pytest.raises(ValueError, match="setting=small: its facts are not known"):
        Known(claim, stored, None)("", claim.settings)


@pytest.mark.parametrize(("rate", "lr"), [("lowest", 0.01), ("middle", 0.03), ("highest", 0.1)])
def test_sentences_about_a_rate_read_one_rate_in_every_arm(kept, rate, lr):
    bank, runs, stored = kept
    arms = {"bn": ["norm=batchnorm"], "plain": ["norm=none"]}
    metric = "test/error" if rate == "lowest" else "failed"  # of other rates, chosen examples alone are kept
    claim = dataclasses.replace(grid_claim(bank), id="Q1", arms=arms, rate=rate, metric=metric)
    known = Known(claim, stored, None)
    (setting,) = known("", claim.settings)
    assert known.read_runs()["run"].tolist() == [
        f"{norm}-{lr}-{seed}" for norm in ("batchnorm", "none") for seed in range(SEEDS)
    ]
    assert not setting.outcomes["plain", ""].failed.any()
    if rate == "lowest":
        wrong = [(~runs.right["none", lr, seed]).mean() for seed in range(SEEDS)]
        assert setting.outcomes["plain", ""].values == pytest.approx(wrong)


def test_the_ledger_keeps_every_run_and_the_examples_of_chosen_ones_alone(kept, tmp_path):
    bank, _, stored = kept
    absent = dataclasses.replace(bank.cells["small"], name="absent")
    rows = stored.grid_rows([*bank.cells.values(), absent])
    assert len(rows) == 30
    curves = read_curves(bank_curves(tmp_path / "ledger" / "bank", "small"))
    assert curves.groupby(["norm", "lr", "seed"]).size().tolist() == [2] * 30
    of = stored.examples_in("bank/small")
    found = [name for name in rows["hash"] if of(name) is not None]
    assert 10 < len(found) < 30  # two norms, five seeds, chosen by error and by loss, and the lowest rate
    assert set(rows.loc[rows["lr"] == 0.01, "hash"]) <= set(found)


def test_losses_lie_in_the_second_archive_and_no_word_needs_them(kept, tmp_path):
    bank, _, stored = kept
    (tmp_path / "ledger" / "bank" / "small.losses.npz").unlink()
    assert stored.check() == []
    assert settings_of(bank, stored)


def test_the_second_archive_makes_of_a_wheels_ledger_the_whole_one(kept, tmp_path):
    """A wheel has what the patterns of pyproject.toml leave; `normexp evidence export` writes the rest."""
    whole = tmp_path / "ledger"
    files = {path.relative_to(whole).as_posix(): path.read_bytes() for path in StoredEvidence(whole).files()}
    excluded = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    first = tmp_path / "wheel"
    shutil.copytree(whole, first, ignore=shutil.ignore_patterns(*excluded["exclude"]))
    absent = files.keys() - {path.relative_to(first).as_posix() for path in StoredEvidence(first).files()}
    assert export(whole, tmp_path / "second.zip") == len(absent) == 2
    assert StoredEvidence(first).check() == []
    with zipfile.ZipFile(tmp_path / "second.zip") as second:
        assert set(second.namelist()) == absent
        second.extractall(first)
    assert {
        path.relative_to(first).as_posix(): path.read_bytes() for path in StoredEvidence(first).files()
    } == files


def test_keep_names_its_ledger(capsys):
    """Without it, the installed package would be written to."""
    assert main(["keep", "claim=bank"]) == 2
    assert "keep: to=: is missing; name a ledger to write" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["to=ledger", "settings=3"])
def test_a_grid_of_cells_takes_no_word_that_it_would_not_follow(tmp_path, given, capsys):
    bank_of(tmp_path)
    assert main(["grid", f"bank={tmp_path}/own.yaml", given]) == 2
    assert "are for drawn banks; own trains whole. When it is finished:" in capsys.readouterr().err


def test_a_grid_that_is_not_finished_is_not_kept(tmp_path):
    bank = bank_of(tmp_path)
    known = Known(grid_claim(bank), None, MadeRuns(tmp_path / "outputs", np.random.default_rng(2), fewer=1))
    assert len(missing_keys(known.claim, known)) == 6
    with pytest.raises(ValueError, match="6 runs are missing; train them first: normexp evidence grid"):
        keep_runs(tmp_path / "ledger", known)
    assert not (tmp_path / "ledger").exists()


def test_finished_settings_of_a_grid_are_kept_and_shown_before_the_others(tmp_path):
    two = bank_of(
        tmp_path, cells={"small": CELL, "later": {**CELL, "overrides": [*CELL["overrides"], "lr=1"]}}
    )
    known = Known(grid_claim(two), None, MadeRuns(tmp_path / "outputs", np.random.default_rng(3)))
    assert keep_runs(tmp_path / "ledger", known) == 30
    assert [point.name for point in measured(two, tmp_path / "ledger")] == ["small"]


def flip(path: Path) -> None:
    content = np.load(path)
    np.savez_compressed(path, **{**content, "right": ~content["right"]})


def edit(path: Path, change) -> None:
    table = pd.read_csv(path)
    change(table).to_csv(path, index=False)


ATTACKS = {
    "flipped bits": ("bank/small.npz", flip),
    "another accuracy": ("bank/small.csv", lambda p: edit(p, lambda t: t.assign(test_accuracy=0.99))),
    "a doubled row": ("bank/small.csv", lambda p: edit(p, lambda t: pd.concat([t, t.iloc[:1]]))),
    "a deleted row": ("bank/small.csv", lambda p: edit(p, lambda t: t.iloc[1:])),
    "negative seconds": ("bank/small.csv", lambda p: edit(p, lambda t: t.assign(seconds=-1e9))),
    "a cut file": ("bank/small.npz", lambda p: p.write_bytes(p.read_bytes()[:100])),
    "a missing file": ("bank/small.npz", lambda p: p.unlink()),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_ledger_that_was_changed_is_named(kept, name, tmp_path):
    bank, _, _ = kept
    place, attack = ATTACKS[name]
    attack(tmp_path / "ledger" / place)
    stored = StoredEvidence(tmp_path / "ledger")
    assert any(place in line for line in stored.check())
    with pytest.raises(ValueError, match=rf"{place}: is (missing, and|not the file of) manifest\.json"):
        settings_of(bank, stored)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("flipped bits", "says an accuracy on test of"),
        ("another accuracy", "says an accuracy on test of"),
        ("a doubled row", "1 runs stand there twice"),
        ("negative seconds", "seconds=-1e"),
    ],
)
def test_a_ledger_is_checked_against_itself_even_where_its_manifest_was_changed_too(
    kept, name, message, tmp_path
):
    place, attack = ATTACKS[name]
    attack(tmp_path / "ledger" / place)
    (tmp_path / "ledger" / "manifest.json").unlink()
    assert any(message in line for line in StoredEvidence(tmp_path / "ledger").check())


def facts(**changes):
    return {"cells": {"small": {**CELL, "facts": {**CELL["facts"], **changes}}}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": {**GRID, "seeds": 0}}, "grid.seeds=0: must be a whole number of at least 1"),
        ({"grid": {**GRID, "norms": []}}, r"grid.norms=\[\]: must be a list of norms"),
        ({"grid": {**GRID, "cells": ["large"]}}, "grid.cells=large: is no cell"),
        ({"cells": {"small": {**CELL, "rates": [0.1, 0.01, 1]}}}, r"small.rates=.*: must rise, each once"),
        (
            {"cells": {"small": {**CELL, "test": "fixed"}}},
            "small.test=fixed: must be test set, cut again or blocks",
        ),
        (
            {"cells": {"small": {**CELL, "labels": {"data": "d"}}}},
            "must name data and model",
        ),
        ({"cells": {"small": ["model=mlp"]}}, "small.overrides: must name data and model"),
        (
            {"cells": {"small": {**CELL, "facts": {"chance": 0.1}}}},
            "small.facts.validation: is missing; add it",
        ),
        ({"cells": {"small": {**CELL, "typo": 1}}}, "small.typo: no such key; the keys are overrides"),
        (facts(chance=5), "small.facts.chance=5: must be a share below 1"),
        (facts(chance=1), "small.facts.chance=1: must be a share below 1"),
        (facts(validation=0.5), "small.facts.validation=0.5: must be a whole number of at least 1"),
        (
            {"cells": {"small": CELL, "again": {**CELL, "rates": [1, 2, 3]}}},
            "cells.small.overrides: are those of again|cells.again.overrides: are those of small",
        ),
    ],
)
def test_mistakes_in_the_file_are_one_line(tmp_path, change, message):
    with pytest.raises(ValueError, match=message) as error:
        bank_of(tmp_path, **change)
    assert "\n" not in str(error.value)


def test_what_a_cell_leaves_out_is_found_in_configuration_and_data():
    """As the cell of the project says it: 29 of 288 images are of the most frequent digit."""
    words = ("data=digits", "data.split_seed=${seed}", "model=mlp", "recipe=plain", "lr=0.2")
    found = complete(BankCell(name="mine", overrides=words))
    assert found.rates == (0.02, 0.06, 0.2, 0.6, 2.0)
    known = load_bank().cells["digits_mlp"]
    assert (found.test, found.validation) == (known.test, known.validation)
    assert found.chance == pytest.approx(known.chance, abs=5e-5)
    assert found.guess_loss == pytest.approx(known.guess_loss, abs=1e-3)
    assert found.test_to_train == pytest.approx(known.test_to_train, abs=5e-5)
    assert complete(BankCell(name="mine", overrides=("data=digits", "model=mlp"))).test == "test set"


@pytest.mark.integration
def test_cells_of_the_committed_bank_compose_and_pin_what_decides():
    from normexp.config.compose import compose
    from normexp.config.run_spec import resolved

    for cell in load_bank().cells.values():
        assert cell.is_complete, cell.name
        cfg, choices = compose([*cell.overrides, "norm=none", f"lr={cell.rates[0]}"])
        config = resolved(cfg)
        named = {override.partition("=")[0] for override in cell.overrides}
        decide = {"optimizer", "schedule", "recipe", "data", "model", "model.initialization", "batch_size"}
        assert decide <= named
        assert {"max_epochs", "max_steps"} & named
        assert choices["recipe"] == "plain", cell.name
        assert config["monitor"] == {}, cell.name
