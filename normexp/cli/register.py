"""Fix a protocol before its first run: `normexp register claim=P10 reason="..."`; `--help` explains."""

from types import SimpleNamespace

from normexp.claims.evidence.disk import complete_cells
from normexp.claims.evidence.protocol import protocol_of, protocol_of_bank, seeds_of
from normexp.claims.spec.bank import SMALL, load_bank
from normexp.claims.spec.registry import Row, default_registry, read_registry, register, subject_of
from normexp.claims.spec.select import find
from normexp.cli.command import command

BANK = "bank"  # the word, and the subject, of a bank's own row


@command("register")
def main(args: SimpleNamespace) -> None:
    """Register the claims that the words name, or list the rows."""
    path = args.registry or default_registry()
    if not args.claim and args.bank == SMALL:
        print(*map(line, read_registry(path)), sep="\n")
        return
    if not args.reason:
        raise ValueError("reason=: is missing; say why the protocol is as it is, or why it changed")
    if args.claim in (BANK, ""):
        bank = load_bank(args.bank)
        protocols = [(subject_of(BANK, bank.name), protocol_of_bank(bank), [[0, max(bank.seeds, 1)]])]
    else:
        chosen, left_out, _ = find(args.claim, args.bank)
        for mistake in left_out:
            raise ValueError(mistake)
        for claim in chosen:
            if claim.evidence not in ("training", "initialization"):
                raise ValueError(
                    f"claim={claim.id}: evidence={claim.evidence} needs no registration; leave it out"
                )
        claims = map(complete_cells, chosen)
        protocols = [(subject_of(own.id, own.bank), protocol_of(own), seeds_of(own)) for own in claims]
    for subject, protocol, seeds in protocols:
        print(line(register(path, subject=subject, protocol=protocol, reason=args.reason, seeds=seeds)))
    print(f"commit {path} before the runs start")


def line(row: Row) -> str:
    """One row of the registry as a line of text."""
    seeds = ", ".join(f"{first} to {end - 1}" for first, end in row.seeds)
    what = f"{row.subject} {row.protocol[:12]} on {row.date}, alpha {row.alpha:g}, seeds {seeds}"
    return f"row {row.number}: {what}: {row.reason}"
