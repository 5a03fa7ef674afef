"""Runs that claims over settings add to the bank: `python scripts/own_runs.py plan claim=P10,S13`.

plan    prints how many runs each claim still needs, and their core time
train   trains the missing runs; register the claims first, and run it in a clean checkout that has their rows; takes
        the flags of sweeps, --plan among them. Where too many seeds take the lowest or highest rate, it goes on with a
        wider grid, by the registered rule
ledger  writes the finished runs to docs/evidence/claims, from which verdicts are judged
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # works without installing the package

from normexp.claims.evidence.ledger import LEDGER, read_ledger
from normexp.claims.evidence.own_runs import OWN_LEDGER, missing, write_own_ledger
from normexp.claims.evidence.training_runs import Runs
from normexp.claims.evidence.wanted import Wanted
from normexp.claims.judge.tuning import MOST_WIDENINGS
from normexp.claims.spec.bank import BANK, Bank, BankCell, load_bank, load_cells
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_files import load_each
from normexp.claims.spec.select import select
from normexp.config.folder import CONFIGS
from normexp.duration import duration
from normexp.sweeps.options import Options, options_of, take_flags

ROOT = Path(__file__).parents[1]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="own_runs.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("plan", "train", "ledger"))
    parser.add_argument("claim", help="claim=ID, several with commas")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="where runs lie (%(default)s)")
    try:
        arguments, given = take_flags(sys.argv[1:] if arguments is None else arguments)
        options = options_of(given)
        asked = parser.parse_args(arguments)
        bank, known = load_bank(CONFIGS / BANK), load_cells(CONFIGS)
        for claim in chosen(asked.claim.removeprefix("claim=")):
            cells = cells_of(claim, known)
            if asked.action == "train":
                if status := train(claim, cells, bank, asked.outputs, options):
                    return status
            elif asked.action == "ledger":
                count = write_own_ledger(claim, cells, bank, asked.outputs, ROOT)
                print(f"{claim.id}: {count} runs in {OWN_LEDGER / claim.id}")
            else:
                print(plan(claim, cells, bank, asked.outputs), flush=True)
    except ValueError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


def chosen(text: str) -> list[Claim]:
    """The training claims over settings among those that a list names. Raises ValueError where there are none."""
    claims, broken = load_each(CONFIGS / "claim")
    found = [c for c in select(claims, text, broken) if c.evidence == "training" and c.settings]
    if not found:
        raise ValueError(f"claim={text}: is no training claim over settings; verify.py gathers its evidence")
    return found


def cells_of(claim: Claim, known: dict[str, BankCell]) -> list[BankCell]:
    """The cells of a claim. Raises ValueError for one that stands in no file."""
    if strange := [name for name in claim.settings if name not in known]:
        raise ValueError(
            f"claim={claim.id}: setting={strange[0]}: is no cell; add it to configs/own_cells.yaml"
        )
    return [known[name] for name in claim.settings]


def train(claim: Claim, cells: list[BankCell], bank: Bank, outputs: Path, options: Options) -> int:
    """Train the missing runs of a claim, then those that the widening rule asks for. Returns the exit status."""
    from normexp.claims.train_claims import train_cells  # torch and Lightning take seconds to import

    for _ in range(1 + MOST_WIDENINGS):
        runs = left(claim, cells, bank, outputs)
        status = train_cells(runs, outputs / "cache", options, f"scripts/own_runs.py train claim={claim.id}")
        if status or options.plan or not any(wanted for _, wanted in runs):
            return status
    return 0


def left(claim: Claim, cells: list[BankCell], bank: Bank, outputs: Path) -> list[tuple[Runs, list[Wanted]]]:
    """The runs that a claim has to train next, for each of its cells."""
    ledger = read_ledger(ROOT / LEDGER, [cell.name for cell in cells])
    return [missing(claim, cell, bank, outputs, ledger) for cell in cells]


def plan(claim: Claim, cells: list[BankCell], bank: Bank, outputs: Path) -> str:
    """The missing runs, and their core time by the seconds in the yaml."""
    counts = [len(wanted) for _, wanted in left(claim, cells, bank, outputs)]
    each = dict(zip([cell.name for cell in cells], counts, strict=True))
    time = duration(sum(counts) * claim.seconds)
    return f"{claim.id}: {sum(counts)} runs to train, about {time} of one core ({each})"


if __name__ == "__main__":
    sys.exit(main())
