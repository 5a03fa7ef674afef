"""The command: the user's words become a setting, and what was measured near it is shown with its numbers."""

import itertools
import math
import re
from pathlib import Path

import pytest
import yaml
from made_settings import NORMS, made

import normexp.advise.nearest as evidence
from normexp.advise.advice import answers, labels_of_own
from normexp.advise.nearest import nearest, outside
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.population import Length
from normexp.cli.compare import advise
from normexp.cli.main import run
from normexp.config.errors import one_line

TINY = {
    "seed": 3, "settings": 14, "rates": {"SGD": [0.03, 0.1, 0.3]}, "grid": {"norms": list(NORMS), "seeds": 2},
    "choose": {"data": {"digits": ["data=digits"]}, "optimizer": {"SGD": ["optimizer=sgd"]}},
    "strata": {"mlp": {"share": 1, "choose": {"model": {"MLP": ["model=mlp"]}}}},
    "length": dict.fromkeys((name for name in Length.model_fields if name != "ngrams"), 1) | {"early": 8},
}  # fmt: skip


def planted(norm: str, labels: dict, at: str) -> float:
    return {"none": 0.05, "batchnorm": 0.04, "layernorm": 0.06}[norm]


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
        ("max_steps=-1", "max_steps=-1: must be at least 0"),
        ("batch_size=0 data=mnist max_steps=9", "batch_size=0: must be at least 1"),
        ("model=gpt data=mnist max_steps=9", "model=gpt: reads text data, and data=mnist is image data"),
        ("model.width=0", "model.width=0: must be at least 1"),
        ("data=mnist max_steps=0", "max_steps=0: trains nothing"),
        ("batch_size=2,4", "batch_size=2,4: several values make a sweep; add -m: .* train(.py)? -m batch_size=2,4"),
    ],
)  # fmt: skip
def test_words_that_train_refuses_are_refused_before_the_evidence_is_read(words, message, monkeypatch):
    monkeypatch.setattr("normexp.advise.nearest.measured", lambda *_: pytest.fail("the evidence was read"))
    with pytest.raises(Exception) as error:  # some are of Hydra's types  # noqa: PT011
        advise(*words.split())
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


def test_advice_says_what_is_outside_and_shows_measured_settings_alone(bank, capsys):
    words = ["model=mlp", "data=digits", "batch_size=4096", "max_steps=1000", "data.train_size=1000"]
    assert run("advise", [bank, *words]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[1].startswith("outside of what was measured: data digits (measured: ")
    rows = [line for line in lines if re.match(r"  d0\d\d  distance", line)]
    assert len(rows) == 4
    assert all("none 5." in row or "none 4." in row for row in rows)
    assert any(re.match(r"  MLP on MNIST, 4,300 updates: none \d\.\d+%, batchnorm ", line) for line in lines)
    assert not re.search(r"[-+]\d+%", text)  # no forecast
    after = lines[lines.index("findings and answers that cover this setting:") + 1]
    assert after == "  none"


def test_small_batches_are_answered_by_what_was_found_there(bank, capsys):
    words = ["model=mlp", "data=mnist", "data.val_size=1000", "batch_size=4", "max_steps=900"]
    assert run("advise", [bank, *words]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "33 points against LayerNorm at batch size 2 and 3.2 at 4." in text
    assert "35 of 48" not in text


def test_nearest_is_a_slow_sum_over_labels():
    settings = made(planted, n=30)
    for own in settings[:6]:
        here = own.labels | {"batch size": "77", "activation": "GELU"}
        slow = {}
        for point in settings:
            there, total = point.labels, 0.0
            for key in here:
                if here[key].isdecimal():
                    total += abs(math.log2(int(there[key])) - math.log2(int(here[key])))
                elif here[key] != there[key]:
                    total += 2
            slow[point.name] = (there["model"] != here["model"], total)
        found = nearest(settings, here, 30)
        assert [point.name for _, point in found] == sorted(slow, key=slow.__getitem__)
        assert [distance for distance, _ in found] == pytest.approx(
            [slow[point.name][1] for _, point in found]
        )


def test_outside_names_each_label_beyond_the_settings_of_its_kind():
    settings = made(planted, n=30)
    mlps = [point.labels for point in settings if point.labels["model"] == "MLP"]
    most = max(int(row["depth"]) for row in mlps)
    own = mlps[0] | {"depth": str(most + 1), "activation": "GELU"}
    assert [reason.split()[0] for reason in outside(settings, own)] == ["activation", "depth"]
    assert outside(settings, mlps[0]) == []


def test_every_sentence_stands_in_its_page_and_covers_only_its_settings():
    root = Path(__file__).parents[2]
    rows = yaml.safe_load((root / "normexp" / "advise" / "answers.yaml").read_text())
    for row in rows:
        page = " ".join((root / row["page"]).read_text().split())
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|\*\*", r"\1", page)
        assert " ".join(row["says"].split()) in plain, row["says"]
    models, data, sizes = ("MLP", "CNN", "GPT"), ("MNIST", "digits"), (1, 2, 4, 8, 16, 256, 512)
    for model, name, size in itertools.product(models, data, sizes):
        own = {"model": model, "data": name, "batch size": str(size), "updates": "1000"}
        for row in answers(own):
            assert row in rows
            for key, asked in row["covers"].items():
                assert asked[0] <= int(own[key]) <= asked[1] if own[key].isdecimal() else own[key] in asked


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name your setting"), (["bank=small", "model=mlp"], "no setting of it is finished"),
        (["model=mlp", "norm=batchnorm"], "norm=batchnorm: every norm of the bank is compared"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(bank, capsys, words, message):
    assert run("advise", words if "bank=small" in words else [bank, *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("data", "images"), [("mnist", 60_000), ("cifar10", 50_000)])
def test_the_number_of_standard_images_needs_no_files(data, images, tmp_path, monkeypatch):
    monkeypatch.setenv("NORMEXP_DATA", str(tmp_path))  # an empty folder
    words = ["model=mlp", f"data={data}", "data.val_size=1234", "batch_size=100", "max_epochs=3"]
    labels = labels_of_own(words)
    assert labels["examples"] == str(images - 1234)
    assert labels["updates"] == str(3 * ((images - 1234) // 100))  # the last 66 make no batch


@pytest.mark.parametrize(
    ("words", "said"),
    [("lr=0.5 ++model.depth=2 optimizer.weight_decay=0", "not compared: lr=0.5, optimizer.weight_decay=0\n"),
     ("batch_size=32", "")],
)  # fmt: skip
def test_words_that_nothing_is_compared_by_are_named(bank, capsys, words, said):
    assert run("advise", [bank, "model=mlp", "data=digits", *words.split()]) == 0
    told = capsys.readouterr().out
    assert said in told
    assert ("not compared" in told) == bool(said)
