"""A bank: its file, what it leaves out, and the way of its runs into a ledger and out of it into settings."""

from pathlib import Path

import pytest
import yaml
from refusals import refused

from normexp.claims.evidence.disk import complete
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.cell import BankCell
from normexp.config.compose import compose
from normexp.config.run_spec import resolved

ROOT = Path(__file__).parents[2]
CELL = {
    "labels": {"data": "MNIST", "model": "MLP"}, "overrides": ["optimizer=sgd", "data=mnist", "model=mlp"],
    "rates": [0.01, 0.03, 0.1], "test": "test set", "facts": {"validation": 2000, "chance": 0.1, "guess_loss": 2.3},
}  # fmt: skip
BANK = {"shared": ["trainer=cpu"], "cells": {"small": CELL}}


def test_the_settings_that_have_learned_are_those_that_were_registered():
    plan = yaml.safe_load((ROOT / "docs/studies/two_questions/learned.yaml").read_text())
    found = {name: [[*cell.overrides], [*cell.rates]] for name, cell in load_bank("learned").cells.items()}
    assert found == {
        name: [plan["shared"] + cell["overrides"], cell["rates"]] for name, cell in plan["cells"].items()
    }


def changed(**changes):
    return {"cells": {"small": CELL | changes}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(rates=[0.1, 0.01, 1]), "rates=.*: must be three or more that rise"),
        (changed(test="fixed"), "small.test='fixed': choose from test set, cut again, bl"),
        (changed(labels={"data": "d"}), "must name data and model"),
        ({"cells": {"small": ["model=mlp"]}}, "small.overrides: must name data and model"),
        (changed(typo=1), "small.typo: no such key; the keys are: overrides"),
        (changed(facts=CELL["facts"] | {"chance": 1}), "small.chance=1: must be below 1"),
        (changed(facts=CELL["facts"] | {"validation": 0.5}), "small.validation=0.5: must be a whole number"),
    ],
)
def test_mistakes_in_the_file_are_one_line(tmp_path, change, message):
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(BANK | change))
    with refused(message):
        load_bank(tmp_path / "own.yaml")


def test_what_a_cell_leaves_out_is_found_in_configuration_and_data():
    """As the cell of the project says it: 29 of 288 images are of the most frequent digit."""
    words = ("data=digits", "data.split_seed=${seed}", "model=mlp", "recipe=plain", "lr=0.2")
    found = complete(BankCell(name="mine", overrides=words))
    assert found.rates == (0.02, 0.06, 0.2, 0.6, 2.0)
    known = load_bank().cells["digits_mlp"]
    assert (found.test, found.validation) == (known.test, known.validation)
    assert found.chance == pytest.approx(known.chance, abs=5e-5)
    assert found.guess_loss == pytest.approx(known.guess_loss, abs=1e-3)
    assert complete(BankCell(name="mine", overrides=("data=digits", "model=mlp"))).test == "test set"


@pytest.mark.integration
def test_cells_of_the_committed_bank_compose_and_pin_what_decides():
    for cell in load_bank().cells.values():
        assert cell.is_complete, cell.name
        cfg, choices = compose([*cell.overrides, "norm=none", f"lr={cell.rates[0]}"])
        assert (choices["recipe"], resolved(cfg)["monitor"]) == ("plain", {}), cell.name
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
