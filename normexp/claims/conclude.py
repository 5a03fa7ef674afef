"""From evidence to the verdict of a claim: its registration, its manipulation check, and all judged again from the
ledger, without training or building a network. It imports no torch."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from normexp.claims.evidence.protocol import resolved_protocol
from normexp.claims.evidence.sources import MANIPULATION, InitialSource, Source, different
from normexp.claims.evidence.stored import COSTS, EVIDENCE, PLACE, StoredEvidence, StoredVerdict
from normexp.claims.judge.plain_words import WITHDRAWN_WORD, with_scope
from normexp.claims.judge.verdict import judge
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.registry import (
    REGISTRY,
    WITHDRAWN,
    Registry,
    Row,
    default_registry,
    digest,
    grid_subject,
    notices,
    open_registry,
    population_subject,
    runs_before_registration,
    subject_of,
)
from normexp.config.folder import CONFIGS
from normexp.config.process import command

if TYPE_CHECKING:
    from normexp.claims.evidence.plan import Known

Registration = tuple[Row | None, str, Registry | None]  # the claim's row, else the reason why it has none


def conclude(
    claim: Claim,
    known: "Known | None" = None,
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
    from normexp.claims.evidence.plan import cost  # what reads runs knows what trains them

    source: Source = known or _initial(claim, stored)
    cells = claim.settings
    if known and claim.drawn:  # there is no word before all that were asked for are finished
        cells = {name: overrides for name, overrides in cells.items() if known.is_finished(claim.cells[name])}
    open_ = [name for name in claim.settings if name not in cells]
    drawn_networks = claim.drawn and claim.evidence == "initialization"
    settings = different(source, cells) if drawn_networks else source("", cells)
    twice = len(cells) - len(settings)
    passed_over = f"{twice} of {len(cells)} draws were the same network as an earlier one" if twice else ""
    cells = {setting.name: cells[setting.name] for setting in settings}
    checks = source(MANIPULATION, cells) if claim.manipulation else None
    again = known.worst(settings)[0] if known and claim.drawn and claim.universal and settings else None
    runs = known.read_runs() if known and settings else pd.DataFrame({"run": [], "seconds": [], "bank": []})
    row, why, late = None, "hand-picked settings make no word, so there is nothing to register", 0
    if claim.drawn:
        gathered = (stored.record["row"] or 0) if stored else None
        row, why, registry = registration(claim, opened(registries), gathered)
        if row and registry and len(runs):
            late, against = runs_before_registration(row, runs, registry, claim.bank)
            row, why = (None, against) if against else (row, why)
    verdict = judge(
        settings,
        claim,
        row=row,
        drawn=claim.drawn,
        asked=claim.first - twice,
        waiting=waiting(known, open_) if known else "",
        late=f"registered after {late} of {len(runs)} runs" if late else "",
        passed_over=passed_over,
        manipulation=checks,
        again=again,
    )
    spent = cost(runs, known.disk if known else None)
    return source.table(), verdict | {"unregistered_because": why, "runs": spent}


def _initial(claim: Claim, stored: StoredVerdict | None) -> InitialSource:
    """The settings of networks at initialization; they are built only where no values are stored."""
    if stored:
        return InitialSource(claim, stored.table)
    from normexp.claims.evidence.initial import initial_table  # loads torch

    return InitialSource(claim, initial_table(claim))


def waiting(known: "Known", names: Sequence[str]) -> str:
    """What the settings that are not finished wait for, in words."""
    near = sum(known.is_near(name) for name in names)
    words = [f"{near} near the margin wait{'s' * (near == 1)} for two more seeds"] * bool(near)
    return "; ".join(filter(None, [*words, of_the_grid(known)]))


def of_the_grid(known: "Known") -> str:
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
    subjects = (grid_subject(claim.bank), population_subject(claim.bank))
    open_registries = opened(registries)
    population_registered = claim.drawn and any(
        registry.latest(subject) for registry in open_registries for subject in subjects
    )
    return registration(claim, open_registries)[1] if population_registered else ""


def registries_of(evidence: Path = EVIDENCE) -> list[Path]:
    """Where rows are looked for: in the user's own registry, then in that of the ledger."""
    user_registry, shipped = default_registry(), evidence / REGISTRY.name
    paths = [path for path in (user_registry, shipped) if path.exists()]
    return paths[:1] if len(paths) > 1 and user_registry.samefile(shipped) else paths


def opened(registries: Sequence[Path] | None) -> list[Registry]:
    """These registries, or by default those in which rows are looked for; each is read once."""
    paths = registries_of() if registries is None else registries
    return [_opened(path, path.stat().st_mtime_ns) for path in paths]


def registration(claim: Claim, registries: Sequence[Registry], gathered: int | None = None) -> Registration:
    """The claim's row if its protocol is the registered one. Otherwise None and the reason.

    Args:
        gathered: number of the row under which stored values were gathered; their protocol is known by it.
    """
    subject = subject_of(claim.id, claim.budget)
    for registry in registries:
        if (row := registry.latest(subject)) is None:
            continue
        if gathered is not None:
            same_row = row.number == gathered
            return (row, "", registry) if same_row else (None, f"gathered before row {row.number}", None)
        if row.protocol != digest(resolved_protocol(claim)):
            return None, f"the protocol is not the one of row {row.number}; register the amendment", None
        return row, "", registry
    return None, "no row of the registry", None


def noticed(
    verdict: dict[str, Any], claim: Claim, registries: Sequence[Path] | None = None
) -> dict[str, Any]:
    """The verdict with what rows of the registry say of it: what was found to be wrong stands in its note, and a
    withdrawn one has that word in place of its own."""
    subject = subject_of(claim.id, claim.budget)
    rows = [row for registry in opened(registries) for row in notices(registry.rows, subject)]
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


def judge_all_again(claims: dict[str, Claim], root: Path = CONFIGS.parent) -> dict[str, dict[str, Any]]:
    """The verdict of every claim of which the ledger has something, by id. Raises ValueError as `judge_again` does."""
    verdicts = {name: judge_again(claim, root) for name, claim in claims.items() if claim.evidence != "none"}
    return {name: verdict for name, verdict in verdicts.items() if verdict is not None}


def judge_again(claim: Claim, root: Path = CONFIGS.parent) -> dict[str, Any] | None:
    """The verdict of one claim; None if nothing of it is in the ledger.

    Raises ValueError with one line for files that are not those of the manifest, and for evidence with a gap.
    """
    from normexp.claims.evidence.plan import Known

    evidence, registries = StoredEvidence(root / PLACE), registries_of(root / PLACE)
    if claim.settings and claim.evidence == "training":
        known = Known(claim, evidence, None)
        has = known.is_finished if claim.drawn else lambda cell: len(evidence.rows(claim, cell))
        if not any(map(has, claim.cells.values())):
            return None
        costs: dict[str, Any] = {"command": f"{command('verify')} claim={claim.id}", "seconds": 0.0}
        verdict = conclude(claim, known, registries=registries)[1]
    elif (stored := evidence.verdict(claim)) is None:
        return None
    else:
        costs = {key: stored.record[key] for key in COSTS if key in stored.record}
        if claim.settings:
            verdict = conclude(claim, stored=stored, registries=registries)[1]
        else:
            verdict = judge(stored.table, claim)
    return noticed(verdict, claim, registries) | costs | {"untuned": False}
