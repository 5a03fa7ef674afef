"""Runs that claims over settings add to the bank: `python scripts/own_runs.py plan claim=P10,S13`.

plan    prints how many runs each claim still needs, and their core time
train   trains the missing runs, and takes the flags of sweeps, such as --plan.
        Register the claims first, and commit their rows: every run names the commit of its code.
        A grid grows where too many seeds take its lowest or highest rate. All arms get one more rate there
ledger  writes the finished runs to docs/evidence/claims. Verdicts are judged from it
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # works without installing the package

from normexp.claims.evidence.ledger import OWN_LEDGER
from normexp.claims.evidence.own_runs import OwnRuns, own_runs, write_own_ledger
from normexp.claims.judge.tuning import MOST_WIDENINGS
from normexp.claims.spec.bank import BANK, BankCell, load_bank, load_cells
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_files import load_each
from normexp.claims.spec.select import select
from normexp.config.folder import CONFIGS
from normexp.format import duration
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

            def now(claim: Claim = claim, cells: list[BankCell] = cells) -> dict[str, OwnRuns]:
                return own_runs(claim, cells, bank, asked.outputs, ROOT)

            if asked.action == "train":
                if status := train(claim, now, asked.outputs, options):
                    return status
            elif asked.action == "ledger":
                count = write_own_ledger(claim, now(), ROOT / OWN_LEDGER)
                print(f"{claim.id}: {count} runs in {OWN_LEDGER / claim.id}")
            else:
                print(plan(claim, now()), flush=True)
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
    """The cells of a claim and of its contrast. Raises ValueError for one that stands in no file."""
    if strange := [name for name in claim.seeds_in if name not in known]:
        raise ValueError(
            f"claim={claim.id}: setting={strange[0]}: is no cell; add it to configs/own_cells.yaml"
        )
    return [known[name] for name in claim.seeds_in]


def train(claim: Claim, now: Callable[[], dict[str, OwnRuns]], outputs: Path, options: Options) -> int:
    """Train the missing runs of a claim, then those that the widening rule asks for. Returns the exit status.

    Args:
        now: gives the runs of each cell as they are when it is called.
    """
    from normexp.claims.train_claims import train_cells  # torch and Lightning take seconds to import

    for _ in range(1 + MOST_WIDENINGS):
        left = [(own.runs, own.missing()) for own in now().values()]
        status = train_cells(left, outputs / "cache", options, f"scripts/own_runs.py train claim={claim.id}")
        if status or options.plan or not any(wanted for _, wanted in left):
            return status
    return 0


def plan(claim: Claim, each: dict[str, OwnRuns]) -> str:
    """The missing runs of each cell, and their core time by the seconds in the yaml."""
    counts = {name: len(own.missing()) for name, own in each.items()}
    total = sum(counts.values())
    return (
        f"{claim.id}: {total} runs to train, about {duration(total * claim.seconds)} of one core ({counts})"
    )


if __name__ == "__main__":
    sys.exit(main())
