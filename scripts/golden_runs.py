"""Show that two versions of the code compute the same, bit for bit. Then a refactoring voids no finished run.

    python scripts/golden_runs.py record old.json --checkout ../before     each model x norm x optimizer, a few steps
    python scripts/golden_runs.py record new.json
    python scripts/golden_runs.py compare old.json new.json

`compare` adds versions to normexp/config/code/equal_code.json, which `normexp.config.code.changed` reads. Runs of the
old code then count as runs of the new code, if golden runs tested everything that they use. Commit the file with the
change. A version that this machine and this torch have recorded need not be recorded again.

`record` takes five minutes. `git worktree add ../before COMMIT` makes a checkout of an older commit.
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
    """Run the command that was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", help="train the golden runs")
    recorder.add_argument("out", type=Path)
    recorder.add_argument(
        "--checkout", type=Path, default=HERE, help="of the code to train with; default: this one"
    )
    recorder.add_argument("--only", action="append", default=[], metavar="RUN", help="may be repeated")
    comparer = commands.add_parser("compare", help="add what was recorded to the versions that are known")
    comparer.add_argument("recorded", type=Path, nargs="+")
    comparer.add_argument("--to", type=Path, default=RECORD, help="default: %(default)s")
    given = parser.parse_args()
    if given.command == "record":
        record_checkout(given.out.resolve(), given.checkout.resolve(), given.only)
    else:
        compare_records(given.recorded, given.to)


def record_checkout(out: Path, checkout: Path, only: list[str]) -> None:
    """Train with the code of a checkout, in a new process with one thread."""
    if os.environ.get("GOLDEN_CHECKOUT") != str(checkout):
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

    content = {"version": version(checkout), "place": place(), "only": only, "runs": record(checkout, only)}
    out.write_text(json.dumps(content, indent=1) + "\n")


def compare_records(recorded: list[Path], path: Path) -> None:
    """Add versions to the known ones, and print where they differ."""
    from golden.compare import add, write

    known = json.loads(path.read_text()) if path.exists() else []
    for record in recorded:
        content = json.loads(record.read_text())
        if content.get("only"):
            sys.exit(f"Error: {record}: holds some of the runs only; record it without --only")
        differing = add(known, content)
        for line in differing:
            print(line)
        print(f"{content['version']['commit']}: {len(content['runs'])} runs, {len(differing)} differ")
    write(path, known)


if __name__ == "__main__":
    main()
