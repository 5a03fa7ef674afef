"""How often a training step between two events makes the host wait for the device, for every norm.

On a GPU torch reports each synchronization (`torch.cuda.set_sync_debug_mode`). Elsewhere the operations are counted
that would synchronize there.
"""

import argparse

import torch
from rich.console import Console
from rich.table import Table

from normexp.build import build_all
from normexp.composition import compose
from normexp.config.folder import CONFIGS
from normexp.training.replicas.fit_replicas import why_not

from .measure.replica_equality import TINY
from .measure.waits import waits

MODELS = "mlp,cnn,transformer"


def measure(norm: str, model: str) -> list[dict]:
    """One row alone, and one with replicas where they train together; none where the norm does not fit the model."""
    options, rows = [f"norm={norm}", f"model={model}", *TINY[model], "batch_size=32"], []
    for mode, count in (("alone", 1), ("replicas", 2)):
        own = [*options, f"replicas={count}"]
        try:
            if count > 1 and why_not(build_all(*compose(["recipe=plain", "monitor=none", *own]))[0]):
                continue
            found = waits(own)
        except ValueError as error:
            if "leaves" not in str(error):  # InstanceNorm of single values
                raise
            return []
        where = ", ".join(f"{line} ({count:g})" for line, count in sorted(found.items()))
        rows.append(
            {"norm": norm, "model": model, "mode": mode, "a_step": sum(found.values()), "where": where}
        )
    return rows


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(
        prog="benchmark.py synchronizations", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    every = sorted(path.stem for path in (CONFIGS / "norm").glob("*.yaml"))
    parser.add_argument("--norms", default=",".join(every), help="separated by commas (default: all)")
    parser.add_argument("--models", default=MODELS, help="separated by commas (default: %(default)s)")
    given = parser.parse_args(arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = [
        row | {"device": device}
        for model in given.models.split(",")
        for norm in given.norms.split(",")
        for row in measure(norm, model)
    ]
    table = Table("a step", "norm", "model", "mode", "where", title="steps that wait for the device")
    for row in rows:
        if row["a_step"]:
            table.add_row(f"{row['a_step']:g}", row["norm"], row["model"], row["mode"], row["where"])
    Console(width=120).print(table)
    print(f"{sum(not row['a_step'] for row in rows)} of {len(rows)} wait in no step")
    return rows
