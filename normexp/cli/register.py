"""Fix a protocol before its first run: `normexp register claim=P10 reason="..."`; `--help` explains."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

from normexp.claims.evidence import protocol as protocols
from normexp.claims.evidence.disk_runs import complete, complete_cells
from normexp.claims.evidence.stored import EVIDENCE
from normexp.claims.spec import registry
from normexp.claims.spec.bank import SMALL, Bank, load_bank
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.select import find
from normexp.cli.command import command
from normexp.config.checkout import checkout
from normexp.config.process import command as to_type
from normexp.format import pluralize
from normexp.runs.files import write_text


@command("register")
def main(args: SimpleNamespace) -> None:
    """Register the claims that the words name, or check the registry."""
    why = args.reason or args.withdraw or args.correct
    if (args.claim or args.bank != SMALL) and not why:
        raise ValueError("reason=: is missing; say why the protocol is as it is, or why it changed")
    path, bank = args.registry or registry.default_registry(), load_bank(args.bank)
    if not args.claim and not bank.drawn:
        show(path)
        return
    if args.claim in (registry.GRID, ""):
        rows = [add_grid(path, bank, args.reason)]
    else:
        chosen, left_out, _ = find(args.claim, bank)
        for mistake in left_out:
            raise ValueError(mistake)
        rows = add_all(path, chosen, args)
        if args.reason and (unused := [claim.id for claim in chosen if not claim.drawn]):
            print(
                f"{', '.join(unused)}: over settings that somebody chose, so a verdict makes no word and uses no row; "
                "it does over a drawn bank (docs/claims.md)"
            )
    print(*map(line, rows), sep="\n")
    print(f"commit {path} before the runs start")


def show(path: Path) -> None:
    """Print the rows, and which of them name commits that nobody can look up here."""
    known = registry.open_registry(path)
    for row in known.rows:
        print(line(row))
    if strange := registry.outside_history(known):
        print(
            f"rows {', '.join(str(row.number) for row in strange)} name commits that are not in this history: their "
            "order among the rows is proved, and not that they came before any run"
        )
    if not known.rows:
        print(f"{path}: no row yet; normexp register --help says how the first one is written")
        return
    print(
        f"{path}: {pluralize(len(known.rows), 'row')}, each with the hash of the one before it; the last hash is "
        f"{known.rows[-1].hash[:16]}"
    )


def add_all(path: Path, claims: list[Claim], args: SimpleNamespace) -> list[registry.Row]:
    """Add a row for each claim, or for none if one of them cannot be registered."""
    commit = (checkout() or {}).get("commit", "")
    for kind, reason in ((registry.WITHDRAWN, args.withdraw), (registry.CORRECTED, args.correct)):
        if reason:
            subjects = [registry.subject_of(claim.id, claim.budget) for claim in claims]
            return [registry.notice(path, kind, subject, reason, commit) for subject in subjects]
    pairs = [(claim, protocol_of(path, claim)) for claim in claims]
    return [add(path, claim, protocol, args.reason) for claim, protocol in pairs]


def protocol_of(path: Path, claim: Claim) -> dict:
    """The resolved protocol of a claim. Raises ValueError if its runs could not be built, or if the bank that its
    settings are drawn from has no row yet."""
    claim = complete_cells(claim)
    protocol = protocols.resolved_protocol(claim)
    if bank := claim.drawn_from:
        subject_of = registry.grid_subject if bank.known_population.rates else registry.population_subject
        row = registry.latest(registry.read_registry(path), subject_of(bank.name))
        if row is None or row.protocol != protocols.bank_digest(bank):
            raise ValueError(
                f"claim={claim.id}: bank={bank.word} has no row with these settings; register it first: "
                f"{to_type('register')} bank={bank.word} reason=..."
            )
    protocols.check_cells(protocols.cells(claim))
    return protocol


def add(path: Path, claim: Claim, protocol: dict, reason: str) -> registry.Row:
    """Register one claim, and keep its resolved protocol beside the registry. A claim over drawn settings names the row
    that it had over settings that somebody chose."""
    old = registry.latest(registry.read_registry(path), claim.id) if claim.drawn else None
    if old:
        reason = f"{reason}; replaces row {old.number}, whose word was seen"
    return record(
        path, registry.subject_of(claim.id, claim.budget), protocol, reason, protocols.seeds_of(claim)
    )


def add_grid(path: Path, bank: Bank, reason: str) -> registry.Row:
    """Register the grid of a bank. A drawn one has two rows: its distributions and rules before the first draw, and the
    lengths and rates that its pilots found before the first run that is judged."""
    if bank.drawn and any(not cell.updates for cell in bank.cells.values()):
        if bank.pilots:
            raise ValueError(
                f"bank={bank.word}: its pilots have begun; register its grid when they are finished"
            )
        seed = int(bank.known_population.length.get("seed", 0))
        subject = registry.population_subject(bank.name)
        return record(path, subject, protocols.population_protocol(bank), reason, [[seed, seed + 1]])
    if not bank.norms:
        raise ValueError(f"bank={bank.word}: has no grid to register; write grid: into its file")
    if not bank.drawn:
        cells = {name: complete(cell) if cell.norms else cell for name, cell in bank.cells.items()}
        bank = dataclasses.replace(bank, cells=cells)
    protocols.check_cells(protocols.bank_cells(bank))
    return record(
        path, registry.grid_subject(bank.name), protocols.bank_protocol(bank), reason, [[0, bank.seeds]]
    )


def record(path: Path, subject: str, protocol: dict, reason: str, seeds: list[list[int]]) -> registry.Row:
    """Add a row to the registry and write the protocol of its hash beside it. Raises ValueError as `register` does."""
    commit = (checkout() or {}).get("commit", "")
    row = registry.register(
        path, subject=subject, protocol=registry.digest(protocol), reason=reason, seeds=seeds, commit=commit
    )
    protocol_path = path.parent / row.file
    protocol_path.parent.mkdir(parents=True, exist_ok=True)
    write_text(protocol_path, json.dumps(protocol, indent=1, sort_keys=True) + "\n")
    if EVIDENCE.exists() and path.exists() and path.parent.samefile(EVIDENCE):
        from normexp.claims.evidence.keep import write_manifest

        write_manifest(EVIDENCE, [])
    return row


def line(row: registry.Row) -> str:
    """One row of the registry as a line of text."""
    amends = f", amends row {row.amends}" if row.amends else ""
    seeds = ", ".join(f"{first} to {end - 1}" for first, end in row.seeds)
    what = f"{row.subject} {row.protocol[:12]} on {row.date}{amends}, alpha {row.alpha:g}, seeds {seeds}"
    return f"row {row.number}: {what}: {row.reason}"
