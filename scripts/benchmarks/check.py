"""Compare short fresh measurements with the committed ratios: one line for each regression, then exit status 1.

It takes about four minutes on two cores. What looks worse is measured a second time, and counts if it is worse again.
Each guard has a tolerance of its own, from 5 % (monitors) to 30 % (families); see measure/regressions.py.
"""

import argparse
import json
import shlex
import sys
import tempfile
import time
from pathlib import Path

from .all import run
from .measure.machine import machine
from .measure.regressions import GUARDS, Guard, Rows, regressions

ROOT = Path(__file__).parents[2]


def measure(guard: Guard, given: list[str]) -> Rows:
    """Fresh rows, from a process of its own."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "rows.json"
        data = given if "data=" in guard.command else []
        if error := run(
            [*shlex.split(guard.command), *data, "--json", str(file)], None, hide_gpu=True, quiet=True
        ):
            raise ValueError(f"{guard.command}: {error}")
        return json.loads(file.read_text())


def worse(guard: Guard, docs: Path, tolerance: float | None, given: list[str]) -> list[str]:
    """One line for each row that is worse than the committed one in two measurements."""
    path = docs / guard.file
    if not path.exists():
        raise ValueError(f"{path}: is not there; measure it with `benchmark.py {guard.command.split()[0]}`")
    committed = json.loads(path.read_text())
    first = regressions(guard, committed, measure(guard, given), tolerance)
    if not first:
        return []
    again = regressions(guard, committed, measure(guard, given), tolerance)
    return [line for name, line in again.items() if name in first]


def other_machine(docs: Path) -> str:
    """A note if the committed ratios come from another processor."""
    here = machine()["cpu"]
    rows = [row for path in docs.glob("*_benchmark.json") for row in json.loads(path.read_text())]
    there = {row["machine"]["cpu"] for row in rows if "machine" in row} - {here}
    return (
        f"note: committed on {', '.join(sorted(there))}, this is {here}: ratios differ a little"
        if there
        else ""
    )


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(
        prog="benchmark.py check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the committed files")
    parser.add_argument("--only", default=",".join(GUARDS), help="default: %(default)s")
    parser.add_argument("--tolerance", type=float, help="in place of each guard's own; 0.2 allows a fifth")
    parser.add_argument("overrides", nargs="*", help="of the data, for example data.root=/data")
    given = parser.parse_args(arguments)
    names = given.only.split(",")
    if unknown := set(names) - set(GUARDS):
        parser.error(f"--only={','.join(sorted(unknown))}: choose from {', '.join(GUARDS)}")
    if note := other_machine(given.docs):
        print(note)
    found = []
    for name in names:
        begin = time.monotonic()
        try:
            lines = worse(GUARDS[name], given.docs, given.tolerance, given.overrides)
        except ValueError as error:
            sys.exit(f"Error: {error}")
        print(f"{name}: {'worse' if lines else 'as committed'}, {time.monotonic() - begin:.0f} s", flush=True)
        found += [f"{name}: {line}" for line in lines]
    for line in found:
        print(f"regression  {line}")
    if found:
        sys.exit(1)
    return []
