"""The page of recipes: what it trains, what it calls the tuned best, and that docs/recipes.md is made from its file."""

import json

import pytest
import recipe_table
from doc_tables import filled

from normexp.config.compose import compose

ROWS = json.loads(recipe_table.RUNS.read_text())


def row(norm="none", lr=0.001, val=(0.9,) * 5, test=(0.8,) * 5, recipe=False, model="mlp") -> dict:
    return {"model": model, "norm": norm, "lr": lr, "recipe": recipe, "val": list(val), "test": list(test)}


@pytest.mark.slow
def test_a_small_grid_holds_what_the_runs_recorded(tmp_path, monkeypatch):
    small = ["model.depth=1", "model.width=8", "max_epochs=1", "data.train_size=128"]
    for name, value in (("MODELS", {"mlp": small}), ("RATES", (0.001, 0.01)), ("SEEDS", 3)):
        monkeypatch.setattr(recipe_table, name, value)
    monkeypatch.setitem(recipe_table.HOPELESS, "accuracy", 1.0)
    rows = recipe_table.trained("mlp", "layernorm", str(tmp_path))
    assert [row["lr"] for row in rows] == [0.001, 0.003, 0.01]
    assert [row["recipe"] for row in rows] == [False, True, False]
    assert [len(row["val"]) for row in rows] == [3, 3, 3]
    found = [json.loads(path.read_text()) for path in tmp_path.rglob("summary.json")]
    wanted = sorted(run["metrics"]["test/accuracy"] for run in found)
    assert sorted(value for row in rows for value in row["test"]) == wanted
    assert recipe_table.trained("mlp", "layernorm", str(tmp_path)) == rows, (
        "finished runs are not trained again"
    )


def test_the_best_rate_is_that_of_validation():
    rows = [row(lr=0.001, val=[0.9] * 5, test=[0.99] * 5), row(lr=0.01, val=[0.95] * 5, test=[0.7] * 5)]
    assert recipe_table.best_of(rows)["lr"] == 0.01
    losses = [row(lr=0.001, val=[2.0], model="gpt"), row(lr=0.01, val=[1.5], model="gpt")]
    assert recipe_table.best_of(losses)["lr"] == 0.01
    diverged = [row(lr=0.1, val=[0.99, None]), row(lr=0.01, val=[0.6, 0.6])]
    assert recipe_table.best_of(diverged)["lr"] == 0.01


@pytest.mark.parametrize(
    ("recipe", "tuned", "cells"),
    [
        ([0.90] * 5, [0.91] * 5, ["90.0", "90.0", "0", "91.0", "0.01", "+1.0", "yes"]),
        ([0.90] * 4 + [0.80], [0.91] * 5, ["88.0", "80.0", "0", "91.0", "0.01", "+3.0", "**no**"]),
        ([0.90] * 4 + [None], [0.91] * 5, ["72.0", "0.0", "1", "91.0", "0.01", "+19.0", "**no**"]),
    ],
)
def test_a_line_compares_the_recipe_with_the_tuned_best(recipe, tuned, cells, monkeypatch):
    monkeypatch.setattr(recipe_table, "NORMS", ("none",))
    given_up = row(lr=0.1, val=[0.99, 0.99], test=[0.99, 0.99])
    rows = [row(test=recipe, recipe=True), row(lr=0.01, val=[0.95] * 5, test=tuned), given_up]
    assert recipe_table.lines(rows) == [["`none`", *cells]]


def test_the_page_is_that_of_its_file():
    page = recipe_table.PAGE.read_text()
    assert filled(page, recipe_table.tables(ROWS)) == page


def test_every_recipe_of_the_page_fits_and_is_todays():
    for found in ROWS:
        if found["recipe"]:
            cfg, _ = compose([f"model={found['model']}", *recipe_table.MODELS[found["model"]]])
            steps = cfg.max_steps or 17 * cfg.max_epochs  # of 64 digits
            assert (found["lr"], found["steps"]) == (cfg.lr, steps), (
                "the recipe has changed: train the table anew"
            )
            assert None not in found["test"], "a recipe under which a run diverged"
