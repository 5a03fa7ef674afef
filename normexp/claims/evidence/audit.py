"""Train random rows of a ledger again. A run is deterministic, so a row that was edited, made up or computed by other
code does not come out again.

On the same kind of processor, with as many threads and the same torch, every number must be equal to the last digit
that the ledger keeps. Elsewhere sums are rounded in another order, which training amplifies; `TOLERANCE` holds there.
What an audit found can be kept in the ledger, where the atlas of a bank tells it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.disk_runs import NUMBERS, DiskRuns, RunKey, complete_cells, launch_folder, train
from normexp.claims.evidence.keep import grid_claim, write_manifest
from normexp.claims.evidence.stored import AUDIT, StoredEvidence, level_text
from normexp.claims.spec.bank import Bank
from normexp.claims.spec.claim import Claim
from normexp.config.run_spec import RunSpec
from normexp.runs.files import write_json
from normexp.sweeps.options import Options

SAME = ("processor", "threads", "torch", "mode", "replicas")
TOLERANCE = {
    "loss": 0.1,
    "accuracy": 0.03,
}  # of losses a share, of accuracies points; measured, see docs/claims.md
DIGITS = "%.9g"  # of a ledger's numbers


@dataclass(frozen=True)
class AuditRow:
    """A row to audit, with the keys of all runs that trained side by side with it, and its place among them."""

    claim: Claim
    row: dict[str, Any]
    keys: list[RunKey]
    place: int

    @property
    def name(self) -> str:
        parts = {key: self.row[key] for key in ("cell", "norm", "level", "lr", "seed")}
        return " ".join([self.claim.id, *(str(value) for value in parts.values() if value != "")])


def rows_of(stored: StoredEvidence, bank: Bank, claims: Sequence[Claim]) -> tuple[list[AuditRow], int]:
    """(the rows whose configuration today's files of banks and claims name, the number of the others)."""
    grid = [grid_claim(bank)] if bank.norms else []
    audit_rows, others = list[AuditRow](), 0
    for claim in [*grid, *(claim for claim in claims if claim.evidence == "training" and claim.settings)]:
        rows = (
            stored.grid_rows(claim.cells.values()).assign(level="")
            if claim in grid
            else stored.own_rows(claim)
        )
        if rows.empty:
            continue
        levels = {level_text(level): level for level in claim.levels}
        rows = rows.assign(level=rows["level"].map(level_text))
        in_files = rows["cell"].isin(claim.cells) & rows["level"].isin(levels) & rows["norm"].isin(claim.arms)
        others += int((~in_files).sum())
        for group in _together(rows[in_files]):
            records: list[Any] = group.to_dict("records")
            keys = [
                RunKey(row["cell"], row["norm"], levels[row["level"]], int(row["seed"]), float(row["lr"]))
                for row in records
            ]
            audit_rows += [AuditRow(claim, row, keys, place) for place, row in enumerate(records)]
    return audit_rows, others


def _together(rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The rows of each process: replicas are rounded as those beside them in their batch of models."""
    for (*_, mode, replicas), group in rows.groupby(
        ["cell", "norm", "level", "mode", "replicas"], sort=False
    ):
        if mode == "replica" and len(group) == replicas:
            yield group
        else:
            process = group["started"] if mode == "replica" else group.index
            yield from (subset for _, subset in group.groupby(process, sort=False))


def audit(
    stored: StoredEvidence, bank: Bank, claims: Sequence[Claim], n: int, seed: int, out: Path, options: Options,
    command: str, keep: Path | None = None,
) -> int:  # fmt: skip
    """Train `n` random rows again, print how each compares, and return the exit status: 1 if one differs. `keep`: the
    ledger in which this is kept."""
    audit_rows, others = rows_of(stored, bank, claims)
    if not audit_rows:
        raise ValueError(
            f"{stored.folder}: has no row that bank={bank.name} and the claims here can train again"
        )
    places = (
        pd.Series(range(len(audit_rows))).sample(min(n, len(audit_rows)), random_state=seed).sort_values()
    )
    chosen = [audit_rows[place] for place in places]
    print(f"{len(chosen)} of {len(audit_rows)} rows of {stored.folder}, drawn with seed={seed}; {others} others "
          "name cells that are not here")  # fmt: skip
    cache = out / str(seed) / "cache"
    disks = {audit_row.claim.id: DiskRuns(complete_cells(audit_row.claim), cache) for audit_row in chosen}
    specs: dict[Path, RunSpec] = {}
    for audit_row in chosen:
        disk = disks[audit_row.claim.id]
        disk.check(audit_row.keys)
        specs |= {spec.folder: spec for spec in disk.missing(audit_row.keys)}
    if specs:
        names = {path: name for disk in disks.values() for path, name in disk.names.items()}
        folder, named = launch_folder(out / str(seed)), [names[path] for path in specs]
        cells = train(list(specs.values()), options, folder, command, names=named, what="rows trained again")
        if any(cell.state in ("failed", "interrupted") for cell in cells):
            return 1
    if options.plan:
        return 0
    results: list[dict[str, Any]] = []
    for audit_row in chosen:
        again: Any = disks[audit_row.claim.id].rows([audit_row.keys[audit_row.place]]).iloc[0].to_dict()
        other = [
            f"{x} {audit_row.row.get(x)}, not {again[x]}" for x in SAME if audit_row.row.get(x) != again[x]
        ]
        differing = differences(audit_row.row, again, same=not other)
        what = "the same to the last digit"
        if other:
            what = f"the same within the tolerance of other machines (the row: {', '.join(other)})"
        print(f"{audit_row.name}: {'; '.join(differing) or what}", flush=True)
        off = {kind: deviation(audit_row.row, again, kind) for kind in TOLERANCE}
        on = {name: str(again[name]) for name in ("processor", "threads", "torch", "commit")}
        results.append(
            {"row": audit_row.name, "other": other, "differences": differing, "off": off, "on": on}
        )
    right = sum(not result["differences"] for result in results)
    print(f"{right} of {len(results)} rows came out again")
    if keep:
        record = {"of": len(audit_rows), "seed": seed, "tolerance": TOLERANCE, "rows": results}
        keep.mkdir(parents=True, exist_ok=True)
        write_json(keep / AUDIT, record, indent=1)
        write_manifest(keep, [AUDIT])
        print(keep / AUDIT)
    return 0 if right == len(results) else 1


def differences(row: dict[str, Any], again: dict[str, Any], *, same: bool) -> list[str]:
    """What a row says that its run does not; `same`: on the same kind of machine, where every digit counts."""
    if row["hash"] != again["hash"]:
        return [f"names another configuration ({row['hash'][:8]}, today's files give {again['hash'][:8]})"]
    said = {name: f"{name} {row[name]} and again {again[name]}" for name in ("status", "steps")}
    differing = [words for name, words in said.items() if row[name] != again[name]]
    for name in NUMBERS:
        old, new = _number(row[name]), _number(again[name])
        room = 0.0 if same else TOLERANCE[name.partition("_")[2]]
        if DIGITS % old != DIGITS % new and not _off(name, row, again) <= room:
            differing.append(f"{name} {old:.9g} and again {new:.9g}")
    return differing


def deviation(row: dict[str, Any], again: dict[str, Any], kind: str) -> float | None:
    """The largest difference in losses, as a share of the row's, or in accuracies; 0 between equal digits. None if only
    one of the two has a number."""
    largest = max(_off(name, row, again) for name in NUMBERS if name.endswith(kind))
    return largest if math.isfinite(largest) else None


def _off(name: str, row: dict[str, Any], again: dict[str, Any]) -> float:
    old, new = _number(row[name]), _number(again[name])
    if DIGITS % old == DIGITS % new:
        return 0.0
    scale = abs(old) if name.endswith("loss") else 1.0
    size = abs(old - new) / scale if scale else math.inf
    return math.inf if math.isnan(size) else size


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
