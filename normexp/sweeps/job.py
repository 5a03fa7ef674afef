"""One run at a place: the value that is sent there, what is done with it, and what comes back."""

import contextlib
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from normexp.config.errors import one_line
from normexp.config.folder import allowed_packages
from normexp.config.loggers import names_of
from normexp.config.process import preserve_global_state, typed
from normexp.config.run_spec import RunSpec
from normexp.format import printable
from normexp.training.folder import Busy

AT_ONCE = (signal.SIGINT, signal.SIGTERM)  # the second of these kills
# Slurm and submitit send the others before a job's time is over.
STOPS = AT_ONCE + tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))
INTERRUPTED = tuple(128 + number for number in STOPS)  # exit statuses
LOGGERS = {"tensorboard", "csv"}  # others keep connections and threads


@dataclass(frozen=True)
class Job:
    """The work of one run.

    Args:
        argv: the command line of this run alone. Lightning runs it again for each device.
        threads: CPU threads, if the run sets none.
        log: of stdout and stderr. A second try appends to it.
    """

    spec: RunSpec
    argv: list[str]
    threads: int
    log: Path


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Args:
        status: completed, diverged, failed, interrupted, or elsewhere: another process is training this run.
        seconds: of the run.
        clean: whether the process may train another run: nothing but this project's code ran in it.
    """

    status: str
    seconds: float
    error: str | None = None
    clean: bool = True


def work(job: Job) -> Outcome:
    """Train the run of a job. Every place calls this, in the main thread of some process."""
    import torch

    from normexp.training.train import train

    started, argv = time.monotonic(), sys.argv
    status, error = "", None
    with writing_to(job.log), preserve_global_state():
        sys.argv = job.argv
        torch.set_num_threads(job.threads)
        try:
            summary = train(job.spec, typed(job.argv))
            status = summary["status"]
        except Busy:
            status = "elsewhere"
        except SystemExit as stop:
            if stop.code not in INTERRUPTED:  # submitit has put the job back into its queue
                raise
            status = "interrupted"
        except Exception as caught:
            traceback.print_exc()
            status, error = "failed", one_line(caught)
            print(f"Error: {printable(error)}", flush=True)
        finally:
            sys.argv = argv
    gc.collect()  # network and data hold each other, and the next run needs their memory
    return Outcome(status, time.monotonic() - started, error, error is None and leaves_no_trace(job.spec))


def leaves_no_trace(spec: RunSpec) -> bool:
    """Whether a process is after this run as it was before it."""
    config, allowed = spec.config, allowed_packages() or spec.allowed
    plain = config["trainer"].get("devices") == 1 and not config["compile"] and not allowed
    return plain and set(names_of(config["logger"])) <= LOGGERS


@contextlib.contextmanager
def writing_to(log: Path) -> Iterator[None]:
    """Inside this context, all that this process and its children print goes to the end of a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
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
