"""One run of many: the value that is sent to a place, what is done with it there, and what becomes of it."""

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from normexp.config.errors import one_line
from normexp.config.process import STOPS, preserve_global_state, typed
from normexp.config.run_spec import RunSpec
from normexp.format import printable
from normexp.runs import read_summary
from normexp.training.folder import Busy

WAITING = ("planned", "running")  # states that pass


@dataclass(frozen=True)
class Job:
    """The work of one run."""

    spec: RunSpec
    argv: list[str]  # the command line of this run alone; Lightning runs it again for each device
    threads: int  # of the CPU, if the run sets none
    log: Path  # of stdout and stderr; a second try appends to it


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    status: str  # completed, diverged, crashed, interrupted, or planned: another process is training this run
    seconds: float
    error: str | None = None
    clean: bool = True  # its process may train another run: no crash, nothing compiled, no group of processes


@dataclass(eq=False)
class Task:
    """A run of a launch and its state."""

    name: str  # how it differs from the others: "norm=batchnorm batch_size=2 seed=0"
    job: Job
    state: str = "planned"  # running, completed, diverged, crashed, interrupted, skipped (was finished)
    seconds: float = 0.0
    error: str | None = None  # why it crashed, in one line
    lost: int = 0  # how often its job ended without an outcome

    @property
    def spec(self) -> RunSpec:
        return self.job.spec

    @property
    def run(self) -> str:
        """The run's name inside its study, as TensorBoard shows it."""
        return f"{self.spec.choices['model']}/{self.spec.folder.name}"

    def status(self) -> str | None:
        """The status in the run's summary; None if there is none, or a damaged one, as the run itself will say."""
        with contextlib.suppress(ValueError):
            if summary := read_summary(self.spec.folder):
                return summary["status"]
        return None


def work(job: Job) -> Outcome:
    """Train the run of a job. Every place calls this, in the main thread of some process."""
    import torch

    from normexp.training.train import train

    started, error = time.monotonic(), None
    with writing_to(job.log), preserve_global_state():
        sys.argv = job.argv
        torch.set_num_threads(job.threads)
        try:
            train_own = getattr(job.spec, "train", None)  # of a function of somebody else
            summary = train_own(typed(job.argv)) if train_own else train(job.spec, typed(job.argv))
            status = summary["status"]
        except Busy:
            status = "planned"
        except SystemExit as stop:
            if stop.code not in [128 + number for number in STOPS]:  # submitit has queued the job again
                raise
            status = "interrupted"
        except Exception as caught:
            traceback.print_exc()
            status, error = "crashed", one_line(caught)
            print(f"Error: {printable(error)}", flush=True)
    config = job.spec.config
    clean = error is None and config["trainer"].get("devices") == 1 and not config["compile"]
    return Outcome(status, time.monotonic() - started, error, clean)


@contextlib.contextmanager
def writing_to(log: Path) -> Iterator[None]:
    """Inside this context, all that this process and its children print goes to the end of a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    before = [os.dup(1), os.dup(2)]
    # Where another program took the streams, as a notebook does, they write to no descriptor.
    with (
        log.open("a", buffering=1, errors="replace") as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        try:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            yield
        finally:
            for number, descriptor in enumerate(before, start=1):
                os.dup2(descriptor, number)
                os.close(descriptor)
