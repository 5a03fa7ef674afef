"""Show that two versions of the code compute the same, bit for bit. Then a refactoring voids no finished run.

    git worktree add ../before COMMIT                              a checkout of the older version
    python scripts/golden_runs.py record before.json --checkout ../before
    python scripts/golden_runs.py record after.json
    python scripts/golden_runs.py compare before.json after.json

`record` trains each model x norm x optimizer, a few steps each: nine minutes. With `--room norms`, models, training,
data or monitors it takes three and tests what that room needs; the option may be repeated.

`compare` adds the two versions to normexp/config/code/equal_code.json if all runs are equal and no code outside the
tested rooms differs. Runs of one version then count as runs of the other. Commit the file with the change. Where code
was meant to change for some setting, `--where trainer.accumulate_grad_batches=1` says for which runs it is equal, and
golden runs with another value may differ.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from golden.cases import ROOMS

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
    recorder.add_argument("--checkout", type=Path, default=HERE, help="of the code; default: this one")
    recorder.add_argument("--room", action="append", choices=ROOMS, help="may be repeated; default: all")
    comparer = commands.add_parser("compare", help="record that two versions are equal")
    comparer.add_argument("before", type=Path)
    comparer.add_argument("after", type=Path)
    comparer.add_argument("--where", action="append", default=[], metavar="KEY=VALUE", help="may be repeated")
    comparer.add_argument("--to", type=Path, default=RECORD, help="default: %(default)s")
    given = parser.parse_args()
    if given.command == "compare":
        before, after = (json.loads(path.read_text()) for path in (given.before, given.after))
        sys.exit(compare(before, after, given.to, dict(text.split("=", 1) for text in given.where)))
    record(given.out.resolve(), given.checkout.resolve(), given.room or ["all"])


def record(out: Path, checkout: Path, rooms: list[str]) -> None:
    """Train with the code of a checkout, in a new process with one thread, and write the results and the version."""
    # tests: small files in the layouts of the standard data sets
    paths = os.pathsep.join(map(str, (checkout, HERE / "scripts", HERE / "tests")))
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    code = version(checkout)  # before the training, in which files may be edited
    command = [sys.executable, "-m", "golden.record", str(out), str(checkout), *rooms]
    subprocess.run(command, env=environment, cwd=checkout, check=True)
    content = {"version": code, "rooms": rooms, **json.loads(out.read_text())}
    out.write_text(json.dumps(content, indent=1) + "\n")


def version(checkout: Path) -> dict[str, Any]:
    """Commit, and for each room of a run's record the digests of its parts with the modules that hold them."""
    from normexp.config.code import parts

    command = ["git", "-C", str(checkout), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return {"commit": commit, **{room: parts.named_parts(checkout, room) for room in parts.ROOMS}}


def compare(
    before: dict[str, Any], after: dict[str, Any], path: Path, where: dict[str, str] | None = None
) -> int:
    """Add two versions to the equal ones, or print where they differ. Returns the exit status."""
    record = json.loads(path.read_text())
    differing = differences(before, after, where or {})
    for line in differing:
        print(line)
    if differing:
        return 1
    runs = before["runs"].keys() & after["runs"].keys()
    tested = {name for run in runs for name in after["runs"][run].get("tests", ())}
    entry = {
        "before": texts(before["version"]), "after": texts(after["version"]), "runs": len(runs),
        "tested": sorted(tested), "where": where or {}, "date": str(datetime.date.today()), "place": after["place"],
    }  # fmt: skip
    if not any({**entry, "date": ""} == {**other, "date": ""} for other in record["equal"]):
        record["equal"].append(entry)
    write(path, record)
    print(f"{before['version']['commit']} and {after['version']['commit']}: {len(runs)} runs are equal")
    return 0


def differences(before: dict[str, Any], after: dict[str, Any], where: dict[str, str]) -> list[str]:
    """A line for each reason why two versions are not shown to be equal."""
    here, there = before["place"], after["place"]
    lines = [f"{key}: {here[key]} and {there[key]}" for key in here.keys() & there if here[key] != there[key]]
    for name, run in after["runs"].items():
        other = before["runs"].get(name, run)  # a new run has nothing to compare with
        if any(f" {key}=" in name and f" {key}={value}" not in name for key, value in where.items()):
            continue
        # A choice such as monitor=full may have grown. It then logs more, and trains as before.
        shown = "digest" if run.get("tests") == other.get("tests") else "losses"
        if run.get(shown, "refused") != other.get(shown, "refused"):
            lines.append(f"{name}: {other.get(shown, 'refused')} became {run.get(shown, 'refused')}")
    rooms = {*before.get("rooms", ["all"]), *after.get("rooms", ["all"])} - {"all"}
    for module in sorted(changed_modules(before["version"], after["version"]) if rooms else ()):
        if not any(f"{module}.".startswith(f"normexp.{room}.") for room in rooms):
            lines.append(f"{module}: differs and lies outside {', '.join(sorted(rooms))}; record more rooms")
    return lines


def changed_modules(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """The modules with a part that only one of two versions has."""
    return {
        (before[room] | after[room])[part]
        for room in before.keys() - {"commit"}
        for part in before[room].keys() ^ after[room].keys()
    }


def texts(version: dict[str, Any]) -> dict[str, str]:
    """A version as runs record it."""
    return {room: parts if room == "commit" else "".join(sorted(parts)) for room, parts in version.items()}


def write(path: Path, record: dict[str, Any]) -> None:
    """Write one line per class and per pair of equal versions, so that a diff is readable."""
    classes = ",\n".join(f" {json.dumps(n)}: {json.dumps(d)}" for n, d in record["equal_classes"].items())
    equal = ",\n".join(f" {json.dumps(entry)}" for entry in record["equal"])
    rest = "".join(f'"{key}": {json.dumps(record[key])},\n' for key in ("how", "since"))
    path.write_text(f'{{\n{rest}"equal_classes": {{\n{classes}\n}},\n"equal": [\n{equal}\n]\n}}\n')


if __name__ == "__main__":
    main()
