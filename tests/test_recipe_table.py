"""The page of recipes: what it trains, what it calls the tuned best, and that docs/recipes.md is made from its file.
The table of `recipe=fast` there is a measurement: tests/test_benchmarks.py."""

import json

import documentation
import pytest
from doc_tables import DOCS, filled

from normexp.config.compose import compose

ROWS = json.loads(documentation.RUNS.read_text())


def row(norm="none", lr=0.001, val=(0.9,) * 5, test=(0.8,) * 5, recipe=False, model="mlp") -> dict:
    return {"model": model, "norm": norm, "lr": lr, "recipe": recipe, "val": list(val), "test": list(test)}


@pytest.mark.integration
def test_rows_hold_what_the_runs_recorded(train, tmp_path):
    small = ["data.train_size=128", "norm=layernorm", "recipe=mlp", "max_epochs=1"]
    found = {
        (lr, seed): train(*small, f"lr={lr}", f"seed={seed}", "optimizer=adam")[0]["metrics"]
        for lr in (0.001, 0.003)
        for seed in (0, 1)
    }
    rows = documentation.recipe_rows(str(tmp_path / "outputs"))
    assert [(row["model"], row["norm"], row["lr"], row["recipe"]) for row in rows] == [
        ("mlp", "layernorm", 0.001, False),
        ("mlp", "layernorm", 0.003, True),
    ]
    for row in rows:
        for split in ("val", "test"):
            assert row[split] == [found[row["lr"], seed][f"{split}/accuracy"] for seed in (0, 1)]


def test_the_best_rate_is_that_of_validation():
    rows = [row(lr=0.001, val=[0.9] * 5, test=[0.99] * 5), row(lr=0.01, val=[0.95] * 5, test=[0.7] * 5)]
    assert documentation.best_of(rows)["lr"] == 0.01
    losses = [row(lr=0.001, val=[2.0], model="gpt"), row(lr=0.01, val=[1.5], model="gpt")]
    assert documentation.best_of(losses)["lr"] == 0.01
    diverged = [row(lr=0.1, val=[0.99, None]), row(lr=0.01, val=[0.6, 0.6])]
    assert documentation.best_of(diverged)["lr"] == 0.01


@pytest.mark.parametrize(
    ("recipe", "tuned", "cells"),
    [
        ([0.90] * 5, [0.91] * 5, ["90.0", "90.0", "0", "91.0", "0.01", "+1.0", "yes"]),
        ([0.90] * 4 + [0.80], [0.91] * 5, ["88.0", "80.0", "0", "91.0", "0.01", "+3.0", "**no**"]),
        ([0.90] * 4 + [None], [0.91] * 5, ["72.0", "0.0", "1", "91.0", "0.01", "+19.0", "**no**"]),
    ],
)
def test_a_line_compares_the_recipe_with_the_tuned_best(recipe, tuned, cells, monkeypatch):
    monkeypatch.setattr(documentation, "NORMS", ("none",))
    given_up = row(lr=0.1, val=[0.99, 0.99], test=[0.99, 0.99])
    rows = [row(test=recipe, recipe=True), row(lr=0.01, val=[0.95] * 5, test=tuned), given_up]
    assert documentation.recipe_lines(rows) == [["`none`", *cells]]


def test_the_page_is_that_of_its_file():
    page = (DOCS / "recipes.md").read_text()
    assert filled(page, documentation.recipes(ROWS)) == page


def test_every_recipe_of_the_page_fits_and_is_todays():
    for model, rate in documentation.RECIPES.items():
        cfg, _ = compose([f"model={model}", *["data=python_docs"] * (model == "gpt")])
        assert cfg.lr == rate, "the recipe has changed: train its table anew"
        assert not [row for row in ROWS if row["model"] == model and row["recipe"] and None in row["test"]]
        assert {row["lr"] for row in ROWS if row["model"] == model and row["recipe"]} == {rate}
