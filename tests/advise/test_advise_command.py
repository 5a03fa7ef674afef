"""The command: the user's words become a setting, predictions are registered, and misses are shown."""

import re

import pytest
import yaml
from made_settings import NORMS, made
from test_forecast import planted

import normexp.advise.forecast as evidence
from normexp.advise.advice import labels_of_own
from normexp.advise.forecast import Forecast
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.population import Length
from normexp.cli.main import run
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
        (["data=mnist", "max_steps=0"], "max_steps=0: trains nothing"),
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


def test_advice_says_first_what_is_outside_then_the_order_and_measured_settings(bank, capsys):
    words = ["model=mlp", "data=digits", "batch_size=4096", "max_steps=1000", "data.train_size=1000"]
    assert run("advise", [bank, *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("outside of what was measured: data digits (measured: ")
    norms = [line.split()[0] for line in lines[3:6]]
    assert sorted(norms) == sorted(NORMS)
    assert norms[0] == "batchnorm"
    assert re.fullmatch(r"  batchnorm  -\d+%", lines[3])  # no interval outside
    assert any(re.match(r"  MLP on MNIST, 4,300 updates: none \d\.\d+%, batchnorm ", line) for line in lines)
    assert sum(re.match(r"  d0\d\d  (MLP|CNN), ", line) is not None for line in lines) == 4


def test_inside_of_what_was_measured_intervals_stand_and_a_useless_forecast_says_so(
    bank, capsys, monkeypatch
):
    words = ["model=mlp", "data=mnist", "data.val_size=1000", "batch_size=100", "max_steps=1000"]
    monkeypatch.setattr(Forecast, "outside", lambda self, labels: [])
    monkeypatch.setattr("normexp.advise.advice.SMALL", 0.0)
    assert run("advise", [bank, *words]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[1].startswith("inside of what was measured")
    assert re.search(r"  batchnorm  [-+]\d+% \([-+]\d+% to [-+]\d+%\)", text)
    assert "adds nothing" not in text
    monkeypatch.setattr("normexp.advise.advice.SMALL", 9.0)
    assert run("advise", [bank, *words]) == 0
    assert "this forecast adds nothing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name your setting"),
        (["model=mlp", "norm=batchnorm"], "norm=batchnorm: every norm of the bank is compared"),
        (["bank=small", "model=mlp"], "0 settings of it are finished"),
    ],
)
def test_mistakes_are_one_line(bank, capsys, words, message):
    own = [] if any(word.startswith("bank=") for word in words) else [bank]
    assert run("advise", [*own, *words]) == 2
    assert message in capsys.readouterr().err


def test_the_number_of_standard_images_needs_no_files(tmp_path, monkeypatch):
    monkeypatch.setenv("NORMEXP_DATA", str(tmp_path))  # an empty folder
    for data, images in (("mnist", 60_000), ("cifar10", 50_000)):
        words = ["model=mlp", f"data={data}", "data.val_size=1234", "max_steps=10"]
        assert labels_of_own(words)["examples"] == str(images - 1234)
    labels = labels_of_own(
        ["model=mlp", "data=mnist", "data.val_size=1234", "batch_size=100", "max_epochs=3"]
    )
    assert labels["updates"] == str(3 * 587)  # of 58,766 images the last 66 make no batch
