"""The bank of runs that claims read. `python scripts/bank.py` prints its plan.

register  writes the grid to docs/evidence/registry.jsonl. Commit that file before the first run
train     trains the missing runs, one sweep per cell, and takes the flags of sweeps, such as --plan.
          Commit your changes first: every run names the commit of its code.
          A grid grows where too many seeds take its lowest or highest rate. All arms get one more rate there
ledger    writes the finished runs to docs/evidence/bank. Verdicts are judged from it
table     prints the page's table of test errors
page      writes docs/bank.md and its figure from docs/evidence/bank
"""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # works without installing the package

from normexp.claims.evidence.bank_runs import bank_protocol, commands, rows
from normexp.claims.evidence.ledger import LEDGER as FOLDER
from normexp.claims.evidence.ledger import read_ledger, write_ledger
from normexp.claims.evidence.widened_grid import Grid, widened_bank
from normexp.claims.judge.tuning import MOST_WIDENINGS
from normexp.claims.pages.bank_page import bank_table, draw_rates, page
from normexp.claims.spec.bank import Bank, load_bank
from normexp.claims.spec.registry import REGISTRY
from normexp.format import duration
from normexp.runs.files import atomic_write
from normexp.sweeps.options import as_flags, options_of, take_flags

ROOT = Path(__file__).parents[1]
LEDGER = ROOT / FOLDER
PAGE, FIGURE = ROOT / "docs" / "bank.md", "images/bank_rates.png"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="bank.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "action", nargs="?", choices=("plan", "register", "train", "ledger", "table", "page"), default="plan"
    )
    parser.add_argument("--cells", help="only these cells, separated by commas (default: all)")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="where runs lie (%(default)s)")
    parser.add_argument("--reason", default="", help="register: the reason for the grid")
    try:
        arguments, given = take_flags(sys.argv[1:] if arguments is None else arguments)
        options_of(given)
        asked = parser.parse_args(arguments)
        bank = load_bank(ROOT / "configs" / "bank.yaml")
        cells = asked.cells.split(",") if asked.cells else list(bank.cells)
        for name in cells:
            bank.cell(name)
        if asked.action == "register":
            print(register_bank(bank, asked.reason))
        elif asked.action == "ledger":
            print(write_ledger(bank, asked.outputs, LEDGER))
        elif asked.action == "table":
            ledger = read_ledger(LEDGER, bank.cells)
            print(bank_table(widened_bank(bank, ledger), ledger, LEDGER))
        elif asked.action == "page":
            print(write_page(bank))
        else:
            print(plan(bank, asked.outputs, cells))
    except ValueError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return train(bank, asked.outputs, cells, as_flags(given)) if asked.action == "train" else 0


def register_bank(bank: Bank, reason: str) -> str:
    from normexp.claims.evidence.resolved_protocol import record_protocol

    row = record_protocol(
        ROOT / REGISTRY, "bank", bank_protocol(bank), reason=reason, seeds=[[0, bank.seeds]]
    )
    return (
        f"row {row.number}: bank {row.protocol[:12]} on {row.date}; commit {REGISTRY} before the runs start"
    )


def write_page(bank: Bank) -> str:
    ledger = read_ledger(LEDGER, bank.cells)
    bank = widened_bank(bank, ledger)
    draw_rates(bank, ledger, PAGE.parent / FIGURE)
    with atomic_write(PAGE) as file:
        file.write(page(bank, ledger, LEDGER, FIGURE).encode())
    return f"{PAGE}, {PAGE.parent / FIGURE}"


def plan(bank: Bank, outputs: Path, cells: list[str]) -> str:
    """One line per cell: finished runs, and the core time that is left, estimated from them."""
    finished = rows(bank, outputs)
    bank = widened_bank(bank, finished)
    lines = [f"{'cell':<24}{'runs':>6}{'finished':>10}{'left, core time':>18}"]
    for name in cells:
        cell = bank.cell(name)
        own, total = finished[finished["cell"] == name], bank.runs_of(cell)
        each = (own["seconds"] / own["replicas"]).mean() if len(own) else 0.0
        left = duration(each * (total - len(own))) if len(own) else "unknown"
        lines.append(f"{name:<24}{total:>6}{len(own):>10}{left:>18}  {cell.what}")
    return "\n".join(lines)


def train(bank: Bank, outputs: Path, cells: list[str], flags: list[str]) -> int:
    """Train one sweep per cell, then the rates that the widening rule asks for. Stop at the first that is interrupted
    or fails."""
    grids: dict[str, Grid] = {}
    for _ in range(1 + MOST_WIDENINGS):
        widened = widened_bank(bank, rows(bank, outputs))
        asked = [name for name in cells if widened.cell(name).rates != grids.get(name)]
        grids |= {name: widened.cell(name).rates for name in asked}
        for command in commands(widened, outputs, asked):
            code = subprocess.run(
                [sys.executable, str(ROOT / "train.py"), *command, *flags], check=False
            ).returncode
            if code:
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
