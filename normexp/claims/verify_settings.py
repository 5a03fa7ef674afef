"""The verdict of a claim over several settings: registration, evidence look by look, contrast, manipulation check."""

import itertools
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.kept import Kept
from normexp.claims.evidence.ledger import LEDGER, OWN_LEDGER, read_ledger, read_own_ledger
from normexp.claims.evidence.resolved_protocol import resolved_protocol
from normexp.claims.evidence.sources import MANIPULATION, Anew, FromTable, Source
from normexp.claims.judge import judge
from normexp.claims.judge.outcomes import Setting
from normexp.claims.judge.random_effects import INCONCLUSIVE
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.registered_first import not_after, registry_of, started
from normexp.claims.spec.registry import REGISTRY, Row, digest, latest, read_registry, subject_of
from normexp.config.folder import CONFIGS


def over_settings(
    claim: Claim, root: Path = CONFIGS.parent, kept: Kept | None = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Evidence and verdict. `root` holds the registry and the ledger. `kept` holds values of initial networks, which
    then need not be built again."""
    source: Source = FromTable(claim, kept.known_table) if kept else Anew(claim, root)
    row, why = kept_registration(claim, kept, root) if kept else registration(claim, root)
    for seeds in claim.looks:
        settings = source("", claim.settings, claim.seed_range(seeds))
        contrast = _contrast(claim, source)
        runs = ledger_rows(claim, [*settings, *itertools.chain(*contrast.values())], root)
        late, against = came_before(row, runs, root) if row else (0, "")
        if against:
            row, why = None, against
        verdict = judge(
            settings,
            claim,
            looks=len(claim.looks),
            row=row,
            late=f"registered after {late} of {len(runs)} runs" if late else "",
            contrast=contrast,
            manipulation=_manipulation(claim, seeds, source),
            extra={"unregistered_because": why, "runs": _cost(runs)},
        )
        if verdict["verdict"] != INCONCLUSIVE:
            break
    return source.table(), verdict


def registration(claim: Claim, root: Path) -> tuple[Row | None, str]:
    """The claim's row if its protocol is the registered one. Otherwise None and the reason."""
    row = latest(read_registry(root / REGISTRY), subject_of(claim.id, claim.budget))
    if row is None:
        return None, "no row of the registry"
    if row.protocol != digest(resolved_protocol(claim)):
        return None, f"the protocol is not the one of row {row.number}; register the amendment"
    return row, ""


def kept_registration(claim: Claim, kept: Kept, root: Path) -> tuple[Row | None, str]:
    """The row under which values were gathered, if it is still the claim's last row."""
    row = latest(read_registry(root / REGISTRY), subject_of(claim.id, claim.budget))
    if row is None or row.number != kept.record["row"]:
        return None, "no row of the registry" if row is None else f"gathered before row {row.number}"
    return row, ""


def ledger_rows(claim: Claim, settings: list[Setting], root: Path) -> pd.DataFrame:
    """The ledgers' rows for the runs in these settings, `bank` true for those that the bank trained; none for networks
    at initialization, which are built again each time."""
    names = {run for setting in settings for own in setting.outcomes.values() for run in own.runs}
    if not names:
        return pd.DataFrame({"run": [], "seconds": [], "bank": []})
    bank = read_ledger(root / LEDGER, [setting.name for setting in settings]).assign(bank=True)
    own = read_own_ledger(root / OWN_LEDGER, claim.id).assign(bank=False)
    tables = [table for table in (bank, own) if len(table)]
    runs = pd.concat(tables, ignore_index=True).rename(columns={"hash": "run"})
    return runs[runs["run"].isin(names)].fillna({"commit": ""})


def came_before(row: Row, runs: pd.DataFrame, root: Path) -> tuple[int, str]:
    """(how many runs of the bank had started when a claim that reads them was registered, what speaks against the row).

    A run of the bank that did not come after the claim's row must have come after the bank's own.
    """
    each = [{str(key): value for key, value in run.items()} for run in runs.to_dict("records")]
    rows_at, own = registry_of(root), latest(read_registry(root / REGISTRY), "bank")
    early = [run for run in each if not_after(row, [run], rows_at)]
    wrong = [run for run in early if not run["bank"] or own is None or not_after(own, [run], rows_at)]
    if wrong:
        return 0, f"{len(wrong)} of {len(each)} runs: {not_after(row, wrong[:1], rows_at)[0]}"
    return sum(started(run) < datetime.fromisoformat(row.date) for run in early), ""


def _cost(runs: pd.DataFrame) -> dict[str, Any]:
    each = runs["seconds"] / runs.get("replicas", 1)
    return {"trained": 0, "from_cache": len(runs), "training_seconds": round(float(each.sum()), 1)}


def _contrast(claim: Claim, source: Source) -> dict[str, list[Setting]]:
    own = claim.contrast
    return {name: source(name, cells, own.seed_range) for name, cells in own.groups.items()} if own else {}


def _manipulation(claim: Claim, seeds: int, source: Source) -> list[Setting] | None:
    own = claim.manipulation
    if own is None:
        return None
    return source(MANIPULATION, claim.settings, claim.seed_range(seeds), own.function)
