"""Measure everything on this machine: one process after the other, a JSON file each.

--device cpu   the page: `all --device cpu --out docs`, then `python scripts/performance_page.py`
--device cuda  `all --device cuda --out docs/gpu`, under ten minutes, then the same page. Each measurement has a limit
               of time. One that fails or takes longer is named, and the others go on
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from .measure.everything import EVERYTHING, Measurement

SCRIPT = Path(__file__).parents[1] / "benchmark.py"


def arguments_of(measurement: Measurement, size: str, given: list[str]) -> list[str] | None:
    """Of benchmark.py; None if it is not measured in this size."""
    own = getattr(measurement, size)
    if own is None:
        return None
    data = given if "data=" in own else []  # the others have data of their own
    return [measurement.command, *shlex.split(own), *data]


def run(command: list[str], seconds: float | None, *, hide_gpu: bool, quiet: bool = False) -> str:
    """Empty, or in one line why the command has no result. Nothing that it started goes on."""
    environment = os.environ | ({"CUDA_VISIBLE_DEVICES": ""} if hide_gpu else {})
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), *command], env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        text, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"took more than {seconds:.0f} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        return f"ended with {process.returncode}: {(text.strip().splitlines() or ['no words'])[-1][-200:]}"
    if not quiet:
        print(text, end="", flush=True)
    return ""


def no_gpu() -> str | None:
    import torch

    if torch.cuda.is_available():
        return None
    return "Error: --device cuda: torch sees no GPU here; run it where there is one, or give --device cpu"


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(
        prog="benchmark.py all", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--out", type=Path, help="folder of the files (default: outputs/benchmarks/<device>)")
    parser.add_argument("--only", default=",".join(EVERYTHING), help="default: %(default)s")
    parser.add_argument(
        "--tiny", action="store_true", help="a trial of all commands; the figures mean nothing"
    )
    parser.add_argument("overrides", nargs="*", help="of the data, for example data.root=/data")
    given = parser.parse_args(arguments)
    names = given.only.split(",")
    if unknown := set(names) - set(EVERYTHING):
        parser.error(f"--only={','.join(sorted(unknown))}: choose from {', '.join(EVERYTHING)}")
    if given.device == "cuda" and (error := no_gpu()):
        sys.exit(error)
    size = "tiny" if given.tiny else {"cpu": "cpu", "cuda": "gpu"}[given.device]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started ends, too
    out = given.out or Path("outputs") / "benchmarks" / given.device
    out.mkdir(parents=True, exist_ok=True)
    missing, begun, started = [], set(), time.monotonic()
    for name in names:
        measurement = EVERYTHING[name]
        command = arguments_of(measurement, size, given.overrides)
        if command is None:
            print(f"{name}: not measured with these sizes", flush=True)
            continue
        file = out / measurement.file
        more = ["--append"] if file in begun else []
        limit = float(measurement.seconds) if given.device == "cuda" else None
        begin = time.monotonic()
        error = run([*command, "--json", str(file), *more], limit, hide_gpu=given.device == "cpu")
        print(f"{name}: {error or file}, {time.monotonic() - begin:.0f} s", flush=True)
        missing += [name] if error else []
        begun |= set() if error else {file}
    print(f"{len(names)} measurements, {time.monotonic() - started:.0f} s", flush=True)
    if missing:
        sys.exit(f"Error: no figures of {', '.join(missing)}; see above")
    return []
