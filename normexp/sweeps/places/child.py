"""The process of one job: its environment, its log, its end with the parent, errors of one line."""

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from normexp.cli.errors import one_line
from normexp.sweeps.places.place import Job
from normexp.training.folder import WAIT

PRELOAD = ["normexp.sweeps.places.preloaded"]
AT_ONCE = (signal.SIGINT, signal.SIGTERM)  # the second of these kills
# Slurm and submitit send the others before a job's time is over.
STOPS = AT_ONCE + tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def enter(target: Callable[[Any], None], job: Job, environment: Mapping[str, str]) -> None:
    """First function of a job's process. A job that fails leaves a traceback and one line in its log, and status 1."""
    os.environ.update(environment)
    os.environ[WAIT] = "1"  # another launch may be training the same run
    # Ctrl-C and Slurm's signals reach all processes. The parent decides, and then sends SIGTERM.
    for number in STOPS:
        signal.signal(number, _leave_it_to_the_parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)  # until training answers it, and again when training has
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    threading.Thread(target=_follow_parent, daemon=True).start()
    with job.log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout.reconfigure(line_buffering=True, errors="replace")  # type: ignore[union-attr]
    try:
        target(job.payload)
    except Exception as error:
        traceback.print_exc()
        print(f"Error: {one_line(error)}", flush=True)
        sys.exit(1)


def _end(number: int, frame: Any) -> None:
    sys.exit(128 + number)


def _leave_it_to_the_parent(number: int, frame: Any) -> None:
    """Do nothing. As a handler, it keeps a stopped run from asking Slurm to start it again."""


def _follow_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
