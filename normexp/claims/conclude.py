"""From evidence to the verdict of a claim over several settings: its registration and its manipulation check."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.plan import Known
from normexp.claims.evidence.protocol import resolved_protocol
from normexp.claims.evidence.sources import MANIPULATION, ComputedSource, Source, StoredSource
from normexp.claims.evidence.stored import EVIDENCE, StoredEvidence, StoredVerdict
from normexp.claims.judge import judge
from normexp.claims.judge.verdict import WITHDRAWN_WORD
from normexp.claims.judge.verdict_text import with_scope
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.registration import (
    REGISTRY,
    Registry,
    default_registry,
    grid_subject,
    open_registry,
    population_subject,
    runs_before_registration,
)
from normexp.claims.spec.registry import WITHDRAWN, Row, digest, notices, subject_of
from normexp.config.process import command

Registration = tuple[Row | None, str, Registry | None]  # the claim's row, else the reason why it has none


def conclude(
    claim: Claim,
    known: Known | None = None,
    stored: StoredVerdict | None = None,
    registries: Sequence[Path] | None = None,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Table and verdict of a claim over several settings.

    Args:
        known: the finished runs of a training claim.
        stored: values of networks at initialization, which then need not be built again.
        registries: where the claim's row is looked for.

    Raises ValueError with one line if a run is missing, or if runs of the ledger were computed by other code.
    """
    made = StoredSource(claim, stored.table) if stored else ComputedSource(claim)
    source: Source = known or made
    cells = claim.settings
    if known and claim.drawn:  # there is no word before all that were asked for are finished
        cells = {name: own for name, own in cells.items() if known.is_finished(claim.cells[name])}
    open_ = [name for name in claim.settings if name not in cells]
    settings = source("", cells)
    checks = source(MANIPULATION, cells) if claim.manipulation else None
    again = known.worst(settings)[0] if known and claim.drawn and claim.universal and settings else None
    runs = known.read_runs() if known and settings else pd.DataFrame({"run": [], "seconds": [], "bank": []})
    row, why, late = None, "hand-picked settings make no word, so there is nothing to register", 0
    if claim.drawn:
        paths = registries_of() if registries is None else registries
        row, why, registry = registration(claim, paths, (stored.record["row"] or 0) if stored else None)
        if row and registry and len(runs):
            late, against = runs_before_registration(row, runs, registry, claim.bank)
            row, why = (None, against) if against else (row, why)
    verdict = judge(
        settings,
        claim,
        row=row,
        drawn=claim.drawn,
        asked=claim.first,
        waiting=waiting(known, open_) if known else "",
        late=f"registered after {late} of {len(runs)} runs" if late else "",
        manipulation=checks,
        again=again,
        extra={"unregistered_because": why, "runs": _cost(runs, known)},
    )
    return source.table(), verdict


def waiting(known: Known, names: Sequence[str]) -> str:
    """What the settings that are not finished wait for, in words."""
    near = sum(known.is_near(name) for name in names)
    words = [f"{near} near the margin wait{'s' * (near == 1)} for two more seeds"] * bool(near)
    return "; ".join(filter(None, [*words, of_the_grid(known)]))


def of_the_grid(known: Known) -> str:
    """How many settings of a claim the grid of its bank is still to train, with the command; empty if none, and for
    who judges from the ledger alone and trains nothing."""
    claim, bank = known.claim, known.claim.drawn_from
    left = len(claim.cells) - len(known.ready)
    if not left or bank is None or known.disk is None:
        return ""
    return (
        f"{left} of {len(claim.cells)} wait for the grid of bank={bank.name}, which is unfinished: "
        f"{command('evidence')} grid bank={bank.word}"
    )


def unregistered(claim: Claim, registries: Sequence[Path] | None = None) -> str:
    """Why the runs of a claim over a registered population would come before a row of its own; empty if it has one, or
    if its population has none."""
    paths = registries_of() if registries is None else registries
    subjects = (grid_subject(claim.bank), population_subject(claim.bank))
    rows = [row for path in paths for row in _opened(path, path.stat().st_mtime_ns).rows]
    known = claim.drawn and any(row.subject in subjects for row in rows)
    return registration(claim, paths)[1] if known else ""


def registries_of(evidence: Path = EVIDENCE) -> list[Path]:
    """Where rows are looked for: in the user's own registry, then in that of the ledger."""
    own, shipped = default_registry(), evidence / REGISTRY
    paths = [path for path in (own, shipped) if path.exists()]
    return paths[:1] if len(paths) > 1 and own.samefile(shipped) else paths


def registration(claim: Claim, registries: Sequence[Path], gathered: int | None = None) -> Registration:
    """The claim's row if its protocol is the registered one. Otherwise None and the reason.

    Args:
        gathered: number of the row under which stored values were gathered; their protocol is known by it.
    """
    subject = subject_of(claim.id, claim.budget)
    for path in registries:
        registry = _opened(path, path.stat().st_mtime_ns)
        if (row := registry.latest(subject)) is None:
            continue
        if gathered is not None:
            found = row.number == gathered
            return (row, "", registry) if found else (None, f"gathered before row {row.number}", None)
        if row.protocol != digest(resolved_protocol(claim)):
            return None, f"the protocol is not the one of row {row.number}; register the amendment", None
        return row, "", registry
    return None, "no row of the registry", None


def noticed(
    verdict: dict[str, Any], claim: Claim, registries: Sequence[Path] | None = None
) -> dict[str, Any]:
    """The verdict with what rows of the registry say of it: what was found to be wrong stands in its note, and a
    withdrawn one has that word in place of its own."""
    paths = registries_of() if registries is None else registries
    rows = [
        row
        for path in paths
        for row in notices(_opened(path, path.stat().st_mtime_ns).rows, subject_of(claim.id, claim.budget))
    ]
    said = [
        f"{row.subject.partition(' ')[0]} by row {row.number} ({row.date[:10]}): {row.reason}" for row in rows
    ]
    note = "; ".join(filter(None, (verdict["note"], *said)))
    if not any(row.subject.startswith(WITHDRAWN) for row in rows):
        return verdict | {"note": note}
    gone = {"verdict": WITHDRAWN_WORD, "scope": "", "p": None, "as_expected": None}
    return verdict | gone | {"note": f"{note}; the word was: {with_scope(verdict)}"}


@functools.lru_cache(maxsize=8)
def _opened(path: Path, written: int) -> Registry:
    return open_registry(path)


def from_ledger(claim: Claim, evidence: StoredEvidence) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The same for a training claim, from the ledger alone."""
    return conclude(claim, Known(claim, evidence, None), registries=registries_of(evidence.folder))


def _cost(runs: pd.DataFrame, known: Known | None) -> dict[str, Any]:
    each = runs["seconds"] / runs.get("replicas", 1)
    new = {str(folder) for folder in known.disk.new} if known and known.disk else set()
    trained = int(runs["folder"].isin(new).sum()) if "folder" in runs else 0
    seconds = round(float(each.sum()), 1)
    return {"trained": trained, "from_cache": len(runs) - trained, "training_seconds": seconds}
