"""Timings as ratios, both sides in one process: `python scripts/benchmark.py norms [--json FILE [--append]] [options]`.

Each file of scripts/benchmarks is a sub-command: its `main(arguments)` prints a table and returns the table's rows.
The JSON is a list of these rows, each with its machine and versions. `--append` keeps the rows of the file, for a table
that is measured in parts.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path

from benchmarks.measure.machine import machine

COMMANDS = sorted(path.stem for path in (Path(__file__).parent / "benchmarks").glob("[!_]*.py"))


def main(arguments: list[str]) -> None:
    if not arguments or arguments[0] not in COMMANDS:
        print(f"{__doc__}\nSub-commands, each with --help: {', '.join(COMMANDS)}")
        sys.exit(0 if arguments[:1] in (["-h"], ["--help"]) else 2)
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--append", action="store_true")
    own, rest = parser.parse_known_args(arguments[1:])
    rows = importlib.import_module(f"benchmarks.{arguments[0]}").main(rest)
    if own.json is not None:
        kept = json.loads(own.json.read_text()) if own.append and own.json.exists() else []
        rows = kept + [row | {"machine": machine()} for row in rows]
        own.json.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
