"""Write finished runs and values into a ledger, its manifest, and its second archive."""

import itertools
import json
import zipfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from normexp.claims.evidence.choose_rates import runs_at, tuned_runs
from normexp.claims.evidence.curves import bank_curves, curves_of_runs, own_curves, read_curves, write_curves
from normexp.claims.evidence.metric import measure_of
from normexp.claims.evidence.plan import Known, missing_keys
from normexp.claims.evidence.stored import (
    ARMS,
    CELLS,
    COSTS,
    MANIFEST,
    SECOND_ARCHIVE,
    StoredEvidence,
    file_digest,
    ledger_of_bank,
)
from normexp.claims.judge.comparison import Comparison
from normexp.claims.spec.bank import Bank
from normexp.claims.spec.cell import BankCell
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.registry import COMMITS, GRID, REGISTRY, kept_commits, open_registry
from normexp.runs import TestExamples
from normexp.runs.files import alone, atomic_write, write_json

MEASURES = ("error", "loss")  # what claims ask of test examples


def grid_claim(bank: Bank) -> Claim:
    """The grid of a bank as a claim: every norm in every cell of the grid, at every rate and seed."""
    if not bank.norms:
        raise ValueError(
            f"bank={bank.name}: has no grid; write grid: {{norms: [...], seeds: 6}} into its file"
        )
    return _claim_of_cells(bank, bank.grid.cells, GRID)


def setting_claim(bank: Bank, name: str) -> Claim:
    """The grid of a drawn bank in one setting, at both lengths."""
    return _claim_of_cells(bank, {cell.name: cell for cell in bank.at_lengths(name)}, name)


def _claim_of_cells(bank: Bank, cells: dict[str, BankCell], name: str) -> Claim:
    first, *others = bank.norms
    return Claim(
        id=name,
        name=GRID,
        sentence="Norms differ.",
        source=bank.name,
        covers=(),
        evidence="training",
        metric="test/error",
        arms={norm: [f"norm={norm}"] for norm in bank.norms},
        seeds=bank.seeds,
        settings={name: list(cell.overrides) for name, cell in cells.items()},
        cells=cells,
        comparisons=[Comparison(kind="different", arm=first, baseline=other) for other in others],
        seconds=1.0,
    )


def keep_verdict(folder: Path, claim: Claim, table: pd.DataFrame, verdict: dict[str, Any]) -> None:
    """Write the values of one claim that has no ledger of runs. The same values give the same bytes."""
    place = folder / "verdicts"
    place.mkdir(parents=True, exist_ok=True)
    record = {
        "id": claim.id,
        "protocol": claim.protocol,
        "budget": claim.budget,
        "row": (verdict.get("registered") or {}).get("row"),
        "torch": version("torch"),
        **{key: verdict[key] for key in COSTS if key in verdict},
    }
    _write_csv(place / f"{claim.id}.csv.gz", table, na_rep="nan", compression={"method": "gzip", "mtime": 0})
    write_json(place / f"{claim.id}.json", record)
    write_manifest(folder, [f"verdicts/{claim.id}.csv.gz", f"verdicts/{claim.id}.json"])


def keep_claim(folder: Path, known: Known) -> str:
    """Write the runs of a claim over settings into a ledger, or into the part of it that its drawn bank has. Returns a
    line on them. Raises ValueError if no setting is finished."""
    claim = known.claim
    ledger = ledger_of_bank(claim.drawn_from, folder) if claim.drawn_from else folder
    finished = sum(map(known.is_finished, claim.cells.values()))
    of = f" of {finished} of {len(claim.cells)} settings" if finished < len(claim.cells) else ""
    return f"{claim.id}: {keep_runs(ledger, known)} runs{of} in {ledger}"


def keep_runs(folder: Path, known: Known) -> int:
    """Write the runs of the finished settings of a claim or a grid into a ledger. Returns how many runs of it the
    ledger has. Raises ValueError if no setting is finished."""
    claim = known.claim
    cells = [cell for cell in claim.cells.values() if known.is_finished(cell)]
    if not cells:
        missing = len(missing_keys(claim, known))
        trains = "evidence grid bank=BANK" if claim.name == GRID else f"verify claim={claim.id}"
        raise ValueError(f"claim={claim.id}: {missing} runs are missing; train them first: normexp {trains}")
    of_grid = claim.name == GRID
    place = folder / ("bank" if of_grid else f"claims/{claim.id}")
    if not (folder / MANIFEST).exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_manifest(folder, [])
    place.mkdir(parents=True, exist_ok=True)
    tables: list[pd.DataFrame] = []
    new, in_ledger = False, 0  # runs of a grid whose settings the ledger has already
    stored = StoredEvidence(folder)
    stored.check_cells(claim.cells.values())
    if not of_grid:
        stored.check_arms(claim)
        # Of settings that are not finished now: a claim may ask for more since.
        others = stored.own_rows(claim)
        others = others[~others["cell"].isin([cell.name for cell in cells])]
        tables += [others] if len(others) else []
    for cell in cells:
        rows = known.finished(cell)
        if "bank" in rows and not of_grid:
            rows = rows[rows["bank"] != True]  # noqa: E712  (runs of this disk have none)
        if "folder" not in rows or not rows["folder"].notna().any():  # all of them are in the ledger
            if of_grid:
                in_ledger += len(rows)
            elif len(rows):
                tables.append(rows)
            continue
        new = True
        read_hashes = _read_in_grid(known, cell, rows) if of_grid else _read_by(claim, known, cell)
        of = known.examples(cell, rows)
        asked = {run: of(run) for run in read_hashes.intersection(rows["hash"])}
        examples = {run: stored_one for run, stored_one in asked.items() if stored_one is not None}
        losses = not cell.draw and (of_grid or "loss" in _measures(claim))
        write_examples(place, cell.name, examples, losses=losses)
        tables.append(rows)
    tables_by_name = {str(rows["cell"].iloc[0]): rows for rows in tables} if of_grid else {}
    if new and not of_grid:
        tables_by_name["runs"] = pd.concat(tables, ignore_index=True)
    for name, rows in tables_by_name.items():
        _write_curves(bank_curves(place, name) if of_grid else own_curves(folder / "claims", claim.id), rows)
        aside = ["folder", "bank", "censored", *["level", "value", "check"] * of_grid]
        table = rows.drop(columns=aside, errors="ignore")
        _write_csv(place / f"{name}.csv", table, float_format="%.9g")
    if not of_grid:
        arms = stored.arms(claim.id) | {arm: claim.digest_of(arm) for arm in claim.arms}
        write_json(place / ARMS, dict(sorted(arms.items())), indent=1)
    kept = {cell.name: cell.digest for cell in cells if cell.overrides}
    write_json(folder / CELLS, dict(sorted((stored.cells | kept).items())), indent=1)
    files = [*place.iterdir(), folder / CELLS]
    write_manifest(folder, [path.relative_to(folder).as_posix() for path in files if path.is_file()])
    return in_ledger + sum(map(len, tables))


def _measures(claim: Claim) -> set[str]:
    return {measure_of(claim.metric_of(arm)) for arm in claim.arms} & set(MEASURES)


def _read_by(claim: Claim, known: Known, cell: BankCell) -> set[str]:
    """Hashes of the runs whose test examples a verdict reads."""
    rows = known.finished(cell)
    return {run for measure in _measures(claim) for run in runs_at(rows, cell, measure, claim.rate)["hash"]}


def _read_in_grid(known: Known, cell: BankCell, runs: pd.DataFrame) -> set[str]:
    """Hashes of the runs of a grid whose test examples claims may read: those at the lowest rate of the first grid, and
    those at each seed's best rate by error and by loss, on every grid."""
    if cell.draw:  # the runs at each seed's best rate
        return set(tuned_runs(runs, "error")["hash"])
    grids = known.grids[cell.name]
    hashes: set[str] = set(runs.loc[runs["lr"] == grids[0][0], "hash"])
    for measure, rates in itertools.product(MEASURES, grids):
        for _, arm_runs in runs[runs["lr"].isin(rates)].groupby("norm"):
            complete = arm_runs.groupby("seed")["lr"].nunique() == len(rates)
            ready = arm_runs[arm_runs["seed"].isin(complete.index[complete])]
            if len(ready):
                hashes |= set(tuned_runs(ready, measure)["hash"])
    return hashes


def write_examples(
    folder: Path, cell: str, examples: dict[str, TestExamples], *, losses: bool = True
) -> None:
    """Which answers were right, and losses unless left out, of runs that met the same number of examples; no file where
    there are none."""
    if not examples:
        return
    names = sorted(examples)
    with atomic_write(folder / f"{cell}.npz") as file:
        np.savez_compressed(
            file,
            hash=np.array(names),
            shape=np.array(examples[names[0]].right.shape),
            right=np.stack([np.packbits(examples[name].right) for name in names]),
            test_set=np.array([examples[name].test_set for name in names]),
        )
    if losses and all(len(examples[name].loss) for name in names):
        with atomic_write(folder / f"{cell}.losses.npz") as file:
            np.savez_compressed(
                file, loss=np.stack([examples[name].loss.astype(np.float16) for name in names])
            )


def _write_curves(path: Path, rows: pd.DataFrame) -> None:
    """The curves of runs on this disk, after those that the file has of others."""
    new, old = curves_of_runs(rows[rows["folder"].notna()]), read_curves(path)
    run = ["cell", "norm", "seed", "lr"]
    unchanged = old[~pd.MultiIndex.from_frame(old[run]).isin(pd.MultiIndex.from_frame(new[run]))]
    write_curves(path, pd.concat([unchanged, new], ignore_index=True) if len(unchanged) else new)


def _write_csv(path: Path, table: pd.DataFrame, **options: Any) -> None:
    with atomic_write(path) as file:
        table.to_csv(file, index=False, **options)


def write_manifest(folder: Path, names: Iterable[str] | None = None) -> None:
    """Write the digests of these files, of the registry and of its commits beside the others; by default of all files.

    The registry of each commit that the rows name is kept too, for who has no history of it.
    """
    with alone(folder / MANIFEST):  # the claims of one command are judged side by side
        stored = StoredEvidence(folder)
        old = stored.manifest
        if names is None or not old:
            old, names = {}, [path.relative_to(folder).as_posix() for path in stored.files()]
            names += [CELLS] * (folder / CELLS).exists()
        if (folder / REGISTRY.name).exists():
            _keep_commits(folder)
            names = [*names, REGISTRY.name, COMMITS]
        files = old | {name: file_digest(folder / name) for name in names}
        write_json(folder / MANIFEST, {"files": dict(sorted(files.items()))}, indent=1)


def _keep_commits(folder: Path) -> None:
    """`commits.json`: what the registry was at the commits of the rows."""
    tables = [*folder.glob("bank/*.csv"), *folder.glob("claims/*/runs.csv")]
    commits = {
        commit for path in tables for commit in pd.read_csv(path, usecols=["commit"])["commit"].dropna()
    }
    path = folder / COMMITS
    recorded = json.loads(path.read_text()) if path.exists() else {}
    write_json(path, recorded | kept_commits(open_registry(folder / REGISTRY.name), commits), indent=1)


def export(folder: Path, path: Path) -> int:
    """Write the second archive, a zip of the files that a wheel leaves out. Returns their number."""
    names = [name for name in StoredEvidence(folder).manifest if name.endswith(SECOND_ARCHIVE)]
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in names:
            archive.write(folder / name, name)
    return len(names)
