"""Many processes of one thread against one process after the other on all cores. Also: time of the table and report."""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from normexp.config.identity import config_hash
from normexp.cores import cores
from normexp.runs import read_summary, write_summary

ROOT = Path(__file__).parents[2]
NORMS = ("none", "batchnorm", "layernorm", "groupnorm", "instancenorm")
BATCH_SIZES = (2, 8, 32, 128)
TABLE_LIMIT, REPORT_LIMIT = 2.5, 14.0  # seconds
LOAD = "import sys; from normexp.runs import load; print(len(load(sys.argv[1])))"


def processor_seconds() -> float:
    """Processor seconds of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


CLOCKS = {"wall": time.perf_counter, "cpu": processor_seconds}


def seconds(*command: str, clock: str = "wall") -> float:
    """Time of a command, with the start of Python and imports, as a user sees it."""
    started = CLOCKS[clock]()
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(
            f"{' '.join(command[:2])} ended with {done.returncode}: {done.stderr.strip()[-300:]}"
        )
    return CLOCKS[clock]() - started


def launch(
    runs: int, overrides: list[str], *, workers: int = 1, share: int = 1, replicas: bool = False
) -> float:
    """Seconds of a whole sweep. The launcher divides the cores among the workers."""
    seeds = -(-runs // 4)
    axis = f"replicas={seeds}" if replicas else f"seed=range(0,{seeds})"
    grid = ["norm=none,batchnorm,layernorm,groupnorm", axis]
    how = ["recipe=plain", f"hydra.launcher.workers={workers}"]
    if share > 1:  # of the runs on a GPU; by default each has a GPU
        how = ["recipe=plain", f"hydra.launcher.runs_per_gpu={share}"]
    with tempfile.TemporaryDirectory() as place:
        return seconds("train.py", "-m", *grid, *overrides, *how, f"outputs={place}")


def compare_sweeps(what: str, runs: int, own: dict, other: dict, options: argparse.Namespace) -> dict:
    """Run the same sweep both ways in turn. The order changes from round to round."""
    pairs = []
    for round_number in range(options.rounds):
        taken = {}
        for name, how in (("own", own), ("other", other))[:: -1 if round_number % 2 else 1]:
            taken[name] = launch(runs, options.overrides, **how)
        pairs.append((taken["own"], taken["other"]))
    first, second = (statistics.median(side) for side in zip(*pairs, strict=True))
    return row(f"{runs} runs: {what}", [a / b for a, b in pairs], first, second, runs)


def row(what: str, ratios: list[float], own: float, other: float, runs: int | None = None) -> dict:
    ratio = statistics.median(ratios)
    return {
        "what": what,
        "ratio": ratio,
        "low": min(ratios),
        "high": max(ratios),
        "seconds": own,
        "against": other,
        "runs_a_minute": runs and 60 * runs / own,
    }


def copies(run: Path, count: int, to: Path) -> Path:
    """A study of `count` copies of one real run, under other norms, batch sizes and seeds."""
    summary = read_summary(run)
    for index in range(count):
        norm = NORMS[index % len(NORMS)]
        batch_size = BATCH_SIZES[index // len(NORMS) % len(BATCH_SIZES)]
        seed = index // (len(NORMS) * len(BATCH_SIZES))
        config = json.loads(json.dumps(summary["config"])) | {"batch_size": batch_size, "seed": seed}
        config["norm"]["_target_"] = norm
        config["data"] |= {"batch_size": batch_size, "seed": seed}
        digest = config_hash(config)
        folder = to / "mlp" / f"{norm}-bs{batch_size}-s{seed}-{digest[:8]}"
        folder.mkdir(parents=True)
        shutil.copy(run / "metrics.csv", folder)
        part = 1 - 0.002 * (index % 7) - 0.01 * (index % len(NORMS))  # so that intervals have a width
        metrics = {name: part * value for name, value in summary["metrics"].items()}
        choices = {**summary["choices"], "norm": norm}
        write_summary(
            folder, {**summary, "config": config, "hash": digest, "choices": choices, "metrics": metrics}
        )
    return to


def forget(study: Path) -> None:
    """Make the next reader fetch these files from disk, if the system can."""
    for path in study.rglob("*"):
        if path.is_file() and hasattr(os, "posix_fadvise"):
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def time_reading(options: argparse.Namespace) -> list[dict]:
    rows = []
    with tempfile.TemporaryDirectory() as place:
        # As many rows as 1,000 steps with the light monitors give.
        seconds("train.py", "max_steps=1000", "norm=batchnorm", f"run_dir={place}/one", "trainer=cpu")
        counts = (options.table_runs, options.report_runs)
        table, study = (copies(Path(place) / "one", n, Path(place) / f"study{n}") for n in counts)

        def timed(what: str, limit: float, *command: str, cold: bool = False) -> None:
            taken = []
            for _ in range(options.rounds):
                if cold:
                    forget(table)
                taken.append(seconds(*command, clock=options.clock))
            rows.append(row(what, [t / limit for t in taken], statistics.median(taken), limit))

        timed(f"table of {counts[0]} runs, files not cached", TABLE_LIMIT, "-c", LOAD, str(table), cold=True)
        timed(f"table of {counts[0]} runs, again", TABLE_LIMIT, "-c", LOAD, str(table))
        timed(f"report of {counts[1]} runs", REPORT_LIMIT, "scripts/report.py", str(study))
    return rows


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py sweep", description=__doc__)
    parser.add_argument("--runs", type=int, default=8, help="of the sweep, over four norms")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--table-runs", type=int, default=1000)
    parser.add_argument("--report-runs", type=int, default=300)
    parser.add_argument("--share-gpu", type=int, help="runs that share a GPU, in place of a process per core")
    parser.add_argument("--only", choices=["launcher", "reading"], help="one half of the table")
    parser.add_argument(
        "--clock",
        choices=list(CLOCKS),
        default="wall",
        help="of table and report; cpu: where other processes share the machine",
    )
    parser.add_argument("overrides", nargs="*", help="of the sweep, for example max_epochs=20 model.width=64")
    options = parser.parse_args(arguments)
    rows = []
    if options.only != "reading":
        way = {"workers": cores()}
        what = f"{cores()} processes x 1 thread, over 1 x {cores()}"
        if options.share_gpu:
            way = {"share": options.share_gpu}
            what = f"{options.share_gpu} at a time on the GPU, over one at a time"
        rows.append(compare_sweeps(what, options.runs, way, {"workers": 1}, options))
        what = f"replicas={options.runs}, over a process for each seed"
        rows.append(compare_sweeps(what, 4 * options.runs, way | {"replicas": True}, way, options))
    if options.only != "launcher":
        rows += time_reading(options)
    table = Table("ratio", "range", "measured", "seconds", "over seconds", "runs a minute")
    for r in rows:
        spread = f"{r['low']:.2f}..{r['high']:.2f}"
        pace = f"{r['runs_a_minute']:.0f}" if r["runs_a_minute"] else ""
        times = (f"{r['seconds']:.1f}", f"{r['against']:.1f}")
        table.add_row(f"{r['ratio']:.2f}", spread, r["what"], *times, pace)
    Console().print(table)
    return rows
