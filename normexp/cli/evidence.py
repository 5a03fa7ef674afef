"""The ledger of finished runs: `normexp evidence check`; `--help` explains."""

import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from normexp.claims.evidence.stored import EVIDENCE, SECOND_ARCHIVE, StoredEvidence, ledger_of_bank
from normexp.claims.spec.bank import Bank, load_bank
from normexp.claims.spec.registry import GRID
from normexp.claims.spec.select import find
from normexp.cli.command import command
from normexp.config.process import command as to_type

if TYPE_CHECKING:
    from normexp.claims.rounds import Rounds


@command("evidence")
def main(args: SimpleNamespace) -> int | None:
    """Do what the first word names. Returns the exit status, 1 for a ledger with a mistake."""
    action, *more = args.others or [next(iter(ACTIONS))]
    if action not in ACTIONS or more:
        raise ValueError(f"{(more or [action])[0]}: no such action; choose from {', '.join(ACTIONS)}")
    if action in WRITING and not args.to:
        what = "a ledger" if action == "keep" else "the file"
        raise ValueError(f"{action}: to=: is missing; name {what} to write")
    return ACTIONS[action](args, load_bank(args.bank))


def check(args: SimpleNamespace, bank: Bank) -> int:
    """Print what is wrong with a ledger, and what it lacks."""
    folder = args.to or EVIDENCE
    stored = StoredEvidence(folder)
    if not stored.manifest:
        raise ValueError(f"to={folder}: has no manifest.json; name a ledger that normexp evidence keep wrote")
    mistakes = stored.check()
    for mistake in mistakes:
        print(f"Error: {mistake}", file=sys.stderr)
    beside = [name for name in stored.manifest if name.endswith(SECOND_ARCHIVE)]
    if absent := sum(not (folder / name).exists() for name in beside):
        print(
            f"{absent} of {len(beside)} files of the second archive (curves, losses) are not here; no word needs them"
        )
    print(f"{folder}: {len(stored.manifest)} files, {len(mistakes)} with a mistake")
    return 1 if mistakes else 0


def draw(args: SimpleNamespace, bank: Bank) -> None:
    """Print what was drawn and rejected, and the cost of what is known."""
    from normexp.claims.spec.bank import summary

    print(*summary(bank), sep="\n")


def pilot(args: SimpleNamespace, bank: Bank) -> int:
    """Train the pilots of a drawn bank. Returns the exit status."""
    from normexp.claims.evidence.pilots.pilot import train_pilots

    words = f"{to_type('evidence')} pilot bank={args.bank}"
    return train_pilots(bank, args.out, args.engine, words, float(args.settings or "inf"))


def grid(args: SimpleNamespace, bank: Bank) -> int:
    """Train what is missing of a bank's grid: in rounds, or of a drawn bank one setting after the other in the order
    drawn, each kept in the ledger. Returns the exit status."""
    from normexp.claims.evidence.disk_runs import drop_checkpoints
    from normexp.claims.evidence.keep import grid_claim, keep_claim, setting_claim
    from normexp.claims.evidence.pilots.pilot import MORE
    from normexp.claims.rounds import Rounds

    words = f"{to_type('evidence')} grid bank={args.bank}"
    if not bank.drawn:
        keep = f"{to_type('evidence')} keep claim=bank bank={args.bank} to=DIR"
        if args.to or args.settings:
            raise ValueError(
                f"to=, settings=: are for drawn banks; {bank.name} trains whole. When it is finished: {keep}"
            )
        rounds = Rounds([grid_claim(bank)], args.out, command=words, evidence=StoredEvidence(EVIDENCE))
        return _train(rounds, args, f"bank={bank.word}: every run of its grid is finished; {keep}")
    folder = args.to or ledger_of_bank(bank)
    left = args.settings or len(bank.cells)
    for name, cell in bank.cells.items():
        if not cell.updates:
            print(f"{name}: has no pilot yet: {to_type('evidence')} pilot bank={bank.word}")
            return 1
        stored = StoredEvidence(folder)
        stored.check_cells(bank.at_lengths(name))
        if all(f"bank/{sized.name}.csv" in stored.manifest for sized in bank.at_lengths(name)):
            continue
        if not left:
            return MORE
        rounds = Rounds([setting_claim(bank, name)], args.out, command=words)
        if _train(rounds, args):
            return 1
        if not args.engine.plan:
            known = rounds.known[name]
            print(keep_claim(folder, known), flush=True)
            if known.disk:
                drop_checkpoints(map(Path, known.disk.finished_rows()["folder"]))
        left -= 1
    return 0


def _train(rounds: "Rounds", args: SimpleNamespace, finished: str = "") -> int:
    """Train what claims still need, or show it. Returns the exit status."""
    from normexp.claims.verify_claims import exit_status, show_plan

    show_plan(rounds.claims, rounds)
    rounds.run(args.engine, lambda claim, known: print(finished) if finished else None)
    return exit_status(rounds.failed)


def audit(args: SimpleNamespace, bank: Bank) -> int:
    """Train random rows of a ledger again. Returns the exit status, 1 if one comes out otherwise."""
    from normexp.claims.evidence.audit import audit as run_audit

    seed = secrets.randbelow(10**6) if args.seed is None else args.seed
    folder = args.to or (ledger_of_bank(bank) if bank.drawn else EVIDENCE)
    if args.claim or not bank.drawn:
        claims = find(args.claim or "training", bank)[0]
    else:  # those whose files name this bank; another's would ask for settings that it lacks
        claims = [claim for claim in find("training")[0] if claim.drawn_from == bank]
    words = f"{to_type('evidence')} audit n={args.n} bank={args.bank} seed={seed}"
    keep = args.keep and (ledger_of_bank(bank, args.keep) if bank.drawn else args.keep)
    stored, out = StoredEvidence(folder), args.out / "audit"
    return run_audit(stored, bank, claims, args.n, seed, out, args.engine, words, keep)


def keep(args: SimpleNamespace, bank: Bank) -> None:
    """Write the finished runs of claims into a ledger."""
    from normexp.claims.evidence.disk_runs import DiskRuns, complete_cells
    from normexp.claims.evidence.keep import grid_claim, keep_claim
    from normexp.claims.evidence.plan import Known

    if not args.claim:
        raise ValueError("claim=: is missing; name the claims whose runs to keep, or claim=bank")
    chosen = [grid_claim(bank)] if args.claim == GRID else find(args.claim, bank)[0]
    claims = [claim for claim in chosen if claim.evidence == "training" and claim.settings]
    if not claims:
        raise ValueError(
            f"claim={args.claim}: is no training claim over settings; {to_type('verify')} keep={args.to} "
            "keeps its values"
        )
    for claim in map(complete_cells, claims):
        stored = StoredEvidence(args.to) if (args.to / "manifest.json").exists() else None
        print(keep_claim(args.to, Known(claim, stored, DiskRuns(claim, args.out / "cache"))))


def export(args: SimpleNamespace, bank: Bank) -> None:
    """Write the second archive."""
    from normexp.claims.evidence.keep import export

    args.to.parent.mkdir(parents=True, exist_ok=True)
    print(f"{args.to}: {export(EVIDENCE, args.to)} files of learning curves and losses")


ACTIONS: dict[str, Callable[[SimpleNamespace, Bank], int | None]] = {
    action.__name__: action for action in (check, keep, draw, pilot, grid, audit, export)
}
WRITING = ("keep", "export")
