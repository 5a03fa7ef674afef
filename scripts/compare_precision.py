"""Are differences between norms the same in bfloat16? The first settings of the drawn bank are trained in it, at the
rates and seeds that float32's words rest on, beside the ledger's rows. Finished runs are not trained again.

python scripts/compare_precision.py 12 P06a P03c P08 P10b P10c   # words; accuracies into docs/data and its page
"""

import dataclasses
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from benchmarks.page import PRECISION, write_page
from doc_tables import DATA, write_rows

from normexp.claims.evidence.choose_rates import runs_at
from normexp.claims.evidence.disk_runs import DiskRuns, RunKey, estimated_seconds, launch_folder, train
from normexp.claims.evidence.plan import Known
from normexp.claims.evidence.sources import setting_of_runs
from normexp.claims.evidence.stored import StoredEvidence
from normexp.claims.judge.verdict import judge
from normexp.claims.spec.cell import BankCell
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.select import known_claims
from normexp.sweeps.cell import cells_of
from normexp.sweeps.grid import Estimates
from normexp.sweeps.places.place import Options

OUT = Path("outputs/precision/cache")


class Pair(NamedTuple):
    """The runs of a claim in a setting: those of the ledger in float32, and the same to train in bfloat16."""

    cell: BankCell
    known: Known
    full: pd.DataFrame
    disk: DiskRuns
    keys: list[RunKey]


def main(first: int, names: list[str]) -> None:
    pairs = {name: pairs_of(known_claims(name)[0][name], first) for name in names}
    train_missing([pair for of_claim in pairs.values() for pair in of_claim])
    rows: dict[str, dict[str, Any]] = {}
    for name, of_claim in pairs.items():
        both = [(pair, (pair.full, pair.disk.rows(pair.keys))) for pair in of_claim]
        for pair, tables in both:
            row = {"setting": pair.cell.name, "network": pair.cell.what, "accuracy": {}}
            rows.setdefault(pair.cell.name, row)["accuracy"] |= accuracies(*tables)
        settings = [
            [
                setting_of_runs(pair.cell, runs, pair.known.measure, pair.known.examples(pair.cell, runs))
                for runs in tables
            ]
            for pair, tables in both
        ]
        claim = of_claim[0].known.claim
        words = [judge([s[i] for s in settings], claim, drawn=True, asked=first) for i in (0, 1)]
        print(name, *(f"{word['verdict']}: {word['holds']} of {word['n']}" for word in words), sep=" | ")
    write_rows(DATA / PRECISION, list(rows.values()))
    write_page()


def pairs_of(claim: Claim, first: int) -> list[Pair]:
    """The first settings of a claim."""
    known, pairs = Known(claim, StoredEvidence(), None), []
    half = dataclasses.replace(claim, fixed=[*claim.fixed, "trainer.precision=bf16-mixed"])
    disk = DiskRuns(half, OUT)
    for cell in list(claim.cells.values())[:first]:
        runs = runs_at(known.cell_runs(cell, claim.seed_range)[0], cell, known.measure, claim.rate)
        columns = runs[["norm", "level", "seed", "lr"]].itertuples(index=False)
        pairs.append(Pair(cell, known, runs, disk, [RunKey(cell.name, *key) for key in columns]))
    return pairs


def train_missing(pairs: list[Pair]) -> None:
    """Train in bfloat16 what is not finished. Exits where that fails."""
    specs = {spec.folder: spec for pair in pairs for spec in pair.disk.missing(pair.keys)}
    shown = {folder: name for pair in pairs for folder, name in pair.disk.names.items()}
    times = estimated_seconds(list(specs.values()), Estimates(each_norm=False))
    cells = cells_of(list(specs.values()), [shown[folder] for folder in specs], times)
    if status := train(cells, Options(), launch_folder(OUT), "scripts/compare_precision.py"):
        sys.exit(status)


def accuracies(full: pd.DataFrame, half: pd.DataFrame) -> dict[str, list[float]]:
    """Norm -> mean test accuracy of its seeds in float32 and in bfloat16."""
    means = [runs.groupby("norm", sort=False)["test_accuracy"].mean() for runs in (full, half)]
    return {norm: [float(of_precision[norm]) for of_precision in means] for norm in means[0].index}


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
