"""Runs of a claim over settings that the bank lacks: their list, their training, and their ledger.

`<folder>/<id>/runs.csv` has one row per run. `<folder>/<id>/<cell>.npz` has the test examples of the runs that are
read. `<folder>/<id>/curves.csv.gz` has the learning curves of all runs. `<folder>/code.json` says what each digest of
code in the rows stands for.
"""

import dataclasses
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.bank_runs import row_of
from normexp.claims.evidence.chosen_runs import measure_of, runs_at
from normexp.claims.evidence.claim_runs import ClaimCell
from normexp.claims.evidence.learning_curves import own_curves, write_curves
from normexp.claims.evidence.ledger import LEDGER, code_digest, keep_codes, read_ledger, write_examples
from normexp.claims.evidence.metric import read_metric
from normexp.claims.evidence.training_runs import Runs
from normexp.claims.evidence.wanted import Wanted
from normexp.claims.evidence.widened_grid import Grid
from normexp.claims.spec.bank import Bank, BankCell
from normexp.claims.spec.claim import Claim
from normexp.runs import load_test_examples, read_summary

OF_RUNS = ("test/error", "test/loss", "train/loss", "failed")  # metrics that every row has


def runs_in(claim: Claim, cell: BankCell, outputs: Path) -> Runs:
    """The runs of a claim in one cell, in the cache that all claims share."""
    overrides = [
        override.replace("${seed}", r"$\{seed\}")  # as Hydra's sweeps write it: `.hydra/` resolves no key
        for override in cell.overrides
        if override != "monitor=none"
    ]
    fixed = [*overrides, *claim.fixed]
    own = dataclasses.replace(claim, settings={}, tune=None, fixed=fixed, replicas=cell.replicas)
    return Runs(own, outputs / "cache", f"scripts/own_runs.py train claim={claim.id}")


class OwnRuns:
    """The runs that a claim itself trains in a cell."""

    def __init__(self, place: ClaimCell, outputs: Path):
        self.place, self.runs = place, runs_in(place.claim, place.cell, outputs)

    @cached_property
    def rows(self) -> pd.DataFrame:
        """One row per finished run, with its folder, its code and its metrics: at the rates that a verdict needs, and
        at none that the widening rule did not ask for."""
        rates = self.place.cell.rates
        table, tried, asked = pd.DataFrame({"cell": [], "lr": []}), set(rates), rates
        while True:
            found = list(self._each_row(asked))
            table = pd.concat([table, pd.DataFrame(found)], ignore_index=True) if found else table
            rates = self.place.grid(self.place.known(table))
            asked = tuple(rate for rate in rates if rate not in tried)
            tried.update(asked)
            if not asked:
                return table[table["lr"].isin(rates)]

    def missing(self) -> list[Wanted]:
        """The runs to train next. When they are finished, the claim may need wider rates."""
        return self.runs.missing(self.place.wanted(self.place.grid(self.known)))

    @property
    def known(self) -> pd.DataFrame:
        """The same rows, and those of the bank that the claim shares."""
        return self.place.known(self.rows)

    def _each_row(self, rates: Grid) -> Iterator[dict[str, Any]]:
        claim = self.place.claim
        check = claim.manipulation and claim.manipulation.metric
        for run in self.place.wanted(rates):
            folder = self.runs.folder(run)
            if (summary := read_summary(folder)) is None:
                continue
            row = row_of(self.place.cell.name, summary)
            row |= {"norm": run.arm, "level": run.level, "folder": str(folder), "sources": summary["sources"]}
            metric = claim.metric_of(run.arm)
            row["value"] = row["train_loss"] if metric in OF_RUNS else read_metric(metric, summary, folder)[0]
            row["check"] = read_metric(check, summary, folder)[0] if check else None
            yield row


def own_runs(
    claim: Claim, cells: list[BankCell], bank: Bank, outputs: Path, root: Path
) -> dict[str, OwnRuns]:
    """What a claim trains in each cell. `root` holds the ledger of the bank."""
    ledger = read_ledger(root / LEDGER, [cell.name for cell in cells])
    return {cell.name: OwnRuns(ClaimCell(claim, cell, bank, ledger), outputs) for cell in cells}


def write_own_ledger(claim: Claim, each: dict[str, OwnRuns], folder: Path) -> int:
    """Write the finished runs of a claim, of all its cells by name, below `folder`. Returns their number. Raises
    ValueError if some are missing."""
    for name, own in each.items():
        if left := own.missing():
            raise ValueError(f"claim={claim.id}: {name}: {len(left)} runs are missing; train them first")
    found = {name: own for name, own in each.items() if len(own.rows)}
    if not found:
        return 0
    (folder / claim.id).mkdir(parents=True, exist_ok=True)
    codes: dict[str, Any] = {}
    measures = {measure_of(claim.metric_of(arm)) for arm in claim.arms} & {"error", "loss"}
    tables = []
    for name, own in found.items():
        tables.append(own.rows.assign(code=[code_digest(source, codes) for source in own.rows["sources"]]))
        for measure in measures:
            read = runs_at(own.known, own.place.cell, measure, claim.rate)
            places = read.loc[read["hash"].isin(own.rows["hash"]), ["hash", "folder"]]
            examples = {
                str(run): load_test_examples(str(place)) for run, place in places.itertuples(index=False)
            }
            kept = {run: one for run, one in examples.items() if one is not None}
            write_examples(folder / claim.id / f"{name}.npz", kept, losses=measure == "loss")
    table = pd.concat(tables, ignore_index=True)
    write_curves(own_curves(folder, claim.id), table)
    table = table.drop(columns=["folder", "sources"])
    table.to_csv(folder / claim.id / "runs.csv", index=False, float_format="%.9g")
    keep_codes(folder, codes)
    return len(table)
