"""Write docs/recipes.md: the results of each model's recipe under every plain norm, and the norm's own tuned best.

`python scripts/recipe_table.py` fills the page from docs/data/recipes.json. `--train` first trains the missing runs and
writes that file. This takes hours on one core; the same command resumes.
"""

import argparse
import statistics
import sys
from typing import Any

from doc_tables import DATA, DOCS, ROOT, filled, read_rows, table, write_rows

sys.path.insert(0, str(ROOT))  # works without installing the package

PAGE, RUNS = DOCS / "recipes.md", DATA / "recipes.json"
NORMS = ("none", "batchnorm", "layernorm", "groupnorm", "rmsnorm")
RATES = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
SEEDS, FIRST_SEEDS = 5, 2  # a rate that trails by more than HOPELESS after its first seeds gets no more
TEXT = ["data=python_docs", "data.context_length=32", "batch_size=16", "max_steps=300"]
MODELS = {"mlp": [], "cnn": [], "resnet": [], "transformer": [], "gpt": TEXT}
# Differences of a metric; a diverged run counts as FAR_OFF.
HOPELESS = {"accuracy": 0.05, "loss": 0.3}
ALLOWED = {"accuracy": 0.02, "loss": 0.1}
FAR_OFF = {"accuracy": 0.0, "loss": 100.0}
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


def trained(model: str, norm: str, outputs: str) -> list[Row]:
    """Rows of one model under one norm. Finished runs are not trained again."""
    import normexp

    words = [f"model={model}", f"norm={norm}", *MODELS[model], "name=recipes", f"outputs={outputs}"]
    words += ["monitor=none", "trainer=cpu", "threads=1"]
    recipe = normexp.train(*words, "seed=0").summary["config"]["lr"]

    def rows(rates: list[float], seeds: int) -> list[Row]:
        rates, axis = [*rates], ",".join(map(str, range(seeds)))
        study = normexp.sweep(*words, f"lr={','.join(map(repr, rates))}", f"seed={axis}")
        runs = study.summaries
        name, found = metric_of(model), []
        for rate in rates:
            own = runs[(runs.model == model) & (runs.norm == norm) & (runs.lr == rate) & (runs.seed < seeds)]
            own = own.sort_values("seed")
            results = {
                split: [
                    value if status == "completed" else None
                    for value, status in zip(own[f"{split}/{name}"], own.status, strict=True)
                ]
                for split in ("val", "test")
            }
            row = {"model": model, "norm": norm, "lr": rate, "recipe": rate == recipe, **results}
            found.append(
                row | {"steps": int(own.steps.iloc[0]), "seconds": round(float(own.seconds.sum()), 1)}
            )
        return found

    first = rows(sorted({*RATES, recipe}), FIRST_SEEDS)
    best, most = best_of(first), HOPELESS[metric_of(model)]
    again = rows([row["lr"] for row in first if row["recipe"] or behind(row, best, "val") <= most], SEEDS)
    return sorted({row["lr"]: row for row in [*first, *again]}.values(), key=lambda row: row["lr"])


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
    for model in MODELS:
        unit, within = (
            ("%", "within 2 points") if metric_of(model) == "accuracy" else ("nats", "within 0.1 nats")
        )
        head = ["norm", f"recipe, {unit}", "worst seed", "diverged", "tuned best", "at lr", "behind", within]
        parts[model] = table(head, lines([row for row in rows if row["model"] == model]))
    return parts


def main() -> None:
    """Train what is missing if asked for, then fill the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--train", action="store_true", help="train what is missing, and write the runs' file"
    )
    parser.add_argument("--models", default=",".join(MODELS), help="to train (default: %(default)s)")
    parser.add_argument("--outputs", default="outputs", help="where the runs are kept (default: %(default)s)")
    given = parser.parse_args()
    rows = read_rows(RUNS)
    for model in given.models.split(",") if given.train else []:
        for norm in NORMS:
            others = [row for row in rows if (row["model"], row["norm"]) != (model, norm)]
            rows = others + trained(model, norm, given.outputs)
            write_rows(RUNS, rows)
    PAGE.write_text(filled(PAGE.read_text(), tables(rows)))


if __name__ == "__main__":
    main()
