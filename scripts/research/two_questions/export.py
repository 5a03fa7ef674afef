"""Keep the finished runs of the two questions as one table, which `run.py` reads before it trains.

    python scripts/research/two_questions/export.py OUTPUTS

A row is a run: its plan, the words of its choices, what it came to, and of every statistic that a monitor logged the
mean over layers at the first, the middle and the last measurement.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from normexp.runs.read import load_test_examples

TABLE = Path(__file__).parents[3] / "docs" / "data" / "two_questions.parquet"
ANSWERS = TABLE.with_suffix(".npz")
LEARNED = Path(__file__).parents[3] / "normexp" / "advise" / "learned.json"
NAMES = {"mnist": "MNIST", "cifar10_jpeg": "CIFAR-10", "text_file": "tinyshakespeare", "mlp": "MLP", "cnn": "CNN",
         "resnet": "ResNet", "gpt": "GPT", "transformer": "Transformer"}  # fmt: skip
OWN = ("train", "val", "test", "lr")  # not of monitors


def watched(path: Path) -> dict[str, float]:
    """Statistic@first, @middle and @last, each the mean over layers; that of a network has one value."""
    logged = pd.read_csv(path)
    logged["statistic"] = logged["metric"].str.replace(r"/(?!weight$|activation$).*", "", regex=True)
    logged = logged[~logged["statistic"].isin(OWN)]
    found = {}
    for name, rows in logged.groupby("statistic"):
        by_step = rows.groupby("step")["value"].mean()
        for when, place in (("first", 0), ("middle", len(by_step) // 2), ("last", -1)):
            found[f"{name}@{when}"] = float(by_step.iloc[place])
    return found


def row(path: Path, outputs: Path) -> dict[str, Any]:
    """A finished run."""
    summary = json.loads(path.read_text())
    config, model = summary["config"], summary["config"]["model"]
    return {
        "plan": path.relative_to(outputs).parts[0],
        "key": summary["hash"],
        "model": summary["choices"]["model"],
        "norm": summary["choices"]["norm"],
        "affine": config["norm"].get("affine"),
        "data": summary["choices"]["data"],
        "optimizer": summary["choices"]["optimizer"],
        "depth": json.dumps(model.get("depth")),
        "activation": model.get("activation"),
        "norm_position": model.get("norm_position"),
        "warmup_steps": config["schedule"].get("warmup_steps"),
        "batch_size": config["batch_size"],
        "seed": config["seed"],
        "lr": config["lr"],
        "status": summary["status"],
        "steps": summary["steps"],
        "seconds": round(summary["seconds"], 1),
        **{name.replace("/", "_"): value for name, value in summary["metrics"].items()},
        "numerics": summary["numerics"],
        "commit": summary["checkout"]["commit"],
        "dirty": summary["checkout"]["dirty"],
        "started": summary["first"]["started"],
        **watched(path.with_name("metrics.csv")),
    }


def keep_answers(rows: list[dict[str, Any]], paths: list[Path]) -> None:
    """Add the right and wrong test answers of judging runs, as packed bits by the run's key."""
    answers = dict(np.load(ANSWERS)) if ANSWERS.exists() else {}
    for row_, path in zip(rows, paths, strict=True):
        if row_["seed"] > 0 and (examples := load_test_examples(path.parent)):
            answers[row_["key"]] = np.packbits(examples.right)
    np.savez_compressed(ANSWERS, **answers)


def keep_learned(table: pd.DataFrame) -> None:
    """Write what `normexp advise` shows: each learned setting's mean test error of each norm."""
    runs = table[
        table["plan"].isin(["learned", "resnet"]) & (table["seed"] > 0) & (table["affine"] != "none")
    ]
    runs = runs[runs["norm"] != "batchnorm_noisy"]
    rows = []
    for _, own in runs.groupby(["data", "model"]):
        of_norms = own.groupby("norm")["seed"].transform("size")
        own = own[of_norms == of_norms.max()]  # a norm whose seeds are not finished waits
        if own["norm"].nunique() == 1:  # nothing to compare yet
            continue
        first, errors = own.iloc[0], 1 - own.groupby("norm")["test_accuracy"].mean()
        about = {"model": NAMES[first["model"]], "data": NAMES[first["data"]], "updates": int(first["steps"])}
        seeds = int(own.groupby("norm").size().min())
        rows.append(about | {"seeds": seeds, "errors": errors.round(5).to_dict()})
    LEARNED.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


def main(outputs: Path) -> None:
    """Add the finished runs of a folder to the table."""
    paths = sorted(outputs.rglob("summary.json"))
    rows = [row(path, outputs) for path in paths]
    keep_answers(rows, paths)
    kept = [pd.read_parquet(TABLE)] if TABLE.exists() else []
    table = pd.concat([*kept, pd.DataFrame(rows)], ignore_index=True).drop_duplicates("key", keep="last")
    table.to_parquet(TABLE, index=False, compression="zstd")
    keep_learned(table)
    print(f"{TABLE}: {len(table)} runs; {table.groupby('plan').size().to_dict()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
