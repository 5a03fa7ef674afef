"""Fix a protocol before its first run: `normexp register claim=P10 reason="..."`; `--help` explains."""

import sys
from pathlib import Path

from normexp.claims.spec.claim import BUDGETS, Claim
from normexp.claims.spec.claim_files import load_each
from normexp.claims.spec.registry import REGISTRY, Row, read_registry, subject_of
from normexp.claims.spec.select import select
from normexp.cli.errors import BAD_INPUT, FAILED, full_errors, is_bad_input, one_line, prepare
from normexp.cli.options import read_options
from normexp.config import folder
from normexp.config.invocation import command

DEFAULTS = {"claim": "", "reason": "", "budget": "quick", "registry": ""}
HELP = """Fix the protocol of a claim before its first run, in the append-only registry.

  {command}                                  check the registry and list its rows
  {command} claim=P10 reason="first protocol"   add a row; an id, a name, several with commas, a glob
  {command} claim=P10 reason=... budget=full    of a larger budget
  {command} claim=P10 reason=... registry=FILE  another file than docs/evidence/registry.jsonl

Commit the registry before the runs start: a verdict is made of runs whose commit has its row. An amendment of a
registered protocol is judged at 5%/2, the next at 5%/4, with seeds that no earlier row had."""


def main(arguments: list[str]) -> int:
    """Register the claims that the arguments name, or check the registry. Returns the exit status."""
    prepare()
    if {"-h", "--help"} & set(arguments):
        print(HELP.format(command=command("register")))
        return 0
    try:
        options = read(arguments)
        path = Path(options["registry"]) if options["registry"] else folder.PROJECT / REGISTRY
        if not options["claim"]:
            rows = read_registry(path)
            for row in rows:
                print(line(row))
            print(f"{path}: {len(rows)} rows, each with the hash of the one before it")
            return 0
        claims, broken = load_each(folder.CONFIGS / "claim", options["budget"])
        for claim in select(claims, options["claim"], broken):
            print(line(add(path, claim, options["reason"])))
        print(f"commit {path} before the runs start")
        return 0
    except OSError as error:
        print(f"Error: {error}", file=sys.stderr)
        return BAD_INPUT
    except Exception as error:
        if full_errors():
            raise
        print(f"Error: {one_line(error)}", file=sys.stderr)
        return BAD_INPUT if is_bad_input(error) else FAILED


def add(path: Path, claim: Claim, reason: str) -> Row:
    """Register one claim, and keep its resolved protocol beside the registry."""
    from normexp.claims.evidence import resolved_protocol as found

    protocol = found.resolved_protocol(claim)
    found.check_cells(found.cells(claim))
    subject, seeds = subject_of(claim.id, claim.budget), found.seeds_of(claim)
    return found.record_protocol(path, subject, protocol, reason=reason, seeds=seeds)


def line(row: Row) -> str:
    """One row of the registry as a line of text."""
    amends = f", amends row {row.amends}" if row.amends else ""
    seeds = ", ".join(f"{first} to {end - 1}" for first, end in row.seeds)
    what = f"{row.subject} {row.protocol[:12]} on {row.date}{amends}, alpha {row.alpha:g}, seeds {seeds}"
    return f"row {row.number}: {what}: {row.reason}"


def read(arguments: list[str]) -> dict[str, str]:
    """Options as key=value. Raises ValueError for anything else."""
    options = read_options(arguments, DEFAULTS)
    if options["budget"] not in BUDGETS:
        raise ValueError(f"budget={options['budget']}: choose from {', '.join(BUDGETS)}")
    if options["claim"] and not options["reason"]:
        raise ValueError("reason=: is missing; say why the protocol is as it is, or why it changed")
    return options
