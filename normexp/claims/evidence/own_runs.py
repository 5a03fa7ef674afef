"""Runs of a claim over settings that the bank lacks: their list, their training, and their ledger.

`<folder>/<id>/runs.csv` has one row per run. `<folder>/<id>/<cell>.npz` has the test examples of the runs that are
read. `<folder>/<id>/curves.csv.gz` has the learning curves of all runs. `<folder>/code.json` says what each digest of
code in the rows stands for.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.bank_runs import row_of
from normexp.claims.evidence.chosen_runs import measure_of, runs_at
from normexp.claims.evidence.claim_runs import grid, known_runs, wanted
from normexp.claims.evidence.learning_curves import own_curves, write_curves
from normexp.claims.evidence.ledger import LEDGER, code_digest, keep_codes, read_ledger, write_examples
from normexp.claims.evidence.metric import read_metric
from normexp.claims.evidence.training_runs import Runs
from normexp.claims.evidence.wanted import Wanted
from normexp.claims.evidence.widened_grid import Grid
from normexp.claims.spec.bank import Bank, BankCell
from normexp.claims.spec.claim import Claim
from normexp.runs import finished_summary, load_test_examples, read_summary

OWN_LEDGER = Path("docs") / "evidence" / "claims"
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


def missing(
    claim: Claim, cell: BankCell, bank: Bank, outputs: Path, ledger: pd.DataFrame
) -> tuple[Runs, list[Wanted]]:
    """The runs that a claim has to train next in a cell. When they are finished, it may need wider rates.

    Args:
        ledger: rows of the bank.
    """
    runs = runs_in(claim, cell, outputs)
    return runs, _left(runs, claim, cell, bank, ledger, _rows(runs, claim, cell, bank, ledger))


def _left(
    runs: Runs, claim: Claim, cell: BankCell, bank: Bank, ledger: pd.DataFrame, own: pd.DataFrame
) -> list[Wanted]:
    rates = grid(claim, cell, known_runs(claim, cell, bank, own, ledger))
    return runs.missing(wanted(claim, cell, bank, rates, rates_in_bank(ledger, cell)))


def rates_in_bank(ledger: pd.DataFrame, cell: BankCell) -> set[float]:
    """The rates of a cell in the bank: those of its grid, and wider ones that it has trained."""
    return {*cell.rates, *ledger.loc[ledger["cell"] == cell.name, "lr"]}


def _rows(runs: Runs, claim: Claim, cell: BankCell, bank: Bank, ledger: pd.DataFrame) -> pd.DataFrame:
    """One row per finished run of a claim in a cell, with its folder and its metrics, at the rates that a verdict needs
    and at none that the widening rule did not ask for."""
    table, tried, asked = pd.DataFrame({"cell": [], "lr": []}), set(cell.rates), cell.rates
    while True:
        found = list(_each_row(runs, claim, cell, bank, ledger, asked))
        table = pd.concat([table, pd.DataFrame(found)], ignore_index=True) if found else table
        rates = grid(claim, cell, known_runs(claim, cell, bank, table, ledger))
        asked = tuple(rate for rate in rates if rate not in tried)
        tried.update(asked)
        if not asked:
            return table[table["lr"].isin(rates)]


def _each_row(
    runs: Runs, claim: Claim, cell: BankCell, bank: Bank, ledger: pd.DataFrame, rates: Grid
) -> Iterator[dict[str, Any]]:
    check = claim.manipulation and claim.manipulation.metric
    for run in wanted(claim, cell, bank, rates, rates_in_bank(ledger, cell)):
        folder = runs.folder(run)
        if read_summary(folder) is None:
            continue
        summary = finished_summary(folder)
        row = row_of(cell.name, summary) | {"norm": run.arm, "level": run.level, "folder": str(folder)}
        metric = claim.metric_of(run.arm)
        row["value"] = row["train_loss"] if metric in OF_RUNS else read_metric(metric, summary, folder)[0]
        row["check"] = read_metric(check, summary, folder)[0] if check else None
        yield row


def write_own_ledger(claim: Claim, cells: list[BankCell], bank: Bank, outputs: Path, root: Path) -> int:
    """Write the finished runs of a claim. Returns their number. Raises ValueError if some are missing."""
    ledger, folder = read_ledger(root / LEDGER, [cell.name for cell in cells]), root / OWN_LEDGER
    found = []
    for cell in cells:
        runs = runs_in(claim, cell, outputs)
        own = _rows(runs, claim, cell, bank, ledger)
        if left := _left(runs, claim, cell, bank, ledger, own):
            raise ValueError(f"claim={claim.id}: {cell.name}: {len(left)} runs are missing; train them first")
        found += [(cell, own)] if len(own) else []
    if not found:
        return 0
    (folder / claim.id).mkdir(parents=True, exist_ok=True)
    codes: dict[str, Any] = {}
    measures = {measure_of(claim.metric_of(arm)) for arm in claim.arms} & {"error", "loss"}
    for cell, own in found:
        sources = [finished_summary(Path(place))["sources"] for place in own["folder"]]
        own["code"] = [code_digest(source, codes) for source in sources]
        for measure in measures:
            read = runs_at(known_runs(claim, cell, bank, own, ledger), cell, measure, claim.rate)
            places = read.loc[read["hash"].isin(own["hash"]), ["hash", "folder"]]
            examples = {
                str(run): load_test_examples(str(place)) for run, place in places.itertuples(index=False)
            }
            kept = {run: one for run, one in examples.items() if one is not None}
            write_examples(folder / claim.id / f"{cell.name}.npz", kept, losses=measure == "loss")
    table = pd.concat([own for _, own in found], ignore_index=True)
    write_curves(own_curves(folder, claim.id), table)
    table = table.drop(columns="folder")
    table.to_csv(folder / claim.id / "runs.csv", index=False, float_format="%.9g")
    keep_codes(folder, codes)
    return len(table)


def read_own_ledger(folder: Path, claim: str) -> pd.DataFrame:
    """The rows of a claim's own runs; empty if it has none."""
    path = folder / claim / "runs.csv"
    if not path.exists():
        return pd.DataFrame({"cell": []})
    table = pd.read_csv(path)
    given = table[["commit", "level"]].astype(object)
    return table.assign(**given.where(given.notna(), ""))
