"""The command: the user's words become a setting, predictions are registered, and misses are shown."""

import dataclasses
import json
import re

import pandas as pd
import pytest
import yaml
from made_settings import NORMS, made
from test_forecast import planted

import normexp.claims.evidence.measured as evidence
from normexp.advise.advice import at_edge, beside, labels_of_own
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.files import Length
from normexp.claims.spec.registry import read_registry
from normexp.cli.advise import main
from normexp.config.errors import one_line

TINY = {
    "seed": 3,
    "settings": 14,
    "choose": {"data": {"digits": ["data=digits"]}, "optimizer": {"SGD": ["optimizer=sgd"]}},
    "strata": {"mlp": {"share": 1, "choose": {"model": {"MLP": ["model=mlp"]}}}},
    "rates": {"SGD": [0.03, 0.1, 0.3]},
    "length": dict.fromkeys((name for name in Length.model_fields if name != "ngrams"), 1) | {"early": 8},
    "grid": {"norms": list(NORMS), "seeds": 2},
}
CELLS = {
    "shared": ["recipe=plain", "data=digits"],
    "grid": {"norms": list(NORMS), "seeds": 2},
    "cells": {
        "one": {"overrides": ["model=mlp", "batch_size=64", "max_steps=500"], "rates": [0.01, 0.1, 1.0]},
        "two": {"overrides": ["model=cnn", "batch_size=8", "max_steps=900"], "rates": [0.01, 0.1, 1.0]},
    },
}


@pytest.fixture
def bank(tmp_path, monkeypatch):
    """The words that name a bank of 14 settings."""
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY))
    settings = made(planted, n=14, noise=0.02)
    monkeypatch.setattr(evidence, "measured", lambda own, folder: settings if own.drawn else [])
    return f"bank={path}"


def test_the_words_of_train_become_a_setting():
    found = labels_of_own(["model=cnn", "data=digits", "model.depth=[1,2]", "batch_size=16", "max_epochs=3"])
    assert found == {
        "data": "digits", "model": "CNN", "optimizer": "AdamW", "activation": "ReLU", "initialization": "He",
        "depth": "3", "width": "16", "batch size": "16", "examples": "1149", "updates": str(3 * (1149 // 16)),
    }  # fmt: skip
    words = ["model=gpt", "data=python_docs", "data.train_size=20000", "max_steps=100", "optimizer=sgd"]
    found = labels_of_own(words)
    assert (found["place of the norm"], found["examples"], found["updates"]) == ("Pre-LN", "20000", "100")
    assert (found["data"], found["optimizer"]) == ("Python docs", "SGD")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["max_steps=-1"], "max_steps=-1: must be at least 0"),
        (["batch_size=0", "data=mnist", "max_steps=9"], "batch_size=0: must be at least 1"),
        (
            ["model=gpt", "data=mnist", "max_steps=9"],
            "model=gpt: reads text data, and data=mnist is image data",
        ),
        (["model.width=0"], "model.width=0: must be at least 1"),
        (
            ["batch_size=2,4"],
            "batch_size=2,4: several values make a sweep; add -m: .* train(.py)? -m batch_size=2,4",
        ),
    ],
)
def test_words_that_train_refuses_are_refused(words, message):
    with pytest.raises(Exception) as error:  # some are of Hydra's types  # noqa: PT011
        labels_of_own(words)
    assert re.match(message, one_line(error.value))


@pytest.mark.integration
def test_labels_of_a_drawn_setting_are_those_that_its_own_words_give():
    """So that the user's setting and a measured one are described alike."""
    for name, cell in list(load_bank("drawn").cells.items())[:6]:
        words = [*cell.overrides, "max_steps=100"]
        found = labels_of_own(words)
        shared = found.keys() & cell.labels.keys() - {"depth"}
        assert {key: found[key] for key in shared} == {key: cell.labels[key] for key in shared}, name
        assert {"data", "model", "batch size", "examples", "optimizer", "width"} <= shared


def test_advice_names_the_order_the_nearest_and_what_is_outside(bank, capsys):
    words = ["model=mlp", "data=digits", "batch_size=4096", "max_steps=1000", "data.train_size=1000"]
    assert main([bank, *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    norms = [line.split()[0] for line in lines[2:5]]
    assert sorted(norms) == sorted(NORMS)
    assert norms[0] == "batchnorm"
    assert re.fullmatch(r"  batchnorm  -\d+% \(-\d+% to -\d+%\)", lines[2])
    assert any(line.startswith("outside what was measured: data digits (measured: ") for line in lines)
    assert sum(re.match(r"  d0\d\d  (MLP|CNN), ", line) is not None for line in lines) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name your setting"),
        (["model=mlp", "norm=batchnorm"], "norm=batchnorm: every norm of the bank is compared"),
        (["settings=small", "--register"], "--register: needs settings=BANK, and reason="),
        (["bank=small", "model=mlp"], "bank=small: has no population"),
    ],
)
def test_mistakes_are_one_line(bank, capsys, words, message):
    assert main([bank, *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.integration
def test_predictions_are_registered_and_shown_beside_what_was_measured(bank, tmp_path, capsys):
    path, registry = tmp_path / "mine.yaml", tmp_path / "registry.jsonl"
    path.write_text(yaml.safe_dump(CELLS))
    words = [bank, f"settings={path}", f"registry={registry}"]
    assert main(words) == 0
    assert "mine, not registered:" in capsys.readouterr().out
    assert main([*words, "--register", "reason=before they are trained"]) == 0
    (row,) = read_registry(registry)
    assert (row.subject, row.seeds) == ("prediction of mine from tiny", [[0, 2]])
    (kept,) = (tmp_path / "protocols").iterdir()
    predicted = json.loads(kept.read_text())
    assert list(predicted["settings"]) == ["one", "two"]
    capsys.readouterr()
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "mine, registered in row 1:" in out
    assert out.count("not yet measured") == 4
    kept.write_text(kept.read_text().replace('"level": 0.8', '"level": 0.9'))
    assert main(words) == 2
    assert "is not what row 1 registered" in capsys.readouterr().err

    (found,) = made(lambda norm, labels, at: 0.2 if norm == "layernorm" else 0.05, n=1, lengths=("final",))
    table, told = beside(predicted, [dataclasses.replace(found, name="one")])
    assert "| one | layernorm | " in table
    (line,) = [line for line in table.splitlines() if line.startswith("| one | layernorm")]
    assert line.endswith("x4.0, a miss |")
    assert told.startswith(("0 of 2", "1 of 2"))


def test_a_best_rate_at_an_end_of_those_tried_is_said():
    (found,) = made(lambda norm, labels, at: 0.1, n=1, lengths=("final",))
    score = {"none": (0.9, 0.8, 0.7), "batchnorm": (0.8, 0.9, 0.7), "layernorm": (0.7, 0.8, 0.9)}
    rows = [
        {"norm": norm, "seed": 0, "lr": lr, "status": "completed", "val_accuracy": accuracy, "val_loss": 0.1}
        for norm, accuracies in score.items()
        for lr, accuracy in zip((0.01, 0.1, 1.0), accuracies, strict=True)
    ]
    found = dataclasses.replace(found, name="one", runs=pd.DataFrame(rows))
    assert at_edge(found, ["none", "batchnorm", "layernorm"]) == ["one layernorm (1)", "one none (0.01)"]
    assert at_edge(found, ["none", "batchnorm"]) == ["one none (0.01)"]


def test_the_page_has_the_coverage(bank, tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(CELLS))
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump(CELLS | {"cells": {"three": CELLS["cells"]["one"]}}))
    assert main([bank, f"settings={path},{other}", f"page={tmp_path / 'advise.md'}"]) == 0
    text = (tmp_path / "advise.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("Bank ")] == [
        "Bank `mine`.",
        "Bank `other`.",
    ]
    assert [text.count(f"| {name} | ") for name in ("one", "two", "three")] == [2, 2, 2]
    assert re.search(r"\| batchnorm \| \d+ of 14 \| a factor of 1\.\d\d either way \|", text)
    assert "These predictions are not registered yet" in text
    assert "From the 14 settings of bank `tiny`" in text


def test_only_norms_that_both_banks_have_are_predicted(bank, tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(CELLS | {"grid": {"norms": ["none", "layernorm", "dyt"], "seeds": 1}}))
    assert main([bank, f"settings={path}"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("| one", "| two"))]
    assert [row.split(" | ")[1] for row in rows] == ["layernorm", "layernorm"]
    path.write_text(yaml.safe_dump(CELLS | {"grid": {"norms": ["layernorm", "batchnorm"], "seeds": 1}}))
    assert main([bank, f"settings={path}"]) == 2
    assert "settings=mine: compares no norm with none" in capsys.readouterr().err


def test_the_number_of_standard_images_needs_no_files(tmp_path, monkeypatch):
    monkeypatch.setenv("NORMEXP_DATA", str(tmp_path))  # an empty folder
    for data, images in (("mnist", 60_000), ("cifar10", 50_000)):
        words = ["model=mlp", f"data={data}", "data.val_size=1234", "max_steps=10"]
        assert labels_of_own(words)["examples"] == str(images - 1234)
