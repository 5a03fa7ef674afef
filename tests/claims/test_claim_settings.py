"""A claim over several settings: what its yaml may say, one line for each mistake, and which protocol it is."""

import dataclasses
import hashlib
import json
import re
from pathlib import Path

import pytest
from committed import CLAIMS, FILES

from normexp.claims.judge.comparison import Comparison
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.cell import labels_of
from normexp.claims.spec.claim_files import read_claim

ROOT = Path(__file__).parents[2]
CELLS = {
    "digits_mlp": "[model=mlp, data=digits]",
    "digits_cnn": "[model=cnn, data=digits]",
    "mnist_mlp": "[model=mlp, data=mnist]",
    "mnist_cnn": "[model=cnn, data=mnist, batch_size=4]",
}
REST = (
    "labels: {data: d, model: m}, rates: [0.01, 0.03, 0.1], test: test set, replicas: false, "
    "facts: {validation: 10, chance: 0.1, guess_loss: 2.3, test_to_train: 0.3}"
)
BANK = "grid: {norms: [none], seeds: 5}\ncells:\n" + "".join(
    f"  {name}: {{overrides: {overrides}, {REST}}}\n" for name, overrides in CELLS.items()
)
GOOD = """name: n
sentence: s
source: s
covers: [X91]
evidence: training
metric: test/error
measure: m
arms: {a: [norm=none], b: [norm=rmsnorm]}
seeds: 20
kind: paraphrase
settings: [digits_mlp, digits_cnn, mnist_mlp, mnist_cnn, {tanh: [model=mlp, data=digits, model.activation=tanh],
  deep: [model=mlp, data=digits, model.depth=12]}]
paper_effect: {value: 10.6 points, where: table 2, size: 'ResNet-50, 1.28M images', effect: 0.4}
manipulation: {metric: logged/shift, measure: shift, comparison: {kind: smaller, arm: a, baseline: b, log: true}}
comparison: {kind: smaller, arm: a, baseline: b, log: true, margin: 0.1}
"""  # fmt: skip


def read(text: str, folder: Path, bank: str = BANK):
    (folder / "cells.yaml").write_text(bank)
    path = folder / "X91.yaml"
    path.write_text(text)
    return read_claim(path, load_bank(folder / "cells.yaml"))


def test_a_claim_over_settings_reads_cells_of_the_bank_and_its_own(tmp_path):
    claim = read(GOOD, tmp_path)
    assert list(claim.settings) == ["digits_mlp", "digits_cnn", "mnist_mlp", "mnist_cnn", "tanh", "deep"]
    assert claim.settings["mnist_cnn"] == ["model=cnn", "data=mnist", "batch_size=4"]
    assert (claim.kind, claim.drawn) == ("paraphrase", False)
    assert claim.paper_effect["effect"] == 0.4
    assert claim.manipulation.comparison == Comparison(kind="smaller", arm="a", baseline="b", log=True)
    assert claim.values == 2 * 20 * 6
    assert claim.cells["mnist_cnn"].rates == (0.01, 0.03, 0.1)
    assert claim.cells["tanh"].labels["activation"] == "tanh"


def test_labels_are_what_a_scope_says():
    assert labels_of(["model=cnn", "data=cifar10_jpeg", "lr=1"]) == {"data": "CIFAR-10", "model": "CNN"}
    assert labels_of(["model=mlp", "model=gpt", "data=mine"]) == {"data": "mine", "model": "GPT"}
    assert labels_of(["model.depth=3"]) == {}
    assert labels_of(["model=mlp", "model.activation=relu", "model.initialization=he"]) == {
        "model": "MLP", "activation": "ReLU", "initialization": "He",
    }  # fmt: skip


def line(key: str, text: str, of: str = GOOD) -> str:
    """The file with another line, or lines, for a key."""
    found, changed = re.subn(rf"^{key}:.*\n(  .*\n)*", text and f"{text}\n", of, flags=re.M)
    return found if changed else f"{of}{text}\n"


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("kind", "kind: own", "kind=own: must be verbatim, paraphrase, ours, arithmetic or self-check"),
        ("settings", "settings: digits_mlp", "settings=digits_mlp: must be names of cells"),
        ("settings", "settings: [mnist]", r"settings: mnist is no cell of bank=cells \(its cells are digits_mlp"),
        ("settings", "settings: [digits_mlp, {digits_mlp: [model=mlp]}]", "settings: digits_mlp stands there twice"),
        ("failed", "failed: guess", "failed: a failed run counts as a guess"),
        ("contrast", "contrast: {varies: x}", "contrast: a word depends on nothing now"),
        ("metric", "metric: test/accuracy", "metric=test/accuracy: .* which errors know; give test/error"),
        ("comparison", "comparison: {kind: every, at_most: 1, log: true}", "kind=every: gives no number a setting"),
        (
            "comparison",
            "comparison: {kind: smaller, arm: a, baseline: b, log: true, margin: practical}",
            "margin=practical: is for the difference of two arms in points of error or in nats",
        ),
        ("evidence", "evidence: law\nfunction: a.b", "manipulation: needs function, as evidence=law has"),
        ("paper_effect", "paper_effect: {value: 3}", "paper_effect.value=3: must be text"),
        ("manipulation", "manipulation: {measure: m, comparison: {kind: flat, arm: a}}", "kind=flat: needs a margin"),
        ("manipulation", "manipulation: {measure: m, comparison: {kind: flat, arm: a, margin: 1}}", "manipulation: "),
        (
            "manipulation",
            "manipulation: {metric: x, measure: m, comparison: {kind: smaller, arm: c, baseline: b}}",
            "arm=c: is not among the arms",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(key, text, message, tmp_path):
    if not message:
        read(line(key, text), tmp_path)
        return
    with pytest.raises(ValueError, match=rf"X91\.yaml: {message}") as error:
        read(line(key, text), tmp_path)
    assert "\n" not in str(error.value)


def test_a_practical_margin_is_of_errors_or_losses_on_test(tmp_path):
    text = GOOD.replace("log: true, margin: 0.1", "margin: practical")
    assert read(text, tmp_path).comparisons[0].margin == "practical"
    message = "margin=practical: metric=train/loss: is for test/error and test/loss over settings"
    with pytest.raises(ValueError, match=rf"X91\.yaml: {message}"):
        read(text.replace("metric: test/error", "metric: train/loss"), tmp_path)


def test_a_bank_that_is_missing_or_broken_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"cells.yaml: cells: is missing; add it"):
        read(GOOD, tmp_path, "grid: {}")
    with pytest.raises(ValueError, match=r"absent.yaml: no such file; name a yaml with cells"):
        load_bank("absent.yaml")
    with pytest.raises(
        ValueError,
        match=r"bank=huge: no such bank; choose from drawn, gpu, .*small, texts, or name a file",
    ):
        load_bank("huge")


def settings(of: str, folder: Path, bank: str = BANK) -> dict:
    return read(line("settings", f"settings: {of}"), folder, bank).settings


def test_cells_are_filtered_by_labels_or_brought_along_and_shipped_ones_are_known_to_all(tmp_path):
    cells = "cells:\n" + "".join(
        f"  {data}_{model}: [data={data}, model={model}]\n"
        for data in ("mnist", "digits")
        for model in ("mlp", "cnn", "resnet", "transformer", "vit", "net")
    )
    assert len(settings("{data: MNIST}", tmp_path, cells)) == 6
    assert len(settings("{data: [MNIST, digits]}", tmp_path, cells)) == 12
    assert len(settings("{model: [MLP, CNN, ResNet]}", tmp_path, cells)) == 6
    with pytest.raises(ValueError, match=r"no cell of bank=cells has these; it has .*'model: MLP'"):
        settings("{model: GPT}", tmp_path, cells)
    shipped = "[small_digits, small_mnist, digits_mlp, mnist_mlp, mnist_cnn, full_mnist_mlp]"
    assert settings(shipped, tmp_path, cells)["small_mnist"][-1] == "max_epochs=3"
    own = ", ".join(f"c{n}: [data=d{n % 2}, model=m{n}]" for n in range(6))
    assert list(settings(f"{{{own}}}", tmp_path, cells)) == [f"c{n}" for n in range(6)]


def test_another_bank_of_the_project_takes_the_place_of_settings_that_it_lacks():
    claim = read_claim(FILES["P10"], load_bank("gpu"), "P10")
    assert set(claim.settings) == set(load_bank("gpu").cells)
    assert (claim.budget, CLAIMS["P10"].budget, CLAIMS["P10a"].budget) == ("gpu", "drawn", "quick")
    assert claim.first == 0  # a list that somebody chose
    law = read_claim(FILES["S01"], load_bank("gpu"), "S01")
    assert law.protocol == CLAIMS["S01"].protocol


def test_the_protocol_is_all_that_decides_and_nothing_else(tmp_path):
    claim = read(GOOD, tmp_path)
    same = [("kind", "kind: ours"), ("paper_effect", ""), ("sentence", "sentence: t")]
    other = [
        ("manipulation", ""),
    ]  # fmt: skip
    for key, text in same:
        assert read(line(key, text), tmp_path).protocol == claim.protocol, key
    for key, text in other:
        assert read(line(key, text), tmp_path).protocol != claim.protocol, key
    assert read(GOOD.replace("depth=12", "depth=11"), tmp_path).protocol != claim.protocol
    assert read(GOOD, tmp_path, BANK.replace("batch_size=4", "batch_size=2")).protocol != claim.protocol


def test_a_claim_of_one_setting_keeps_the_protocol_that_it_had():
    """The formula of before there were settings, written out again."""
    for claim in CLAIMS.values():
        if claim.settings or claim.manipulation or claim.search:
            continue
        names = ["function", "metric", "arms", "fixed", "options", "factor", "seeds", "better", "tune"]
        kept = {name: getattr(claim, name) for name in names} | {
            "comparisons": [c.shown() for c in claim.comparisons]
        }
        kept |= {"first_seed": claim.first_seed} if claim.first_seed else {}
        digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]
        assert claim.protocol == digest, claim.id
        assert dataclasses.replace(claim, kind="ours").protocol == digest
