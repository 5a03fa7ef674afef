"""`normexp register claim=P10 reason="..."`: fix a protocol before its first run."""

from pathlib import Path
from typing import TYPE_CHECKING

from normexp.cli.words import Folder, Packages
from normexp.format import tell

if TYPE_CHECKING:
    from normexp.claims.evidence.registry import Row

BANK = "bank"  # the word, and the subject, of a bank's own row


def register(
    *,
    claim: str = "",
    reason: str = "",
    bank: str = "small",
    registry: Path | None = None,
    config_dir: Folder = "",
    allow_targets: Packages = "",
) -> None:
    """Fix the protocol of a claim before its first run, in the registry.

    - `normexp register`: list the rows
    - `normexp register claim=P10 reason="first protocol"`: add a row
    - `normexp register claim=mine.yaml bank=cells.yaml reason=...`: a claim of your own, over settings of your own
    - `normexp register claim=bank bank=cells.yaml reason=...`: the grid of a bank
    - `normexp register claim=all bank=drawn reason=...`: every claim over a drawn bank, after the bank's own rows

    Commit the registry, the claim and the bank to your git repository before the runs start. An amendment of a
    registered protocol is judged at 5%/2, the next at 5%/4, with seeds that no earlier row had. docs/claims.md says
    what this proves and what it cannot.

    Args:
        claim: an id, a name, several with commas, a glob, or a file of yours; bank: the grid of the bank itself
        reason: why the protocol is as it is, or why it changed
        bank: a name, or a file of settings of your own; of a population, with the lengths and rates that pilots found
        registry: default: ./registry.jsonl, or in a checkout of normexp docs/evidence/registry.jsonl
    """
    from normexp.claims.evidence import registry as rows
    from normexp.claims.evidence.disk import complete_cells
    from normexp.claims.evidence.registry import protocol_of, protocol_of_bank, seeds_of
    from normexp.claims.spec.bank import SMALL, load_bank
    from normexp.claims.spec.select import find

    path = registry or rows.default_registry()
    if not claim and bank == SMALL:
        tell(*(list(map(line, rows.read_registry(path))) or [f"{path}: no row yet"]))
        return
    if not reason:
        raise ValueError("reason=: is missing; say why the protocol is as it is, or why it changed")
    if claim in (BANK, ""):
        known = load_bank(bank)
        subject = rows.subject_of(BANK, known.name)
        protocols = [(subject, protocol_of_bank(known), [[0, max(known.seeds, 1)]])]
    else:
        chosen, left_out = find(claim, bank)
        for mistake in left_out:
            raise ValueError(mistake)
        for own in chosen:
            if own.evidence not in ("training", "initialization"):
                raise ValueError(
                    f"claim={own.id}: evidence={own.evidence} needs no registration; leave it out"
                )
        claims = map(complete_cells, chosen)
        protocols = [(rows.subject_of(own.id, own.bank), protocol_of(own), seeds_of(own)) for own in claims]
    for subject, protocol, seeds in protocols:
        tell(line(rows.register(path, subject=subject, protocol=protocol, reason=reason, seeds=seeds)))
    tell(f"commit {path} before the runs start")


def line(row: "Row") -> str:
    """One row of the registry as a line of text."""
    seeds = ", ".join(f"{first} to {end - 1}" for first, end in row.seeds)
    what = f"{row.subject} {row.protocol[:12]} on {row.date}, alpha {row.alpha:g}, seeds {seeds}"
    return f"row {row.number}: {what}: {row.reason}"
