"""The runs of claims on this disk: what each is composed of, where it lies, and its row in the table of runs; and what
a cell of a bank leaves out, found in its configuration and its data."""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from normexp.claims.evidence.grid import cells_of
from normexp.claims.evidence.metric import NUMBERS, check_metric, column_of, late_gain, read_recorded, speeds
from normexp.claims.evidence.rates import rates_around
from normexp.claims.evidence.table import CPU, NO_RUNS
from normexp.claims.spec.cell import BankCell, with_assumed
from normexp.claims.spec.claim import Claim
from normexp.config.options import key_of
from normexp.config.process import fast_imports
from normexp.runs import load_test_examples, read_summary
from normexp.runs.summary import REESTIMATED

if TYPE_CHECKING:
    from normexp.config.run_spec import RunSpec  # loads torch

READ = ("monitor", "accuracies", "log_every_n_steps")  # keys of what a run records that a metric may read


class DiskRuns:
    """The runs of a claim in a folder that all claims share; each is composed once."""

    def __init__(self, claim: Claim, cache: Path):
        self.claim, self.cache = claim, cache
        self._specs: dict[tuple, RunSpec] = {}
        self._rows: dict[tuple, dict[str, Any]] = {}

    def specs(self, grid: pd.DataFrame) -> "list[RunSpec]":
        """The run of each row of a grid. Raises ValueError with one line for a run that could not be made."""
        from normexp.config.run_spec import specs

        keys = keys_of(grid)
        new = grid.loc[[key not in self._specs for key in keys]]  # with its columns, also of no row
        for text, rows in new.groupby("overrides", sort=False):
            overrides = overrides_of(str(text), self.cache)
            rates = sorted(rows["lr"].dropna().unique().tolist()) or None
            for spec in specs(overrides, seeds=sorted(rows["seed"].unique().tolist()), rates=rates):
                self._specs[text, spec.config["seed"], spec.config["lr"] if rates else None] = spec
            for arm in rows["arm"].unique():
                for metric in self.claim.metrics_of(arm):
                    check_metric(self.claim, metric, spec.config)
        return [self._specs[key] for key in keys]

    def read(self, grid: pd.DataFrame) -> pd.DataFrame:
        """A row for each run of a grid that is finished, with the columns of the evidence and its `folder`."""
        cells = {cell.name: cell for cell in cells_of(self.claim)}
        metrics = defaultdict[tuple, set[str]](set)  # arms with equal overrides share a run
        for key, arm in zip(keys_of(grid), grid["arm"], strict=True):
            metrics[key].update(self.claim.metrics_of(arm))
        rows = grid.itertuples(index=False)
        for key, row, spec in zip(keys_of(grid), rows, self.specs(grid), strict=True):
            if key not in self._rows and (summary := read_summary(spec.folder)) is not None:
                found = row_of(summary) | {"overrides": key[0], "seed": key[1], "lr": row.lr}
                more = self._more(summary, spec.folder, cells[str(row.setting)], metrics[key])
                self._rows[key] = found | more
        return pd.DataFrame(self._rows.values()) if self._rows else NO_RUNS

    def _more(
        self, summary: dict[str, Any], folder: Path, cell: BankCell, metrics: Iterable[str]
    ) -> dict[str, Any]:
        """Columns that a summary lacks: logged metrics, the number of test answers, and how much a run still gained."""
        more: dict[str, Any] = {"folder": str(folder), "asked_by": ""}
        more |= {"answers": math.nan, "late_gain": math.nan}
        for metric in metrics:
            if metric.startswith(("logged/", "convergence/steps_to_")):
                more[column_of(metric)] = read_recorded(metric, summary, folder)
            elif metric in ("test/error", f"test/error_{REESTIMATED}") and self.claim.cells:
                examples = load_test_examples(folder)
                more["answers"] = math.nan if examples is None else float(examples.right.size)
        if cell.draw:
            more["late_gain"] = late_gain(summary, folder, text=cell.test == "blocks")
        return more

    def name_of(self, row: Any) -> str:
        """What a run of a grid is called on the screen."""
        rate = "" if math.isnan(row.lr) else f"{row.lr:g}"
        fields = {"claim": self.claim.id, "setting": row.setting, "arm": row.arm, "level": row.level}
        fields |= {"seed": row.seed, "lr": rate}
        return " ".join(f"{key}={value}" for key, value in fields.items() if value != "").replace(", ", ",")


def keys_of(grid: pd.DataFrame) -> list[tuple]:
    """The overrides, the seed and the rate of each row; None for the configuration's own rate."""
    rows = zip(grid["overrides"].tolist(), grid["seed"].tolist(), grid["lr"].tolist(), strict=True)
    return [(text, seed, None if math.isnan(lr) else lr) for text, seed, lr in rows]


def overrides_of(text: str, cache: Path) -> list[str]:
    """The overrides of a run of a claim. What a run records is no part of its identity, but a claim that reads it
    needs a run that recorded it, so runs that record something else lie in a folder of their own."""
    # `.hydra/` resolves no key, so references are escaped as Hydra's sweeps write them.
    overrides = [override.replace("${seed}", r"$\{seed\}") for override in text.split("\n") if override]
    recorded = [override for override in overrides if key_of(override).startswith(READ)]
    digest = hashlib.sha256("\n".join(recorded).encode()).hexdigest()[:8]
    study = f"watched-{digest}" if recorded else "runs"
    return [f"name={study}", f"outputs={cache}", *with_assumed(overrides)]


def row_of(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a run that a verdict needs, as one flat row."""
    checkout, execution = summary.get("checkout") or {}, summary["execution"]
    first = summary.get("first") or {}
    return {
        "key": summary["hash"],
        "norm": summary["choices"]["norm"],
        **{name: summary[name] for name in ("status", "steps", "finished")},
        **{name: _number(summary["metrics"].get(metric)) for name, metric in NUMBERS.items()},
        **speeds(summary["convergence"]),
        "seconds": round(summary["seconds"], 2),
        **{name: execution.get(name) for name in ("threads", "processor", "precision")},
        "device": str(execution.get("device", CPU)).partition(":")[0],
        "started": first.get("started") or summary["finished"],
        "commit": checkout.get("commit", ""),
        "dirty": checkout.get("dirty", True),
        "torch": summary["versions"]["torch"],
        "numerics": summary.get("numerics", 1),
    }


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def complete_cells(claim: Claim) -> Claim:
    """The claim with complete cells. Raises ValueError with one line for data that cannot be read."""
    if claim.evidence != "training":
        return claim
    cells = {name: complete(cell) for name, cell in claim.cells.items()}
    return claim.model_copy(update={"cells": cells})


def complete(cell: BankCell) -> BankCell:
    """The cell with everything that it left out. It reads the data, with the seed 0.

    Rates are the configuration's own, times 0.1, 0.3, 1, 3 and 10. The chance is the share of the most frequent answer
    on validation; the loss of a guess is the entropy of the answers on the training split.
    """
    if cell.is_complete:
        return cell
    with fast_imports():
        import torch

        from normexp.claims.evidence.initial import plain
        from normexp.config.targets import load_data

    config = plain(cell.overrides)
    data = load_data(config)
    answers = data.splits["val"].y.flatten()
    # Each seed cuts its own split where a setting of the data follows the seed.
    cut_again = any(part.startswith("data.") and part.endswith("${seed}") for part in cell.overrides)
    found = {
        "rates": rates_around(config["lr"]),
        "test": "blocks" if data.kind == "text" else "cut again" if cut_again else "test set",
        "validation": len(answers),
        "chance": torch.bincount(answers).max().item() / len(answers),
        "guess_loss": data.chance_loss("train"),
    }
    return cell.model_copy(update={key: value for key, value in found.items() if not getattr(cell, key)})
