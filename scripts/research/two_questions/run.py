"""Train the runs of the two questions: each norm of each cell at every rate on seed 0, then fresh seeds at its best.

    python scripts/research/two_questions/run.py depth shift --outputs OUT [--pause FILE]

The best rate has the best validation accuracy (text: the least validation loss); a run that diverged is passed over.
Where it is the first or last of its rates, the grid goes on by one rate at that end, twice at most. Runs that are
finished, in OUT or in docs/data/two_questions.parquet, are read, so the command goes on where it was stopped; export.py
writes that table. While the file `--pause` exists, no run starts.
"""

import argparse
import itertools
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

HERE = Path(__file__).parent
TABLE = HERE.parents[2] / "docs" / "data" / "two_questions.parquet"  # of export.py
WIDENINGS = 2


def cells_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The cells of a plan: name, overrides, rates, norms, seeds."""
    shared, cells = plan["shared"], plan["cells"]
    own = {key: plan[key] for key in ("norms", "seeds", "rates") if key in plan}
    if "product" not in cells:
        for name, cell in cells.items():
            yield own | cell | {"name": name, "overrides": [*shared, *cell["overrides"]]}
        return
    axes = cells["product"]
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        more = [
            word for key, value in chosen.items() if isinstance(axes[key], dict) for word in axes[key][value]
        ]
        words = [*shared, *(f"{key}={value}" for key, value in chosen.items()), *more]
        name = "-".join(str(value) for value in values)
        cell = own | {"name": name, "overrides": words}
        if isinstance(plan.get("rates"), dict):
            cell["rates"] = plan["rates"][chosen["optimizer"]]
        if "rate_at_64" in plan:
            size = chosen["batch_size"]
            cell["rates"] = [float(f"{rate * math.sqrt(size / 64):.2g}") for rate in plan["rate_at_64"]]
            cell["overrides"].append(f"max_steps={plan['samples'] // size}")
        refused = [set(words.split()) for words in plan.get("refused", [])]
        cell["norms"] = [
            n
            for n in own["norms"]
            if not any(r <= {n, f"batch_size={values[0]}", *map(str, values)} for r in refused)
        ]
        yield cell


class Runs:
    """Trains one run after the other, or reads it where it is finished."""

    def __init__(self, name: str, outputs: Path, pause: Path | None):
        self.name, self.outputs, self.pause = name, outputs, pause
        self.kept: dict[str, dict[str, Any]] = {}  # those of the table, as far as `tuned` reads them
        for run in pd.read_parquet(TABLE).to_dict("records") if TABLE.exists() else ():
            metrics = {f"val/{name}": run[f"val_{name}"] for name in ("loss", "accuracy")}
            self.kept[run["key"]] = {"status": run["status"], "metrics": metrics}

    def __call__(self, words: list[str], norm: str, seed: int, rate: float) -> dict[str, Any] | None:
        from normexp.config.run_spec import specs
        from normexp.training.train import train

        base = [f"name={self.name}", f"outputs={self.outputs}", "threads=1"]
        overrides = [*words, *f"norm={norm}".split(), f"seed={seed}", f"lr={rate}", *base]
        (spec,) = specs(overrides)
        if spec.digest in self.kept:
            return self.kept[spec.digest]
        while self.pause and self.pause.exists():
            time.sleep(5)
        start = time.time()
        summary = train(spec)
        print(
            f"{self.name} {norm} seed={seed} lr={rate} {summary['status']} {time.time() - start:.0f} s",
            flush=True,
        )
        return summary


def tuned(runs: Runs, cell: dict[str, Any], norm: str, text: bool) -> float:
    """The rate of a norm with the best validation on seed 0."""
    rates, scores = list(cell["rates"]), {}
    for _ in range(WIDENINGS + 1):
        for rate in rates:
            if rate not in scores:
                summary = runs(cell["overrides"], norm, 0, rate)
                assert summary is not None
                value = summary["metrics"].get("val/loss" if text else "val/accuracy")
                failed = summary["status"] != "completed" or value is None
                scores[rate] = -math.inf if failed else (-value if text else value)
        best = max(rates, key=lambda rate: (scores[rate], -rate))
        if len(rates) < 3 or best not in (rates[0], rates[-1]) or scores[best] == -math.inf:
            break
        low = best == rates[0]
        ratio = rates[1] / rates[0] if low else rates[-1] / rates[-2]
        rates = (
            [float(f"{rates[0] / ratio:.2g}"), *rates] if low else [*rates, float(f"{rates[-1] * ratio:.2g}")]
        )
    return best


def main() -> None:
    """Train what is missing of the plans that are named, in their order."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plans", nargs="+")
    parser.add_argument("--outputs", type=Path, required=True)
    parser.add_argument("--pause", type=Path)
    parser.add_argument("--cells", default="", help="only cells whose name has this text")
    parser.add_argument(
        "--rates",
        type=float,
        nargs="*",
        help="train seed 0 at these rates instead, beyond the registered ones",
    )
    parser.add_argument("--norms", nargs="*", help="only these norms")
    given = parser.parse_args()
    for name in given.plans:
        plan = yaml.safe_load((HERE / f"{name}.yaml").read_text())
        runs = Runs(name, given.outputs, given.pause)
        cells = {cell["name"]: cell for cell in cells_of(plan)}
        for cell in cells.values():
            if given.cells not in cell["name"]:
                continue
            for norm in cell["norms"]:
                if given.norms and norm not in given.norms:
                    continue
                print(f"{name}: {cell['name']}: {norm}", flush=True)
                if given.rates:
                    for rate in given.rates:
                        runs(cell["overrides"], norm, 0, rate)
                    continue
                if 0 in cell["seeds"]:  # every seed at every rate
                    rates = cell["rates"][norm] if isinstance(cell["rates"], dict) else cell["rates"]
                    for seed, rate in itertools.product(cell["seeds"], rates):
                        runs(cell["overrides"], norm, seed, rate)
                    continue
                rated = cells[cell.get("rates_of", cell["name"])]
                own = cell.get("rate_as", {}).get(norm, norm)
                best = tuned(runs, rated, own, text="text_file" in str(cell["overrides"]))
                for seed in cell["seeds"]:
                    runs(cell["overrides"], norm, seed, best)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
