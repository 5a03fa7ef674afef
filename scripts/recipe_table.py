"""Write docs/recipes.md: the results of each model's recipe under every plain norm, and the norm's own tuned best.

`python scripts/recipe_table.py` fills the page from docs/data/recipes.json. `--runs outputs/recipes` first puts new
runs there; the page has the commands that train them.
"""

import argparse
import statistics
from typing import Any

from doc_tables import DATA, DOCS, filled, read_rows, table, write_rows

PAGE, RUNS = DOCS / "recipes.md", DATA / "recipes.json"
NORMS = ("none", "batchnorm", "layernorm", "groupnorm", "rmsnorm")
RECIPES = {"mlp": 0.003, "cnn": 0.003, "resnet": 0.003, "transformer": 0.005, "gpt": 0.002}  # their rates
SEEDS = 5  # a rate with fewer was given up
ALLOWED = {"accuracy": 0.02, "loss": 0.1}  # difference from the tuned best
FAR_OFF = {"accuracy": 0.0, "loss": 100.0}  # the value of a diverged run
Row = dict[str, Any]  # model, norm, lr, recipe (whether the rate is the recipe's); val and test of each seed


def metric_of(model: str) -> str:
    return "loss" if model == "gpt" else "accuracy"


def values(row: Row, split: str) -> list[float]:
    return [FAR_OFF[metric_of(row["model"])] if value is None else value for value in row[split]]


def behind(row: Row, other: Row, split: str) -> float:
    """How much worse the mean of one row is than that of another, in accuracy or in nats."""
    gap = statistics.fmean(values(other, split)) - statistics.fmean(values(row, split))
    return gap if metric_of(row["model"]) == "accuracy" else -gap


def best_of(rows: list[Row]) -> Row:
    """The tuned rate: the best on validation. The lower rate wins a tie."""
    return min(sorted(rows, key=lambda row: row["lr"]), key=lambda row: behind(row, rows[0], "val"))


def rows_of(folder: str) -> list[Row]:
    """Rows of finished runs, which are those of the sweeps that the page names."""
    from normexp.runs import load_summaries

    runs, rows = load_summaries(folder), []
    for (model, norm, rate), own in runs.sort_values("seed").groupby(["model", "norm", "lr"], observed=True):
        name = metric_of(model)
        results = {
            split: [
                v if s == "completed" else None
                for v, s in zip(own[f"{split}/{name}"], own.status, strict=True)
            ]
            for split in ("val", "test")
        }
        row = {"model": model, "norm": norm, "lr": rate, "recipe": rate == RECIPES[model], **results}
        rows.append(row | {"steps": int(own.steps.iloc[0]), "seconds": round(float(own.seconds.sum()), 1)})
    return rows


def lines(rows: list[Row]) -> list[list[str]]:
    """For each norm: the recipe's test result, beside that of the rate with the best mean on validation."""
    found = []
    for norm in NORMS:
        own = [row for row in rows if row["norm"] == norm]
        recipe = next(row for row in own if row["recipe"])
        best = best_of([row for row in own if len(row["val"]) == SEEDS])
        accuracy = metric_of(recipe["model"]) == "accuracy"

        def shown(value: float, sign: str = "", accuracy: bool = accuracy) -> str:
            return f"{100 * value:{sign}.1f}" if accuracy else f"{value:{sign}.3f}"

        gap, tests = behind(recipe, best, "test"), values(recipe, "test")
        cells = [shown(statistics.fmean(tests)), shown((min if accuracy else max)(tests))]
        cells += [
            str(recipe["test"].count(None)),
            shown(statistics.fmean(values(best, "test"))),
            f"{best['lr']:g}",
        ]
        fits = "yes" if gap <= ALLOWED[metric_of(recipe["model"])] else "**no**"
        found.append([f"`{norm}`", *cells, shown(gap, "+"), fits])
    return found


def tables(rows: list[Row]) -> dict[str, str]:
    """Model -> its table."""
    parts = {}
    for model in RECIPES:
        unit, within = (
            ("%", "within 2 points") if metric_of(model) == "accuracy" else ("nats", "within 0.1 nats")
        )
        head = ["norm", f"recipe, {unit}", "worst seed", "diverged", "tuned best", "at lr", "behind", within]
        parts[model] = table(head, lines([row for row in rows if row["model"] == model]))
    return parts


def main() -> None:
    """Read runs if asked for, then fill the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", metavar="FOLDER", help="a study with new runs")
    given, rows = parser.parse_args(), read_rows(RUNS)
    if given.runs:
        new = rows_of(given.runs)
        again = {(row["model"], row["norm"]) for row in new}
        rows = [row for row in rows if (row["model"], row["norm"]) not in again] + new
        write_rows(RUNS, rows)
    PAGE.write_text(filled(PAGE.read_text(), tables(rows)))


if __name__ == "__main__":
    main()
