"""The runs behind docs/recipes.md: every plain norm in every model, over rates and seeds."""

import contextlib
import copy
import io
import statistics
from collections.abc import Iterator
from typing import Any

NORMS = ("none", "batchnorm", "layernorm", "groupnorm", "rmsnorm")
RATES = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
SEEDS = range(5)
FIRST_SEEDS = 2  # seeds of every rate; a rate that then trails by more than HOPELESS gets no more
HOPELESS = {"accuracy": 0.05, "loss": 0.3}
TEXT = ["data=python_docs", "data.context_length=32", "batch_size=16", "max_steps=300"]
MODELS = {"mlp": [], "cnn": [], "resnet": [], "transformer": [], "gpt": TEXT}
ALLOWED = {"accuracy": 0.02, "loss": 0.1}
FAR_OFF = {"accuracy": 0.0, "loss": 100.0}  # the value of a diverged run

Row = dict[str, Any]


def metric_of(model: str) -> str:
    return "loss" if model == "gpt" else "accuracy"


def mean(row: Row, split: str) -> float:
    return statistics.fmean(FAR_OFF[metric_of(row["model"])] if v is None else v for v in row[split])


def behind(row: Row, other: Row, split: str) -> float:
    """How much worse one row is than another, in accuracy or in nats."""
    gap = mean(other, split) - mean(row, split)
    return gap if metric_of(row["model"]) == "accuracy" else -gap


def best_of(rows: list[Row]) -> Row:
    """The tuned rate: the best on validation, over the seeds that all rates have. The lower rate wins a tie."""
    return min(rows, key=lambda row: behind(row, rows[0], "val"))


class Grid:
    """The runs of one model under one norm, at every rate and seed. Missing runs are trained."""

    def __init__(self, model: str, norm: str, outputs: str):
        from normexp.build import build
        from normexp.composition import compose

        self.model, self.norm = model, norm
        fixed = ["name=recipes", f"outputs={outputs}", "monitor=none", "trainer=cpu", "threads=1"]
        self.overrides = [f"model={model}", f"norm={norm}", *MODELS[model], *fixed]
        self.cfg, self.choices = compose(self.overrides)
        self.rate = self.cfg.lr
        self.data = build(self.cfg, self.choices).data

    def run(self, rate: float, seed: int) -> dict[str, Any]:
        """The summary of one run: from its folder if it is finished, else from training it."""
        from normexp.build import build, resolved
        from normexp.config.identity import config_hash, default_folder
        from normexp.runs import read_summary
        from normexp.training.launch import launch

        cfg = copy.deepcopy(self.cfg)
        cfg.lr, cfg.seed = rate, seed
        config = resolved(cfg)
        folder = default_folder(config, self.choices, config_hash(config, self.data.fingerprint))
        if (summary := read_summary(folder)) is None:
            command = " ".join(["python train.py", *self.overrides, f"lr={rate:g}", f"seed={seed}"])
            with contextlib.redirect_stdout(io.StringIO()):
                summary = launch(build(cfg, self.choices, command=command, loaded=[self.data]))
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
