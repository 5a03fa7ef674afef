"""The runs of the bank: the commands that train them, and one row per finished run."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.widened_grid import widest_grid
from normexp.claims.spec.bank import Bank, BankCell
from normexp.runs import finished_summary
from normexp.runs.table import find_runs

SPLITS, NAMES = ("train", "val", "test"), ("loss", "accuracy")
# Of validation accuracy, as in `summary.json`.
SPEED = ("auc", "steps_to_0.5", "steps_to_0.8", "steps_to_0.9")
STUDY = "bank"  # the runs of a cell lie in <outputs>/bank/<cell>


def commands(bank: Bank, outputs: Path, cells: Sequence[str]) -> Iterator[list[str]]:
    """Arguments of train.py, one sweep per cell. Finished runs are skipped, so the same commands resume."""
    for name in cells:
        cell = bank.cell(name)
        norms, rates = ",".join(bank.norms), ",".join(f"{rate:g}" for rate in cell.rates)
        where = [f"name={STUDY}/{name}", f"outputs={outputs}"]
        if cell.replicas:
            family = ["seed=0", f"replicas.seeds={bank.seeds}", f"replicas.lr=[{rates}]"]
        else:
            family = [f"seed=range(0,{bank.seeds})", f"lr={rates}"]
        yield ["-m", *where, *cell.overrides, f"norm={norms}", *family]


def rows(bank: Bank, outputs: Path) -> pd.DataFrame:
    """One row per finished run of the bank, in the order of its cells, norms, rates and seeds."""
    found = [row for cell in bank.cells.values() for row in _rows_of(bank, cell, outputs)]
    order = {name: index for index, name in enumerate(bank.cells)}
    norms = {name: index for index, name in enumerate(bank.norms)}
    found.sort(key=lambda row: (order[row["cell"]], norms[row["norm"]], row["lr"], row["seed"]))
    return pd.DataFrame(found) if found else pd.DataFrame({"cell": [], "lr": []})


def _rows_of(bank: Bank, cell: BankCell, outputs: Path) -> Iterator[dict[str, Any]]:
    place = outputs / STUDY / cell.name
    for folder in find_runs(place)[0] if place.is_dir() else ():
        summary = finished_summary(folder)
        if summary["choices"]["norm"] not in bank.norms:
            continue
        config = summary["config"]
        if config["lr"] in widest_grid(cell.rates) and config["seed"] < bank.seeds:
            yield row_of(cell.name, summary) | {"folder": str(folder)}


def row_of(cell: str, summary: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a run that a verdict needs, as one flat row."""
    config = summary["config"]
    metrics = {f"{split}_{name}": summary["metrics"][f"{split}/{name}"] for split in SPLITS for name in NAMES}
    return {
        "cell": cell,
        "norm": summary["choices"]["norm"],
        "lr": config["lr"],
        "seed": config["seed"],
        "status": summary["status"],
        **metrics,
        "steps": summary["steps"],
        **{name: summary["convergence"].get(name) for name in SPEED},
        "seconds": round(summary["seconds"], 2),
        "mode": summary["execution"]["mode"],
        "replicas": summary["execution"].get("replicas", 1),  # whose seconds are those of all together
        "hash": summary["hash"],
        "finished": summary["finished"],
        "commit": summary.get("checkout", {}).get("commit", ""),
        "dirty": summary.get("checkout", {}).get("dirty", True),
        "code": summary.get("code", ""),
        "torch": summary["versions"]["torch"],
    }


def bank_protocol(bank: Bank) -> dict[str, Any]:
    """The protocol of the bank for the registry: every value of every cell and norm, the rates and the seeds."""
    # It imports torch and composes configurations, which takes seconds.
    from normexp.claims.evidence.resolved_protocol import check_cells, resolved_cells

    overrides = {
        f"{cell.name} / {norm}": [*cell.overrides, f"norm={norm}", f"lr={cell.rates[0]:g}"]
        for cell in bank.cells.values()
        for norm in bank.norms
    }
    check_cells(overrides)
    families = {
        cell.name: {"rates": list(cell.rates), "test": cell.test, "replicas": cell.replicas}
        for cell in bank.cells.values()
    }
    return {"seeds": bank.seeds, "families": families, **resolved_cells(overrides)}
