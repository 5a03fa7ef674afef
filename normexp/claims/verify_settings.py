"""The verdict of a claim over several settings: registration, evidence look by look, contrast, manipulation check."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.kept import Kept
from normexp.claims.evidence.resolved_protocol import resolved_protocol
from normexp.claims.evidence.settings_evidence import LEDGER
from normexp.claims.evidence.sources import MANIPULATION, Anew, FromTable, Source
from normexp.claims.judge.outcomes import Setting
from normexp.claims.judge.settings_verdict import make_settings_verdict
from normexp.claims.judge.settings_word import INCONCLUSIVE
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
        runs = ledger_rows(settings, root)
        late: int | None = 0
        if row and (early := too_early(row, runs, root)):
            late = asked_late(row, runs, root)
            row, why = (None, early) if late is None else (row, why)
        verdict = make_settings_verdict(
            claim,
            settings,
            looks=len(claim.looks),
            row=row,
            late=f"registered after {late} of {len(runs)} runs" if late else "",
            contrast=_contrast(claim, source),
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


def ledger_rows(settings: list[Setting], root: Path) -> pd.DataFrame:
    """The ledger's rows for the runs in these settings; none for networks at initialization, which are built again each
    time."""
    names = {run for setting in settings for own in setting.outcomes.values() for run in own.runs}
    if not names:
        return pd.DataFrame({"run": [], "seconds": []})
    tables = [pd.read_csv(root / LEDGER / f"{setting.name}.csv") for setting in settings]
    runs = pd.concat(tables, ignore_index=True).rename(columns={"hash": "run"})
    return runs[runs["run"].isin(names)].fillna({"commit": ""})


def too_early(row: Row, runs: pd.DataFrame, root: Path) -> str:
    """The objection to the first run that did not come after its row; empty if there is none."""
    each = [{str(key): value for key, value in run.items()} for run in runs.to_dict("records")]
    found = not_after(row, each, registry_of(root))
    return f"{len(found)} of {len(runs)} runs: {found[0]}" if found else ""


def asked_late(row: Row, runs: pd.DataFrame, root: Path) -> int | None:
    """The number of runs that had started when the claim was registered, if all came after the bank's own row; None if
    some did not."""
    each = [{str(key): value for key, value in run.items()} for run in runs.to_dict("records")]
    own = latest(read_registry(root / REGISTRY), "bank")
    if own is None or not_after(own, each, registry_of(root)):
        return None
    return sum(started(run) < datetime.fromisoformat(row.date) for run in each)


def _cost(runs: pd.DataFrame) -> dict[str, Any]:
    return {"trained": 0, "from_cache": len(runs), "training_seconds": round(float(runs["seconds"].sum()), 1)}


def _contrast(claim: Claim, source: Source) -> dict[str, list[Setting]] | None:
    own = claim.contrast
    if own is None:
        return None
    fresh = range(own.first_seed, own.first_seed + own.seeds)
    return {name: source(name, cells, fresh) for name, cells in own.groups.items()}


def _manipulation(claim: Claim, seeds: int, source: Source) -> list[Setting] | None:
    own = claim.manipulation
    if own is None:
        return None
    return source(MANIPULATION, claim.settings, claim.seed_range(seeds), own.function)
