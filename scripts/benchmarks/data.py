"""Time and memory of image folders: the first and the second run on many JPEGs, and a set larger than memory.

The large set trains twice: in this machine's memory, and under a limit (Linux control groups, which need root).
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
GROUPS = Path("/sys/fs/cgroup")
GB = 2**30
RUN = [
    "train.py",
    "data=image_folder",
    "trainer=cpu",
    "threads=1",
    "monitor=none",
    "recipe=plain",
    "lr=0.001",
]
PATTERNS, CLASSES = 200, 10  # many files share one of a few pictures: decoding costs the same
# Starts a run, then says what it took. A process of its own, because the peak of children is a maximum over all.
WATCHED = """
import json, os, resource, subprocess, sys
if sys.argv[1]:
    open(sys.argv[1], "w").write(str(os.getpid()))
done = subprocess.run([sys.executable, *sys.argv[2:]], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, done.stderr[-300:], used.ru_utime + used.ru_stime, used.ru_maxrss / 1000]))
"""


def folder_of_images(folder: Path, count: int, side: int) -> Path:
    """`count` JPEGs of noise with slopes, one tenth of them for the test, in ten classes."""
    generator = np.random.default_rng(0)
    pictures = []
    for _ in range(PATTERNS):
        coarse = generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        stream = io.BytesIO()
        Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC).save(
            stream, "JPEG", quality=90
        )
        pictures.append(stream.getvalue())
    for split, number in (("train", count - count // 10), ("test", count // 10)):
        for kind in range(CLASSES):
            (folder / split / f"class{kind}").mkdir(parents=True)
        for k in range(number):
            name = folder / split / f"class{k % CLASSES}" / f"{k:07d}.jpg"
            name.write_bytes(pictures[(7 * k + k // PATTERNS) % PATTERNS])
    return folder


@contextmanager
def limited(size: int) -> Iterator[str]:
    """The file that puts a process into a group with so much memory. Files that it maps count."""
    old = (GROUPS / "memory").is_dir()
    group = GROUPS / "memory" / "normexp-data" if old else GROUPS / "normexp-data"
    try:
        group.mkdir(exist_ok=True)
        (group / ("memory.limit_in_bytes" if old else "memory.max")).write_text(str(size))
    except OSError as error:
        raise SystemExit(f"Error: no memory limit ({error}); run as root, or give --large-gb 0") from None
    yield str(group / "cgroup.procs")
    group.rmdir()


def forget(cache: Path) -> None:
    """Remove the cache's pages from memory. Pages that are there already would not count toward a limit."""
    os.sync()
    for file in cache.rglob("*"):
        if file.is_file():
            with file.open("rb") as stream:
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def run(what: str, overrides: list[str], outputs: Path, group: str = "") -> dict:
    folder = outputs / what.replace(" ", "_")
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, group, *RUN, *overrides, f"run_dir={folder}"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    wall = time.perf_counter() - started
    code, message, cpu, peak = json.loads(done.stdout)
    if code:
        raise SystemExit(f"Error: {what} ended with {code}: {message}")
    summary = json.loads((folder / "summary.json").read_text())
    rate = summary["steps"] / summary["seconds"]
    return {"what": what, "wall_s": wall, "cpu_s": cpu, "peak_MB": peak, "steps_per_s": rate}


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py data", description=__doc__)
    parser.add_argument("--images", type=int, default=50_000, help="of 64 by 64 pixels (%(default)s)")
    parser.add_argument("--large-gb", type=float, default=6, help="decoded size of the large set; 0: none")
    parser.add_argument("--limit-gb", type=float, default=2, help="memory for the large set (%(default)s)")
    parser.add_argument(
        "--steps", type=int, default=400, help="of the large set, batches of 128 (%(default)s)"
    )
    asked = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory(prefix="normexp-data-") as place:
        outputs, cache = Path(place) / "outputs", Path(place) / "cache"
        small = folder_of_images(Path(place) / "small", asked.images, 64)
        given = [
            f"data.path={small}",
            f"data.cache={cache}",
            "data.image_size=64",
            "model=mlp",
            "max_steps=1",
        ]
        rows += [
            run(f"{which} run", [*given, f"seed={k}"], outputs) for k, which in enumerate(("first", "second"))
        ]
        if asked.large_gb:
            side, count = 128, int(asked.large_gb * GB / (128 * 128 * 3))
            large = folder_of_images(Path(place) / "large", count, side)
            given = [f"data.path={large}", f"data.cache={cache}", f"data.image_size={side}", "model=mlp"]
            given += ["model.width=16", "batch_size=128", "val_every_n_steps=100000"]
            rows.append(run("large first", [*given, "max_steps=1"], outputs))
            given.append(f"max_steps={asked.steps}")
            rows.append(run("large in memory", given, outputs))
            forget(cache)
            with limited(int(asked.limit_gb * GB)) as group:
                rows.append(run("large limited", given, outputs, group))
            rows[-1]["of_in_memory"] = rows[-1]["steps_per_s"] / rows[-2]["steps_per_s"]
    table = Table("", "wall s", "CPU s", "peak MB with mapped files", "steps/s", "of in memory")
    for row in rows:
        numbers = (row.get(key) for key in ("wall_s", "cpu_s", "peak_MB", "steps_per_s", "of_in_memory"))
        table.add_row(row["what"], *("" if number is None else f"{number:,.3g}" for number in numbers))
    Console(width=100).print(table)
    return rows
