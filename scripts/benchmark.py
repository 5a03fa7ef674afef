"""Timings as ratios, both sides in one process: `python scripts/benchmark.py norms [--json FILE] [options]`.

Each file of scripts/benchmarks is a sub-command: its `main(arguments)` prints a table and returns the table's rows.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path

COMMANDS = sorted(path.stem for path in (Path(__file__).parent / "benchmarks").glob("*.py"))


def main(arguments: list[str]) -> None:
    if not arguments or arguments[0] not in COMMANDS:
        print(f"{__doc__}\nSub-commands, each with --help: {', '.join(COMMANDS)}")
        sys.exit(0 if arguments[:1] in (["-h"], ["--help"]) else 2)
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--json", type=Path)
    own, rest = parser.parse_known_args(arguments[1:])
    rows = importlib.import_module(f"benchmarks.{arguments[0]}").main(rest)
    if own.json is not None:
        own.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
