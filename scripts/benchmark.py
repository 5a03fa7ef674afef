"""Measure what normexp costs, as ratios to a reference that runs in turn with it.

    python scripts/benchmark.py run [NAME ...] [--out FOLDER] [--quick] [data.root=/data]
    python scripts/benchmark.py run monitors --only stream --out docs/data    # cases whose name has a word
    python scripts/benchmark.py check [NAME ...]     # short measurements against the committed ratios
    python scripts/benchmark.py page                 # writes docs/performance.md and docs/recipes.md from docs/data

Each measurement of benchmarks/table.py has a process of its own on the CPU, mostly with one thread. One that fails is
named, and the others go on. `fast` reads MNIST, CIFAR-10 and tinyshakespeare in the folder that NORMEXP_DATA
names, and takes 40 minutes of a machine on which nothing else runs.
"""

import argparse
import dataclasses
import datetime
import importlib
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # works without installing the package

from benchmarks import Options
from benchmarks.page import DATA, FILE, write_page
from benchmarks.table import MEASUREMENTS
from doc_tables import ROOT, read_rows, write_rows

from normexp.machine import cores, processor

Row = dict[str, Any]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["run", "check", "page", "cases"])
    parser.add_argument("words", nargs="*", metavar="NAME", help=f"{', '.join(MEASUREMENTS)} (default: all)")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "outputs" / "benchmarks", help="folder of the rows"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="the cases whose name has it")
    parser.add_argument("--quick", action="store_true", help="a trial of the code; its numbers mean nothing")
    given = parser.parse_intermixed_args(arguments)
    if given.action == "page":
        return write_page()
    if given.action == "cases":  # in the process of a measurement
        return print(json.dumps(measure_here(*given.words)))
    root = tuple(word for word in given.words if "=" in word)
    names = [word for word in given.words if "=" not in word] or list(MEASUREMENTS)
    if unknown := set(names) - set(MEASUREMENTS):
        parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(MEASUREMENTS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started ends, too
    if given.action == "check":
        return check(names, root)
    if failed := [name for name in names if not run(name, given, root)]:
        sys.exit(f"Error: no figures of {', '.join(failed)}; see above")


def run(name: str, given: argparse.Namespace, root: tuple[str, ...]) -> bool:
    """Measure and keep the rows. Returns whether all cases gave one."""
    measurement, started = MEASUREMENTS[name], time.monotonic()
    fits = [case for case in measurement.cases if given.only in case]
    cases = fits[:: len(fits) // 3 + 1 if given.quick else 1]
    quick = Options(0, least=2, quick=True, root=root)
    rows, errors = measured(name, cases, quick if given.quick else Options(measurement.seconds, root=root))
    new = {(row["measurement"], row["case"]) for row in rows}
    others = [row for row in read_rows(given.out / FILE) if (row["measurement"], row["case"]) not in new]
    write_rows(given.out / FILE, others + rows)
    shown = [f"{row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f})  {row['case']}" for row in rows]
    print(*(f"  {line}" for line in [*shown, *errors]), sep="\n")
    print(f"{name}: {len(rows)} of {len(cases)} cases, {time.monotonic() - started:.0f} s", flush=True)
    return not errors


def measured(name: str, cases: list[str], options: Options) -> tuple[list[Row], list[str]]:
    """Rows of a measurement from a process of its own, and a line for each case that gave none."""
    words = [name, json.dumps(cases), json.dumps(dataclasses.asdict(options))]
    threads = MEASUREMENTS[name].threads or cores()
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, __file__, "cases", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        return [], [f"ended with {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1][-300:]}"]
    result = json.loads(done.stdout.splitlines()[-1])
    rows = [row(name, case, *how) | {"machine": result["machine"]} for case, how in result["cases"].items()]
    return rows, result["errors"]


def measure_here(name: str, cases: str, options: str) -> dict[str, Any]:
    """Pairs and extras of each case, the errors of the others, and this machine."""
    measurement = MEASUREMENTS[name]
    module, _, function = measurement.function.partition(".")
    measure = getattr(importlib.import_module(f"benchmarks.{module}"), function)
    by_case, errors = {}, []
    for case in json.loads(cases):
        try:
            by_case[case] = measure(*measurement.cases[case], options=Options(**json.loads(options)))
        except Exception as error:
            errors.append(f"{case}: {type(error).__name__}: {str(error)[-300:]}")
    return {"cases": by_case, "errors": errors, "machine": machine()}


def row(name: str, case: str, pairs: list[tuple[float, float]], extra: dict[str, Any]) -> Row:
    """The row of a case: the median and quartiles of the ratios of its rounds."""
    ratios = [ours / reference for ours, reference in pairs]
    low, ratio, high = (
        statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else 3 * ratios
    )
    ours, reference = (statistics.median(side) for side in zip(*pairs, strict=True))
    commit = ["git", "rev-parse", "--short", "HEAD"]
    return {
        "measurement": name, "case": case, "ratio": ratio, "low": low, "high": high, "own": ours,
        "reference": reference, "rounds": len(pairs), **extra,
        "commit": subprocess.run(commit, cwd=ROOT, capture_output=True, text=True).stdout.strip(),
        "date": datetime.date.today().isoformat(),
    }  # fmt: skip


def machine() -> str:
    """Processor, cores, GPU, threads and versions, in one line."""
    import torch

    parts = [processor(), f"{os.cpu_count()} cores", "no GPU", f"threads: {torch.get_num_threads()}"]
    parts += [f"Python {platform.python_version()}", f"torch {torch.__version__}"]
    return ", ".join([*parts, f"Lightning {version('pytorch-lightning')}"])


def check(names: list[str], root: tuple[str, ...]) -> None:
    """Exit with 1 if a ratio is worse than the committed one by more than its tolerance, in two measurements."""
    committed = {(row["measurement"], row["case"]): row["ratio"] for row in read_rows(DATA / FILE)}
    worse = []
    for name in names:
        measurement = MEASUREMENTS[name]
        cases = [case for case in measurement.guard if (name, case) in committed]
        slower: dict[str, str] = {}
        for _ in range(2):  # what looks worse is measured a second time
            if cases:
                rows, errors = measured(name, cases, Options(measurement.seconds / 3, root=root))
                if errors:
                    sys.exit(f"Error: {name}: {errors[0]}")
                slower = regressions(rows, committed, measurement.tolerance)
                cases = list(slower)
        said = "worse" if cases else "as committed" if measurement.guard else "not checked"
        print(f"{name}: {said}", flush=True)
        worse += [f"regression  {name}, {line}" for line in slower.values()]
    print(*worse, sep="\n", end="\n" if worse else "")
    sys.exit(1 if worse else 0)


def regressions(rows: list[Row], committed: dict[tuple[str, str], float], tolerance: float) -> dict[str, str]:
    """Case -> one line, for each ratio that is worse than the committed one by more than the tolerance."""
    lines = {}
    for row in rows:
        before = committed[row["measurement"], row["case"]]
        if row["ratio"] > before * (1 + tolerance):
            allowed = f"allowed <= {before * (1 + tolerance):.2f}"
            lines[row["case"]] = f"{row['case']}: {row['ratio']:.2f}, was {before:.2f}, {allowed}"
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
