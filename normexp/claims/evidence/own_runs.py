"""Runs of a claim over settings that the bank lacks: their list, their training, and their ledger.

`<folder>/<id>/runs.csv` has one row per run. `<folder>/<id>/<cell>.npz` has the test examples of the runs that are
read. `<folder>/code.json` says what each digest of code in the rows stands for.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.bank_runs import row_of
from normexp.claims.evidence.chosen_runs import measure_of, runs_at
from normexp.claims.evidence.ledger import code_digest, keep_codes, write_examples
from normexp.claims.evidence.metric import read_metric
from normexp.claims.evidence.training_runs import Runs
from normexp.claims.evidence.wanted import Wanted
from normexp.claims.spec.bank import Bank, BankCell
from normexp.claims.spec.claim import Claim
from normexp.runs import finished_summary, load_test_examples, read_summary

OWN_LEDGER = Path("docs") / "evidence" / "claims"
OF_RUNS = ("test/error", "test/loss", "train/loss", "failed")  # metrics that every row has


def bank_arms(claim: Claim, bank: Bank) -> dict[str, str]:
    """Arms that change only the norm, to a norm of the bank; arm -> norm."""
    if claim.fixed or claim.factor:
        return {}
    norms = {
        arm: own[0].removeprefix("norm=")
        for arm, own in claim.arms.items()
        if len(own) == 1 and own[0].startswith("norm=")
    }
    return {arm: norm for arm, norm in norms.items() if norm in bank.norms}


def wanted(claim: Claim, cell: BankCell, bank: Bank) -> list[Wanted]:
    """Runs of every arm, level, seed and rate in a cell, without the runs of the bank."""
    shared = bank_arms(claim, bank) if cell.name in bank.cells else {}
    rates = cell.rates if claim.rate == "own" else (cell.rate(claim.rate),)
    return [
        Wanted(arm, level, seed, rate)
        for arm in claim.arms
        for level in claim.levels
        for seed in claim.seed_range(claim.looks[-1])
        if arm not in shared or seed >= bank.seeds
        for rate in rates
    ]


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


def rows(claim: Claim, cell: BankCell, bank: Bank, outputs: Path) -> Iterator[dict[str, Any]]:
    """One row per finished run of a claim in a cell, with its folder and its metrics."""
    runs = runs_in(claim, cell, outputs)
    check = claim.manipulation and claim.manipulation.metric
    for run in wanted(claim, cell, bank):
        folder = runs.folder(run)
        if read_summary(folder) is None:
            continue
        summary = finished_summary(folder)
        row = row_of(cell.name, summary) | {"norm": run.arm, "level": run.level, "folder": str(folder)}
        metric = claim.metric_of(run.arm)
        row["value"] = row["train_loss"] if metric in OF_RUNS else read_metric(metric, summary, folder)[0]
        row["check"] = read_metric(check, summary, folder)[0] if check else None
        yield row


def write_own_ledger(claim: Claim, cells: list[BankCell], bank: Bank, outputs: Path, folder: Path) -> int:
    """Write the finished runs of a claim. Returns their number. Raises ValueError if some are missing."""
    found = [(cell, pd.DataFrame(rows(claim, cell, bank, outputs))) for cell in cells]
    for cell, own in found:
        if missing := len(wanted(claim, cell, bank)) - len(own):
            raise ValueError(f"claim={claim.id}: {cell.name}: {missing} runs are missing; train them first")
    found = [(cell, own) for cell, own in found if len(own)]
    if not found:
        return 0
    (folder / claim.id).mkdir(parents=True, exist_ok=True)
    codes: dict[str, Any] = {}
    measures = {measure_of(claim.metric_of(arm)) for arm in claim.arms} & {"error", "loss"}
    for cell, own in found:
        sources = [finished_summary(Path(place))["sources"] for place in own["folder"]]
        own["code"] = [code_digest(source, codes) for source in sources]
        for measure in measures:
            read = runs_at(own, cell, measure, claim.rate)
            examples = {
                str(run): load_test_examples(str(place))
                for run, place in zip(read["hash"], read["folder"], strict=True)
            }
            kept = {run: one for run, one in examples.items() if one is not None}
            write_examples(folder / claim.id / f"{cell.name}.npz", kept, losses=measure == "loss")
    table = pd.concat([own for _, own in found], ignore_index=True).drop(columns="folder")
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
