"""Measurements of whole commands, as a user sees them: their start, sweeps, and what grows with the runs."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from normexp.fork_map import fork_map
from normexp.machine import cores

from . import Measured, Options

ROOT = Path(__file__).parents[2]
NORMS = ("none", "batchnorm", "layernorm", "groupnorm", "rmsnorm")
BATCH_SIZES = (2, 8, 32, 128)
PART = 500  # copies that a process writes at a time
SMALL = "model.depth=1 model.width=8 batch_size=32 monitor=none trainer=cpu"


def once(command: str) -> tuple[float, float]:
    """(seconds, MB at the peak) of a Python command, with the start of Python and imports."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        words = [sys.executable, *shlex.split(command)]
        process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            said = errors.read().decode().strip()[-300:]
            raise ValueError(f"{command[:60]} ended with {process.returncode}: {said}")
    return time.perf_counter() - started, used.ru_maxrss / 1000


def commands(command: str, reference: str | float, options: Options) -> Measured:
    """Seconds of a command over those of another one, in turn, or over a number of seconds. OUT is a new folder."""
    pairs, peak = [], 0.0

    def seconds(text: str) -> float:
        nonlocal peak
        with tempfile.TemporaryDirectory() as place:
            short = ["max_steps=2"] * (options.quick and "train.py -m" in text)
            root = options.root if "data=" in text else ()
            taken, megabytes = once(" ".join([text.replace("OUT", place), *root, *short]))
        peak = max(peak, megabytes)
        return taken

    for _ in options.rounds():
        allowed = reference if isinstance(reference, float) else seconds(reference)
        pairs.append((seconds(command), allowed))
    return pairs, {"peak_mb": round(peak)}


def check(network: str, data: str, seconds: float, options: Options) -> Measured:
    """Seconds of `normexp check`, with the start of Python, over those allowed."""
    data = f"2x{data.partition('x')[2]}" if options.quick and data[0].isdigit() else data
    words = f"{network} --data {data} --precision 16-mixed --steps 100 --devices 1"
    return commands(f"-m normexp check {words}", seconds, options)


def growth(what: str, runs: int, seconds: float, options: Options) -> Measured:
    """Seconds of the plan, the table or the report of many runs, over those allowed. The table is that of the runs and
    that of one metric: all metrics of 100,000 runs fit in no memory."""
    runs = min(runs, 20) if options.quick else runs
    with tempfile.TemporaryDirectory() as place:
        if what == "plan":
            grid = f"norm={','.join(NORMS)} seed=range(0,{runs // 5})"
            return commands(f"train.py -m {SMALL} {grid} outputs={place}/new --plan", seconds, options)
        steps = 20 if options.quick else 100
        once(f"train.py norm=batchnorm trainer=cpu max_steps={steps} run_dir={place}/one")
        study = copies(Path(place) / "one", runs, Path(place) / "study")
        if what == "report":
            return commands(f"scripts/report.py {study}", seconds, options)
        script = Path(place) / "table.py"
        anew = f"Path({str(study)!r}, STORED).unlink(missing_ok=True)"  # a second reading takes a tenth
        script.write_text(
            "from pathlib import Path\nfrom normexp.runs import load\nfrom normexp.runs.stored_columns import STORED\n"
            f"{anew}\nload({str(study)!r}, metrics=['val/accuracy'])\n"
        )
        return commands(str(script), seconds, options)


def copies(run: Path, count: int, to: Path) -> Path:
    """A study of `count` copies of one real run, under other norms, batch sizes and seeds, written by all cores."""
    from normexp.runs import finished_summary

    summary = finished_summary(run)
    parts = [range(first, min(first + PART, count)) for first in range(0, count, PART)]

    def write(part: range) -> int:
        for index in part:
            write_copy(run, summary, index, to)
        return len(part)

    if list(fork_map(write, parts, cores())) != [len(part) for part in parts]:
        raise ValueError(f"{to}: not all copies could be written")
    return to


def write_copy(run: Path, summary: dict[str, Any], index: int, to: Path) -> None:
    """Copy number `index` of a run, in the folder that a sweep would give it."""
    from normexp.config.identity import config_hash
    from normexp.runs import write_summary

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
    new = {"config": config, "hash": digest, "choices": choices, "metrics": metrics}
    new["samples"] = summary["steps"] * batch_size
    write_summary(folder, {**summary, **new})
