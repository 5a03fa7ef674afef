"""A process that does jobs: its environment, the log of each, its end with the parent, errors of one line."""

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

from normexp.cli.errors import one_line
from normexp.machine import peak_memory
from normexp.sweeps.places.place import Job, Used
from normexp.training.folder import WAIT

PRELOAD = ["normexp.sweeps.places.preloaded"]
AT_ONCE = (signal.SIGINT, signal.SIGTERM)  # the second of these kills
# Slurm and submitit send the others before a job's time is over.
STOPS = AT_ONCE + tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def work(target: Callable[[Any], Any], jobs: Connection, environment: Mapping[str, str]) -> None:
    """The life of a process: it takes jobs until the parent closes the connection, and answers each that is done.

    So what the first run of a process makes once (kernels, memory, pages that were shared) serves the next ones too.
    After a job whose target gives False it ends. A job that fails leaves a traceback and one line in its log, and ends
    the process with status 1.
    """
    os.environ.update(environment)
    os.environ[WAIT] = "1"  # another launch may be training the same run
    _answer_signals()
    threading.Thread(target=_follow_parent, daemon=True).start()
    again = True
    while again:
        try:
            job: Job = jobs.recv()
        except EOFError:
            return
        before = time.process_time()
        again = _do(target, job)
        jobs.send((again, Used(time.process_time() - before, peak_memory())))


def _do(target: Callable[[Any], Any], job: Job) -> bool:
    _answer_signals()  # as libraries may have set them in the job before
    sys.stdout.flush()
    with job.log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout.reconfigure(line_buffering=True, errors="replace")  # type: ignore[union-attr]
    try:
        return target(job.payload) is True
    except Exception as error:
        traceback.print_exc()
        print(f"Error: {one_line(error)}", flush=True)
        sys.exit(1)


def _answer_signals() -> None:
    """Ctrl-C and Slurm's signals reach all processes. The parent decides, and then sends SIGTERM."""
    for number in STOPS:
        signal.signal(number, _leave_it_to_the_parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)  # until training answers it, and again when training has
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


def _end(number: int, frame: Any) -> None:
    sys.exit(128 + number)


def _leave_it_to_the_parent(number: int, frame: Any) -> None:
    """Do nothing. As a handler, it keeps a stopped run from asking Slurm to start it again."""


def _follow_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
