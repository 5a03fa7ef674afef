"""How the time of a sweep's plan, driver, ledger, table and report grows with the number of runs. Runs are empty."""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from normexp.sweeps.cell import Cell
from normexp.sweeps.launch import Launch
from normexp.sweeps.places.place import Ended, Event, Job, Place, Started

from .sweep import CLOCKS, LOAD, ROOT, copies, seconds

NORMS = "none,batchnorm,layernorm,groupnorm,rmsnorm"
SMALL = ["model.depth=1", "model.width=8", "batch_size=32", "monitor=none", "trainer=cpu"]


class Nothing(Place):
    """Every job ends at once, so only the driver's work remains."""

    at_once, threads = 64, 1

    def __init__(self) -> None:
        super().__init__(print)
        self._jobs: list[Job] = []

    @property
    def room(self) -> int:
        return self.at_once - len(self._jobs)

    def submit(self, jobs: Sequence[Job]) -> list[Job]:
        self._jobs += jobs
        return []

    def poll(self, seconds: float) -> list[Event]:
        jobs, self._jobs = self._jobs, []
        return [event for job in jobs for event in (Started(job), Ended(job, 0))]

    def stop(self, *, force: bool) -> None:
        self._jobs = []

    def __str__(self) -> str:
        return "nothing is done"


def plan(runs: int, outputs: Path, clock: str) -> tuple[float, float]:
    """(seconds, MB) of a command that plans a grid and starts nothing."""
    grid = [f"norm={NORMS}", f"seed=range(0,{runs // 5})", f"outputs={outputs}", "--plan"]
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    started = CLOCKS[clock]()
    done = subprocess.run(
        [sys.executable, "-c", code, sys.executable, "train.py", "-m", *SMALL, *grid],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return CLOCKS[clock]() - started, int(done.stdout) / 1000


def drive(runs: int, folder: Path) -> tuple[float, float, float]:
    """(seconds, microseconds per event, bytes of the ledger per event) of a launch of so many empty runs."""
    cells = [
        Cell(
            f"seed={seed}",
            [],
            {"model": "mlp"},
            {"fast_dev_run": True},
            f"{seed:064d}",
            [folder / "mlp" / f"s{seed}"],
        )
        for seed in range(runs)
    ]
    with Path(os.devnull).open("w") as nowhere:
        launch = Launch(Nothing(), lambda cell: None, folder / ".sweeps" / "now", "growth")
        launch.console = Console(file=nowhere)
        launch.add(cells)
        started, events = time.perf_counter(), 0
        written = 0
        for _ in launch.run():
            events += 1
            if events == 2 * runs:
                written = (folder / ".sweeps" / "now" / "progress.jsonl").stat().st_size
        taken = time.perf_counter() - started
    return taken, 1e6 * taken / events, written / events


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py growth", description=__doc__)
    parser.add_argument("--runs", default="100,1000,10000")
    parser.add_argument(
        "--clock", choices=list(CLOCKS), default="wall", help="cpu: where others share the machine"
    )
    asked = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as place:
        seconds("train.py", *SMALL, "max_steps=1000", f"run_dir={place}/one")
        for runs in map(int, asked.runs.split(",")):
            folder = Path(place) / str(runs)
            study = copies(Path(place) / "one", runs, folder / "study")
            planned, memory = plan(runs, folder / "o", asked.clock)
            driven, event, ledger = drive(runs, folder / "drive")
            rows.append(
                {
                    "runs": runs, "plan_s": planned, "plan_MB": memory, "driver_s": driven, "event_us": event,
                    "ledger_bytes": ledger, "table_s": seconds("-c", LOAD, str(study), clock=asked.clock),
                    "report_s": seconds("scripts/report.py", str(study), clock=asked.clock),
                }
            )  # fmt: skip
            print(rows[-1], flush=True)
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{value:,.4g}" for value in row.values()))
    console = Console()
    console.print(table)
    console.print(
        f"peak of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:,.0f} MB"
    )
    return rows
