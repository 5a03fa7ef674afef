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


@command()
def main(asked: SimpleNamespace) -> int | None:
    """Do what the first word names. Returns the exit status, 1 for a ledger with a mistake."""
    action, *more = asked.others or [next(iter(ACTIONS))]
    if action not in ACTIONS or more:
        raise ValueError(f"{(more or [action])[0]}: no such action; choose from {', '.join(ACTIONS)}")
    if action in WRITING and not asked.to:
        what = "a ledger" if action == "keep" else "the file"
        raise ValueError(f"{action}: to=: is missing; name {what} to write")
    return ACTIONS[action](asked, load_bank(asked.bank))


def check(asked: SimpleNamespace, bank: Bank) -> int:
    """Print what is wrong with a ledger, and what it lacks."""
    folder = asked.to or EVIDENCE
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


def draw(asked: SimpleNamespace, bank: Bank) -> None:
    """Print what was drawn and rejected, and the cost of what is known."""
    from normexp.claims.spec.population import summary

    print(*summary(bank), sep="\n")


def pilot(asked: SimpleNamespace, bank: Bank) -> int:
    """Train the pilots of a drawn bank. Returns the exit status."""
    from normexp.claims.evidence.pilot import train_pilots

    words = f"{to_type('evidence')} pilot bank={asked.bank}"
    return train_pilots(bank, asked.out, asked.engine, words, float(asked.settings or "inf"))


def grid(asked: SimpleNamespace, bank: Bank) -> int:
    """Train what is missing of a bank's grid: in rounds, or of a drawn bank one setting after the other in the order
    drawn, each kept in the ledger. Returns the exit status."""
    from normexp.claims.evidence.disk_runs import drop_checkpoints
    from normexp.claims.evidence.keep import grid_claim, keep_claim, setting_claim
    from normexp.claims.evidence.pilot import MORE
    from normexp.claims.rounds import Rounds

    words = f"{to_type('evidence')} grid bank={asked.bank}"
    if not bank.drawn:
        own = Rounds([grid_claim(bank)], asked.out, command=words, evidence=StoredEvidence(EVIDENCE))
        return _train(own, asked, f"bank={bank.name}: every run of its grid is finished")
    folder = asked.to or ledger_of_bank(bank)
    left = asked.settings or len(bank.cells)
    for name, cell in bank.cells.items():
        if not cell.updates:
            print(f"{name}: has no pilot yet: {to_type('evidence')} pilot bank={bank.name}")
            return 1
        stored = StoredEvidence(folder)
        if all(f"bank/{one.name}.csv" in stored.manifest for one in bank.at_lengths(name)):
            continue
        if not left:
            return MORE
        own = Rounds([setting_claim(bank, name)], asked.out, command=words)
        if _train(own, asked):
            return 1
        if not asked.engine.plan:
            known = own.known[name]
            print(keep_claim(folder, known), flush=True)
            if known.disk:
                drop_checkpoints(map(Path, known.disk.finished_rows()["folder"]))
        left -= 1
    return 0


def _train(own: "Rounds", asked: SimpleNamespace, finished: str = "") -> int:
    """Train what claims still need, or show it. Returns the exit status."""
    from normexp.claims.verify_claims import show_plan

    show_plan(own.claims, own)
    if asked.engine.plan:
        own.show_runs(asked.engine)
    else:
        own.run(asked.engine, lambda claim, known: print(finished) if finished else None)
    for name, reason in own.failed.items():
        print(f"Error: {name}: {reason}", file=sys.stderr)
    return 1 if own.failed else 0


def audit(asked: SimpleNamespace, bank: Bank) -> int:
    """Train random rows of a ledger again. Returns the exit status, 1 if one comes out otherwise."""
    from normexp.claims.evidence.audit import audit as run_audit

    seed = secrets.randbelow(10**6) if asked.seed is None else asked.seed
    folder = asked.to or (ledger_of_bank(bank) if bank.drawn else EVIDENCE)
    if asked.claim or not bank.drawn:
        claims = find(asked.claim or "training", bank)[0]
    else:  # those whose files name this bank; another's would ask for settings that it lacks
        claims = [one for one in find("training")[0] if one.drawn_from == bank]
    words = f"{to_type('evidence')} audit n={asked.n} bank={asked.bank} seed={seed}"
    keep = asked.keep and (ledger_of_bank(bank, asked.keep) if bank.drawn else asked.keep)
    stored, out = StoredEvidence(folder), asked.out / "audit"
    return run_audit(stored, bank, claims, asked.n, seed, out, asked.engine, words, keep)


def keep(asked: SimpleNamespace, bank: Bank) -> None:
    """Write the finished runs of claims into a ledger."""
    from normexp.claims.evidence.disk_runs import DiskRuns, complete_cells
    from normexp.claims.evidence.keep import grid_claim, keep_claim
    from normexp.claims.evidence.plan import Known

    if not asked.claim:
        raise ValueError("claim=: is missing; name the claims whose runs to keep, or claim=bank")
    chosen = [grid_claim(bank)] if asked.claim == GRID else find(asked.claim, bank)[0]
    claims = [one for one in chosen if one.evidence == "training" and one.settings]
    if not claims:
        raise ValueError(
            f"claim={asked.claim}: is no training claim over settings; {to_type('verify')} keep={asked.to} "
            "keeps its values"
        )
    for claim in map(complete_cells, claims):
        stored = StoredEvidence(asked.to) if (asked.to / "manifest.json").exists() else None
        print(keep_claim(asked.to, Known(claim, stored, DiskRuns(claim, asked.out / "cache"))))


def export(asked: SimpleNamespace, bank: Bank) -> None:
    """Write the second archive."""
    from normexp.claims.evidence.keep import export

    print(f"{asked.to}: {export(EVIDENCE, asked.to)} files of learning curves and losses")


def page(asked: SimpleNamespace, bank: Bank) -> None:
    """Write the page of a bank's grid and its figure."""
    from normexp.claims.evidence.choose_rates import expanded_lr_grid
    from normexp.claims.pages.bank_page import draw_rates, page
    from normexp.runs.files import atomic_write

    rows = StoredEvidence(EVIDENCE).grid_rows(bank.grid.cells)
    bank, figure = expanded_lr_grid(bank, rows), "images/bank_rates.png"
    draw_rates(bank, rows, asked.to.parent / figure)
    with atomic_write(asked.to) as file:
        file.write(page(bank, rows, figure).encode())
    print(f"{asked.to}, {asked.to.parent / figure}")


def atlas(asked: SimpleNamespace, bank: Bank) -> None:
    """Write the figures over all settings of a bank."""
    from normexp.claims.evidence.measured import measured
    from normexp.claims.evidence.stored import AUDIT
    from normexp.claims.pages.atlas import write_atlas

    evidence = asked.evidence or EVIDENCE
    audited = StoredEvidence(ledger_of_bank(bank, evidence)).read(AUDIT)
    print(write_atlas(asked.to, bank, measured(bank, evidence), audited))


ACTIONS: dict[str, Callable[[SimpleNamespace, Bank], int | None]] = {
    one.__name__: one for one in (check, keep, draw, pilot, grid, audit, export, page, atlas)
}
WRITING = ("keep", "export", "page", "atlas")
