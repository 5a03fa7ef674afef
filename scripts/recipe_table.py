"""Write docs/recipes.md: what each model's recipe gives under every plain norm, beside that norm's own tuned best.

`python scripts/recipe_table.py` makes the page from docs/recipes.json. `--train` first trains what is missing (hours on
one core, the same command goes on) and writes that file.
"""

import argparse
import contextlib
import io
import itertools
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it also runs where the package is not installed

from benchmarks.page.markdown_table import table

DOCS = Path(__file__).parents[1] / "docs"
PAGE, RUNS = DOCS / "recipes.md", DOCS / "recipes.json"
NORMS = ("none", "batchnorm", "layernorm", "groupnorm", "rmsnorm")
RATES = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
SEEDS = range(5)
FIRST_SEEDS = 2  # of every rate; a rate that then trails by more than HOPELESS gets no more
HOPELESS = {"accuracy": 0.05, "loss": 0.3}
TEXT = ["data=python_docs", "data.context_length=32", "batch_size=16", "max_steps=300"]
MODELS = {"mlp": [], "cnn": [], "resnet": [], "transformer": [], "gpt": TEXT}
ALLOWED = {"accuracy": 0.02, "loss": 0.1}
FAR_OFF = {"accuracy": 0.0, "loss": 100.0}  # what a run that diverged counts as

Row = dict[str, Any]


def metric_of(model: str) -> str:
    return "loss" if model == "gpt" else "accuracy"


def mean(row: Row, split: str) -> float:
    return statistics.fmean(FAR_OFF[metric_of(row["model"])] if v is None else v for v in row[split])


def behind(row: Row, other: Row, split: str) -> float:
    """How much worse a row is than another, in accuracy or in nats."""
    gap = mean(other, split) - mean(row, split)
    return gap if metric_of(row["model"]) == "accuracy" else -gap


def best_of(rows: list[Row]) -> Row:
    """The tuned rate: the best validation, over the seeds that all have, which decides ties towards the lower rate."""
    return min(rows, key=lambda row: behind(row, rows[0], "val"))


class Grid:
    """The runs of one model under one norm: every rate and seed, trained where they are missing."""

    def __init__(self, model: str, norm: str, outputs: str):
        from normexp.build import build, compose

        self.model, self.norm = model, norm
        fixed = ["name=recipes", f"outputs={outputs}", "monitor=none", "trainer=cpu", "threads=1"]
        self.overrides = [f"model={model}", f"norm={norm}", *MODELS[model], *fixed]
        self.cfg, self.choices = compose(self.overrides)
        self.rate = self.cfg.lr
        self.data = build(self.cfg, self.choices).data

    def run(self, rate: float, seed: int) -> dict[str, Any]:
        """The summary of one run, from its folder if it is finished."""
        from normexp.build import build, resolved
        from normexp.config.identity import config_hash, default_folder
        from normexp.runs import read_summary
        from normexp.training.launch import launch

        cfg = self.cfg.copy()
        cfg.lr, cfg.seed = rate, seed
        config = resolved(cfg)
        folder = default_folder(config, self.choices, config_hash(config, self.data.fingerprint))
        if (summary := read_summary(folder)) is None:
            command = " ".join(["python train.py", *self.overrides, f"lr={rate:g}", f"seed={seed}"])
            with contextlib.redirect_stdout(io.StringIO()):
                summary = launch(build(cfg, self.choices, command=command, loaded=self.data))
            print(f"{self.model} {self.norm} lr {rate:g} seed {seed}: {summary['status']}", flush=True)
        return summary

    def row(self, rate: float, count: int) -> Row:
        found = [self.run(rate, seed) for seed in SEEDS[:count]]
        name = metric_of(self.model)
        values = {
            split: [
                run["metrics"][f"{split}/{name}"] if run["status"] == "completed" else None for run in found
            ]
            for split in ("val", "test")
        }
        row = {"model": self.model, "norm": self.norm, "lr": rate, "recipe": rate == self.rate, **values}
        return row | {"steps": found[0]["steps"], "seconds": round(sum(run["seconds"] for run in found), 1)}

    def rows(self) -> Iterator[Row]:
        rates = sorted({*RATES, self.rate})
        first = {rate: self.row(rate, FIRST_SEEDS) for rate in rates}
        best = best_of(list(first.values()))
        for rate, row in first.items():
            promising = behind(row, best, "val") <= HOPELESS[metric_of(self.model)]
            yield self.row(rate, len(SEEDS)) if promising or rate == self.rate else row


def train(models: list[str], norms: list[str], outputs: str) -> list[Row]:
    rows = []
    for model, norm in itertools.product(models, norms):
        rows += Grid(model, norm, outputs).rows()
    return rows


def page(rows: list[Row]) -> str:
    parts = [INTRODUCTION]
    for model in MODELS:
        own = [row for row in rows if row["model"] == model]
        if own:
            parts.append(f"\n## {model}\n\n{SAID[model]}\n\n{table(HEAD[metric_of(model)], lines(own))}")
    return "".join(parts)


def lines(rows: list[Row]) -> list[list[str]]:
    found = []
    for norm in NORMS:
        own = [row for row in rows if row["norm"] == norm]
        recipe = next(row for row in own if row["recipe"])
        best = best_of([row for row in own if len(row["val"]) == len(SEEDS)])
        gap = behind(recipe, best, "test")
        fits = "yes" if gap <= ALLOWED[metric_of(recipe["model"])] else "**no**"
        lost = sum(value is None for value in recipe["test"])
        cells = [shown(recipe, mean(recipe, "test")), shown(recipe, worst(recipe)), str(lost)]
        cells += [shown(best, mean(best, "test")), f"{best['lr']:g}", shown(recipe, gap, "+"), fits]
        found.append([f"`{norm}`", *cells])
    return found


def worst(row: Row) -> float:
    name = metric_of(row["model"])
    return (min if name == "accuracy" else max)(FAR_OFF[name] if v is None else v for v in row["test"])


def shown(row: Row, value: float, sign: str = "") -> str:
    return f"{100 * value:{sign}.1f}" if metric_of(row["model"]) == "accuracy" else f"{value:{sign}.3f}"


HEAD = {
    "accuracy": [
        "norm",
        "recipe, %",
        "worst seed",
        "diverged",
        "tuned best, %",
        "at lr",
        "behind",
        "within 2 points",
    ],
    "loss": [
        "norm",
        "recipe, nats",
        "worst seed",
        "diverged",
        "tuned best",
        "at lr",
        "behind",
        "within 0.1 nats",
    ],
}
SAID = {
    model: f"`python train.py model={model} norm=...`" for model in ("mlp", "cnn", "resnet", "transformer")
} | {
    "gpt": f"`python train.py model=gpt norm=... {' '.join(TEXT)}`: a short run of small batches, so that all fit."
}
INTRODUCTION = f"""# Recipes

Generated by `python scripts/recipe_table.py`, from runs of `python scripts/recipe_table.py --train`.

A model's file in `configs/model` names its recipe in `configs/recipe`: optimizer, rate, schedule and epochs. Whatever the
command says wins, and the run says so. `recipe=plain` is no recipe: SGD at 0.1, ten epochs, whatever the model.

The tables show that a recipe suits every plain norm, so that a default run does not blame the norm for its rate: test
results of the recipe, the mean over {len(SEEDS)} seeds and the worst of them, beside the norm's own tuned best. That is the
rate of {len(RATES)} between {min(RATES):g} and {max(RATES):g} with the best mean on validation, all else as in the recipe. Every rate had
{FIRST_SEEDS} seeds; one that then trailed the best by more than {100 * HOPELESS["accuracy"]:g} points ({HOPELESS["loss"]:g} nats) was given up, the others had {len(SEEDS)}.
A run that diverged counts as 0% ({FAR_OFF["loss"]:g} nats). "Behind" is what tuning would gain; below 0 the recipe is the better
one on test.
"""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--train", action="store_true", help="train what is missing, and write docs/recipes.json"
    )
    parser.add_argument("--models", default=",".join(MODELS), help="to train (default: %(default)s)")
    parser.add_argument("--norms", default=",".join(NORMS), help="to train (default: %(default)s)")
    parser.add_argument("--outputs", default="outputs", help="where the runs are kept (default: %(default)s)")
    options = parser.parse_args(arguments)
    rows = json.loads(RUNS.read_text()) if RUNS.exists() else []
    if options.train:
        new = train(options.models.split(","), options.norms.split(","), options.outputs)
        done = {(row["model"], row["norm"]) for row in new}
        rows = [row for row in rows if (row["model"], row["norm"]) not in done] + new
        RUNS.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    PAGE.write_text(page(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
