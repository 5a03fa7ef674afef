"""The time from the command to the first training step, split into parts, and the time of `train.py --help`."""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
HELP_LIMIT = 0.6  # seconds


def first_step(overrides: list[str]) -> dict[str, float]:
    """Seconds of each part in one process."""
    with tempfile.TemporaryDirectory() as place:
        command = [
            "scripts/benchmarks/measure/startup_marks.py",
            "recipe=plain",
            *overrides,
            f"outputs={place}",
        ]
        started = time.time()
        ends = json.loads(output(command).splitlines()[-1])
    moments = [started, *ends.values()]
    return {part: end - begin for part, begin, end in zip(ends, moments[:-1], moments[1:], strict=True)}


def output(command: list[str]) -> str:
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def help_seconds() -> float:
    started = time.time()
    output(["train.py", "--help"])
    return time.time() - started


def row(what: str, taken: list[float], against: list[float]) -> dict:
    ratios = [a / b for a, b in zip(taken, against, strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4, method="inclusive")
    seconds = statistics.median(taken)
    limits = {"seconds": seconds, "against": statistics.median(against)}
    return {"what": what, "ratio": ratio, "low": low, "high": high, **limits, "rounds": len(taken)}


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py startup", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=9, help="of both in turn, after one that is not counted"
    )
    parser.add_argument("overrides", nargs="*", help="of the run, for example model=cnn data=mnist")
    options = parser.parse_args(arguments)
    if options.rounds < 2:
        parser.error(f"--rounds={options.rounds}: quartiles need two or more")
    rounds = [(first_step(options.overrides), help_seconds()) for _ in range(options.rounds + 1)][1:]
    whole = [sum(parts.values()) for parts, _ in rounds]
    rows = [row(part, [parts[part] for parts, _ in rounds], whole) for part in rounds[0][0]]
    rows.append(row("to the first step", whole, whole))
    rows.append(row("train.py --help", [seconds for _, seconds in rounds], [HELP_LIMIT] * len(rounds)))
    table = Table("ratio", "quartiles", "part", "seconds", "over seconds", title="parts over the whole")
    for r in rows:
        spread = f"{r['low']:.2f}..{r['high']:.2f}"
        table.add_row(f"{r['ratio']:.2f}", spread, r["what"], f"{r['seconds']:.2f}", f"{r['against']:.2f}")
    Console(width=100).print(table)
    return rows
