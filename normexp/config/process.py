"""The process of a command: its name in messages, its fast start, how it ends, and the state that runs change."""

import atexit
import contextlib
import gc
import logging
import os
import random
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from normexp.format import UNPRINTABLE, tell
from normexp.machine import busy_elsewhere

SCRIPTS = ("train", "verify", "report")  # a checkout starts these as files
BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130  # exit statuses
# Slurm and submitit send one of the last two before a job's time is over, or when other jobs need its place.
STOPS = tuple(getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2") if hasattr(signal, n))
BUSY = 0.5  # cores that others use
LOGGERS = ("pytorch_lightning", "lightning_fabric", "lightning.pytorch")


def command(name: str) -> str:
    """What a user types for a command: `normexp train ...`, or `python train.py ...` where a file of a checkout was
    started. A program of the user's own, or a notebook, has the installed command."""
    path = Path(sys.argv[0])
    if path.suffix != ".py" or path.stem not in SCRIPTS:
        return f"normexp {name}"
    script = f"python scripts/{name}.py" if name in SCRIPTS else f"python -m normexp {name}"
    return "python train.py" if name == "train" else script


def typed(argv: Sequence[str]) -> str:
    """A command line as a user types it, quoted for a shell, on one line. `sys.argv[0]` is replaced by the command."""
    installed = Path(argv[0]).stem == "normexp"  # normexp.exe on Windows
    arguments = ["normexp", *argv[1:]] if installed else ["python", *argv]
    return UNPRINTABLE.sub(" ", shlex.join(arguments))


def sleep_where_others_work() -> None:
    """Let torch's threads sleep while they wait for each other, where other processes use these cores. By default they
    spin: on two idle cores that saves a third of a step; beside one busy process it triples the step, as what spins
    keeps the core that the other thread needs. Both compute the same bits. OpenMP reads this with torch's import."""
    given = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys()
    if not given and "torch" not in sys.modules and busy_elsewhere() >= BUSY:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


@contextlib.contextmanager
def fast_imports() -> Iterator[None]:
    """Inside this context Python collects no garbage; what exists at its end is left out of later collections. The
    libraries of a run are a million objects, and collections while they are imported take a seventh of a short run."""
    sleep_where_others_work()
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            atexit.register(gc.unfreeze)  # where Python itself takes libraries down, it must know all of them
            gc.enable()


def was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error. Some libraries catch it while they are imported, and fail with another one."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def fail(message: str, status: int) -> NoReturn:
    """Print an error on one line of the error stream and exit."""
    say_and_exit(f"Error: {message}", status)


def say_and_exit(message: str, status: int) -> NoReturn:
    """Print a message on the error stream, on one line unless a terminal is too narrow, and exit."""
    # What the user typed may hold signs that move the cursor.
    tell("".join(c if c.isprintable() else repr(c)[1:-1] for c in message), file=sys.stderr)
    sys.exit(status)


def end(status: int) -> NoReturn:
    """End this process with a status. After success its memory is left to the system: to take the libraries of a run
    down object by object costs most of a second of each command. What waits for the end of Python is called before;
    while a thread still works, Python ends in its own way."""
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    if status == 0 and all(thread.daemon for thread in others):
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError, ValueError):  # a stream that takes nothing any more
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    sys.exit(status)


@contextlib.contextmanager
def handling(handle: Callable[[int, Any], None]) -> Iterator[dict[int, Any]]:
    """Inside this context `handle` answers the signals that stop a run. Gives the handlers that were there before."""
    previous = {number: signal.signal(number, handle) for number in STOPS}
    try:
        yield previous
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def preserve_global_state() -> Iterator[None]:
    """Inside this context, a run may set `sys.argv`, seeds, threads, environment variables, warning filters, logging
    levels and defaults of torch. Afterwards all are restored."""
    environment = dict(os.environ)
    sleep_where_others_work()
    import numpy as np
    import torch

    argv, drawn, numbers = sys.argv, random.getstate(), np.random.get_state()
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    threads, kind, format_warning = torch.get_num_threads(), torch.get_default_dtype(), warnings.formatwarning
    deterministic, benchmark = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    try:
        with warnings.catch_warnings(), torch.random.fork_rng():
            yield
    finally:
        sys.argv = argv
        random.setstate(drawn)
        np.random.set_state(numbers)
        os.environ.clear()
        os.environ.update(environment)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        warnings.formatwarning = format_warning
        torch.set_default_dtype(kind)
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)
        torch.backends.cudnn.benchmark = benchmark
