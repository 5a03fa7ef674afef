"""The bank: its file, its commands, and the way of its runs into the ledger and out of it into settings."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from normexp.claims.evidence.bank_runs import commands
from normexp.claims.evidence.bank_settings import bank_settings, norm_table
from normexp.claims.evidence.learning_curves import bank_curves, read_curves
from normexp.claims.evidence.ledger import read_examples, read_ledger, write_ledger
from normexp.claims.spec.bank import load_bank, load_cells
from normexp.runs import TestExamples, write_summary
from normexp.runs.metrics import HEADER
from normexp.runs.test_examples import write_test_examples

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
BANK = {"norms": list(NORMS), "seeds": SEEDS, "shared": ["trainer=cpu"], "cells": {"small": CELL}}


def bank_of(folder: Path, **changes):
    path = folder / "bank.yaml"
    path.write_text(yaml.safe_dump({**BANK, **changes}))
    return load_bank(path)


def make_runs(
    outputs: Path, rng: np.random.Generator
) -> dict[tuple[str, float, int], tuple[float, np.ndarray]]:
    """Finished runs on disk; returns the validation accuracy and the right answers of each."""
    found = {}
    for norm in NORMS:
        for lr in RATES:
            for seed in range(SEEDS):
                right = rng.random(EXAMPLES) < 0.8
                accuracy = float(rng.integers(1200, 1900)) / 2000
                found[norm, lr, seed] = accuracy, right
                name = f"{norm}-{lr}-{seed}"
                metrics = {
                    f"{split}/{key}": 0.5
                    for split in ("train", "val", "test")
                    for key in ("loss", "accuracy")
                }
                metrics |= {"val/accuracy": accuracy, "test/accuracy": float(right.mean())}
                folder = outputs / "bank" / "small" / "mlp" / name
                folder.mkdir(parents=True)
                write_test_examples(
                    folder, TestExamples(right, rng.random(EXAMPLES).astype(np.float32), "the test set")
                )
                rows = [f"{step},{step / 10},0.1,val/accuracy,{accuracy * step / 10}\n" for step in (5, 10)]
                (folder / "metrics.csv").write_text("".join([HEADER.decode(), *rows]))
                write_summary(folder, {
                    "status": "completed", "choices": {"norm": norm, "model": "mlp", "data": "mnist"}, "hash": name,
                    "metrics": metrics, "steps": 10, "seconds": 1.0,
                    "config": {"lr": lr, "seed": seed, "batch_size": 4, "max_epochs": 1, "max_steps": None,
                               "accuracies": [], "name": "bank/small", "outputs": str(outputs)},
                    "execution": {"mode": "replica"}, "finished": "2026-01-01T00:00:00+00:00", "sources": {"a": "1"},
                    "versions": {"torch": "2.15"}, "checkout": {"commit": "c" * 40, "dirty": False},
                    "command": "", "convergence": {}, "epochs": 1.0, "fingerprint": "", "parameters": 1,
                })  # fmt: skip
    return found


def read(folder: Path) -> tuple[pd.DataFrame, Path]:
    return read_ledger(folder / "ledger", ["small"]), folder / "ledger"


def test_settings_from_the_ledger_take_each_seed_at_its_own_best_rate(tmp_path):
    bank = bank_of(tmp_path)
    runs = make_runs(tmp_path / "outputs", np.random.default_rng(0))
    assert write_ledger(bank, tmp_path / "outputs", tmp_path / "ledger") == {"small": 30}
    (setting,) = bank_settings(bank, *read(tmp_path), {"bn": "batchnorm", "plain": "none"}, "error")
    for arm, norm in (("bn", "batchnorm"), ("plain", "none")):
        outcomes = setting.outcomes[arm, ""]
        for seed in range(SEEDS):  # slowly, from the runs as they were made
            best = max(RATES, key=lambda lr, s=seed, n=norm: runs[n, lr, s][0])
            wrong = ~runs[norm, best, seed][1]
            np.testing.assert_array_equal(outcomes.examples[seed], wrong)
            assert outcomes.values[seed] == pytest.approx(wrong.mean())
    assert (setting.design, setting.counts, setting.shared) == ("test set", True, "MNIST")


def test_sentences_about_a_rate_read_one_rate_in_every_arm(tmp_path):
    bank = bank_of(tmp_path)
    runs = make_runs(tmp_path / "outputs", np.random.default_rng(4))
    write_ledger(bank, tmp_path / "outputs", tmp_path / "ledger")
    arms = {"bn": "batchnorm", "plain": "none"}
    (lowest,) = bank_settings(bank, *read(tmp_path), arms, "error", rate="lowest")
    for arm, norm in arms.items():
        for seed in range(SEEDS):
            wrong = ~runs[norm, 0.01, seed][1]
            np.testing.assert_array_equal(lowest.outcomes[arm, ""].examples[seed], wrong)
    (highest,) = bank_settings(bank, *read(tmp_path), arms, "failed", rate="highest")
    assert highest.outcomes["bn", ""].runs == tuple(f"batchnorm-0.1-{seed}" for seed in range(SEEDS))
    assert (highest.design, highest.outcomes["bn", ""].failed.any()) == ("seeds", False)
    rates = [bank.cell("small").rate(which) for which in ("lowest", "middle", "highest")]
    assert rates == list(RATES)


def test_the_ledger_keeps_every_run_and_the_examples_of_chosen_ones_alone(tmp_path):
    bank = bank_of(tmp_path)
    make_runs(tmp_path / "outputs", np.random.default_rng(1))
    write_ledger(bank, tmp_path / "outputs", tmp_path / "ledger")
    rows = read_ledger(tmp_path / "ledger", ["small", "absent"])
    assert len(rows) == 30
    curves = read_curves(bank_curves(tmp_path / "ledger", "small"))
    assert curves.groupby(["norm", "lr", "seed"]).size().tolist() == [2] * 30
    assert set(rows["code"]) <= set(pd.read_json(tmp_path / "ledger" / "code.json", typ="series").index)
    of = read_examples(tmp_path / "ledger", "small")
    kept = [name for name in rows["hash"] if _has(of, name)]
    assert 10 < len(kept) < 30  # two norms, five seeds, chosen by error and by loss, and the lowest rate
    assert set(rows.loc[rows["lr"] == 0.01, "hash"]) <= set(kept)


def test_a_cell_that_is_not_finished_is_no_setting(tmp_path):
    bank = bank_of(tmp_path, seeds=SEEDS + 1)
    make_runs(tmp_path / "outputs", np.random.default_rng(2))
    write_ledger(bank, tmp_path / "outputs", tmp_path / "ledger")
    assert bank_settings(bank, *read(tmp_path), {"a": "none", "b": "batchnorm"}, "error") == []


def test_a_run_at_chance_has_failed_and_the_table_says_so(tmp_path):
    bank = bank_of(tmp_path, cells={"small": {**CELL, "facts": {**CELL["facts"], "chance": 0.99}}})
    make_runs(tmp_path / "outputs", np.random.default_rng(3))
    write_ledger(bank, tmp_path / "outputs", tmp_path / "ledger")
    table = norm_table(bank, *read(tmp_path))
    assert table["failed"].tolist() == [SEEDS, SEEDS]
    assert table["mean"].isna().all()


def test_commands_ask_for_each_run_once(tmp_path):
    bank = bank_of(tmp_path, cells={"small": CELL, "alone": {**CELL, "replicas": False}})
    together, alone = commands(bank, Path("outputs"), ["small", "alone"])
    assert {"replicas.seeds=5", "replicas.lr=[0.01,0.03,0.1]", "norm=none,batchnorm"} <= set(together)
    assert {"seed=range(0,5)", "lr=0.01,0.03,0.1", "name=bank/alone"} <= set(alone)
    assert bank.runs == 2 * 3 * 2 * 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": 0}, "seeds=0: must be a whole number of at least 1"),
        ({"norms": []}, r"norms=\[\]: must be a list of texts"),
        ({"cells": {"small": {**CELL, "rates": [0.1, 0.01, 1]}}}, r"small.rates=.*: must rise, each once"),
        (
            {"cells": {"small": {**CELL, "test": "fixed"}}},
            "small.test=fixed: choose from test set, cut again, blocks",
        ),
        (
            {"cells": {"small": {**CELL, "labels": {"data": "d"}}}},
            "small.labels=.*: must name data and model",
        ),
        (
            {"cells": {"small": {**CELL, "facts": {"chance": 0.1}}}},
            "small.facts.validation: is missing; add it",
        ),
        ({"cells": {"small": {**CELL, "typo": 1}}}, "small.typo: no such key; the keys are labels"),
    ],
)
def test_mistakes_in_the_file_are_one_line(tmp_path, change, message):
    with pytest.raises(ValueError, match=message) as error:
        bank_of(tmp_path, **change)
    assert "\n" not in str(error.value)


def test_an_unknown_cell_names_the_nearest(tmp_path):
    with pytest.raises(ValueError, match="cell=smal: no such cell; nearest: small"):
        bank_of(tmp_path).cell("smal")


def test_cells_of_the_committed_bank_compose_and_pin_what_decides():
    from normexp.config.compose import compose
    from normexp.config.run_spec import resolved

    for cell in load_cells(ROOT / "configs").values():
        cfg, choices = compose([*cell.overrides, "norm=none", f"lr={cell.rates[0]}"])
        config = resolved(cfg)
        named = {override.partition("=")[0] for override in cell.overrides}
        assert {
            "optimizer",
            "schedule",
            "recipe",
            "data",
            "model",
            "model.initialization",
            "batch_size",
        } <= named
        assert {"max_epochs", "max_steps"} & named
        assert choices["recipe"] == "plain", cell.name
        assert config["monitor"] == {}, cell.name


def _has(of, name: str) -> bool:
    try:
        return bool(of(name).right.size)
    except KeyError:
        return False
