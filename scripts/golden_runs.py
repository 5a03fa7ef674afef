"""Show that two versions of the code compute the same, bit for bit, so that a refactoring voids no finished run.

    python scripts/golden_runs.py record old.json --checkout ../before     each model x norm x optimizer, a few steps
    python scripts/golden_runs.py record new.json
    python scripts/golden_runs.py compare old.json new.json

`compare` adds an entry to normexp/config/code/equal_code.json, which `normexp.config.code.changed` reads: runs of the
old code then count as runs of the new one, as far as golden runs tested what they use. Commit it with the change.
`record` takes about five minutes; a checkout of an older commit comes from `git worktree add ../before COMMIT`.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
RECORD = HERE / "normexp" / "config" / "code" / "equal_code.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record")
    recorder.add_argument("out", type=Path)
    recorder.add_argument("--checkout", type=Path, default=HERE)
    recorder.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="a run; may be repeated"
    )
    comparer = commands.add_parser("compare")
    comparer.add_argument("old", type=Path)
    comparer.add_argument("new", type=Path)
    comparer.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    if given.command == "record":
        record_checkout(given.out.resolve(), given.checkout.resolve(), given.only)
    else:
        compare_records(given.old, given.new, given.record)


def record_checkout(out: Path, checkout: Path, only: list[str]) -> None:
    if os.environ.get("GOLDEN_CHECKOUT") != str(
        checkout
    ):  # in a process that imports that checkout, on one thread
        own = {"GOLDEN_CHECKOUT": str(checkout), "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
        command = [
            sys.executable,
            str(Path(__file__).resolve()),
            "record",
            str(out),
            "--checkout",
            str(checkout),
        ]
        names = [word for name in only for word in ("--only", name)]
        sys.exit(subprocess.run([*command, *names], env={**os.environ, **own}, cwd=checkout).returncode)
    from golden.record import record
    from golden.versions import place, version

    content = {"version": version(checkout), "place": place(), "runs": record(checkout, only)}
    out.write_text(json.dumps(content, indent=1) + "\n")


def compare_records(old: Path, new: Path, record: Path) -> None:
    from golden.compare import append, compare, differences

    before, after = json.loads(old.read_text()), json.loads(new.read_text())
    try:
        entry = compare(before, after)
    except ValueError as error:
        sys.exit(f"Error: {error}")
    append(record, entry)
    for line in differences(before, after):
        print(line)
    print(f"{entry['runs']} runs, {sum(map(len, entry['differ'].values()))} differ; written to {record}")


if __name__ == "__main__":
    main()
