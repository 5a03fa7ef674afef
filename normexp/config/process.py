"""The process of a command: how it was started, `normexp train ...` or `python train.py ...` (messages and records name
that form), its fast start and end, Ctrl-C, closed output, and global state.

A run's libraries are a million objects. By default Python collects garbage among them several times while they are
imported, and takes them down one by one at the end. Without `fast_imports` and `run_as_process`, `train` of one epoch
needs 1.5 times the CPU time, and `verify` of a law 1.3 times.
"""

import atexit
import contextlib
import gc
import io
import logging
import os
import random
import shlex
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

from normexp.format import UNPRINTABLE

SCRIPTS = ("verify", "report")
STARTERS = {__name__, "normexp.cli.main", "runpy", "traceback"}
BUFFERED = (io.BufferedWriter, io.BufferedRandom)
BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130  # exit statuses
LOGGERS = ("pytorch_lightning", "lightning_fabric", "lightning.pytorch")
_sub_command: list[str] = []  # of `normexp train`; empty if a script was started


def command(name: str) -> str:
    """What a user types for a command."""
    if _installed(sys.argv):
        return f"normexp {name}"
    own = f"python scripts/{name}.py" if name in SCRIPTS else f"python -m normexp {name}"
    return "python train.py" if name == "train" else own


def typed(argv: Sequence[str]) -> str:
    """A command line as a user types it, quoted for a shell, on one line. `sys.argv[0]` is replaced by the command."""
    return " ".join(map(_quoted, ["normexp", *argv[1:]] if _installed(argv) else ["python", *argv]))


def _quoted(argument: str) -> str:
    if not UNPRINTABLE.search(argument):
        return shlex.quote(argument)
    text = argument.replace("\\", r"\\").replace("'", r"\'")
    return "$'" + UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "'"


def _installed(argv: Sequence[str]) -> bool:
    """Whether the program is the installed command: `normexp`, or normexp.exe on Windows."""
    return Path(argv[0]).stem == "normexp"


def hide_command() -> None:
    """Take the word `train` of `normexp train ...` out of `sys.argv`: Hydra would read it as an override."""
    _sub_command[:] = [sys.argv.pop(1)]


def restore_command() -> None:
    """Put the word back, for code that records the command line or runs it in other processes, as Lightning does."""
    if sys.argv[1:2] != _sub_command:
        sys.argv[1:1] = _sub_command


@contextlib.contextmanager
def fast_imports() -> Iterator[None]:
    """Inside this context Python collects no garbage; what exists at its end is left out of later collections."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            atexit.register(gc.unfreeze)  # where Python itself takes libraries down, it must know all of them
            gc.enable()


def run_as_process(main: Callable[..., int | None], *arguments: object) -> NoReturn:
    """Call a command and end this process with its status. An error ends it in Python's own way, and so does a script
    that another program runs inside itself."""
    ended = False
    if _nothing_comes_after():
        # What is registered first is called last, after threads have ended.
        atexit.register(lambda: _exit_fast() if ended else None)
    status = main(*arguments)
    ended = not status
    sys.exit(status)


def _nothing_comes_after() -> bool:
    """Whether Python itself started what calls this: one script or module, with nothing around it."""
    frames = [frame for frame, _ in traceback.walk_stack(None)]
    modules = [frame for frame in frames if frame.f_code.co_name == "<module>"]
    others = {frame.f_globals.get("__name__") for frame in frames if frame not in modules}
    return len(modules) == 1 and others <= STARTERS


def _exit_fast() -> None:
    """End this process with status 0 and leave its memory to the system. Does nothing in a process that is profiled, or
    has an open file or a stream that takes nothing: then Python has more to do, or to say."""
    tools = getattr(sys, "monitoring", None)  # from Python 3.12
    if sys.getprofile() or sys.gettrace() or (tools and any(map(tools.get_tool, range(6)))):
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        sys.stderr.flush()
        # proxies compute isinstance
        files = [thing for thing in gc.get_objects() if issubclass(type(thing), BUFFERED)]
        if all(file.closed or file.fileno() <= 2 for file in files):
            os._exit(0)


class EarlyInterrupt:
    """A handler of Ctrl-C that remembers it. Some libraries catch KeyboardInterrupt while they are imported, and fail
    with another error.

    Attributes:
        came: True after it came.
    """

    came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        signal.default_int_handler(number, frame)


@contextlib.contextmanager
def note_interrupt() -> Iterator[EarlyInterrupt]:
    """Inside this context, Ctrl-C raises KeyboardInterrupt as always and is remembered. A handler of others stays."""
    handler = signal.getsignal(signal.SIGINT)
    early = handler if isinstance(handler, EarlyInterrupt) else EarlyInterrupt()
    in_place = handler is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if in_place:
        signal.signal(signal.SIGINT, early)
    try:
        yield early
    finally:
        if in_place and signal.getsignal(signal.SIGINT) is early:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def prepare() -> None:
    """Begin a command: text that the terminal cannot encode is replaced, and there must be a present folder."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # absent where a program put something else in its place
            stream.reconfigure(errors="replace")
    try:
        os.getcwd()
    except FileNotFoundError:
        fail("the present folder was deleted; change to one that exists", BAD_INPUT)


@contextlib.contextmanager
def cut_quietly() -> Iterator[None]:
    """Inside this context, `| head` ends this process without an error."""
    if not hasattr(signal, "SIGPIPE"):  # on Windows
        yield
        return
    previous = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    yield
    sys.stdout.flush()
    signal.signal(signal.SIGPIPE, previous)


def fail(message: str, status: int) -> NoReturn:
    """Print one line on the error stream and exit."""
    say_and_exit(f"Error: {message}", status)


def say_and_exit(message: str, status: int) -> NoReturn:
    """The same for a message that is no error."""
    # What the user typed may hold signs that move the cursor.
    print("".join(c if c.isprintable() else repr(c)[1:-1] for c in message), file=sys.stderr)
    sys.exit(status)


class _TolerantStream:
    """A stream. Text that cannot be written is lost; the error stream says so once."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._tolerate(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        self._tolerate(self._stream.flush)

    def _tolerate(self, call: Callable[..., Any], *arguments: str) -> None:
        try:
            call(*arguments)
        except OSError as error:
            # From now on everything goes nowhere, also what the stream still holds when the process ends.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            with contextlib.suppress(OSError):
                why = error.strerror or error
                print(f"nothing can be printed any more ({why}); the work goes on", file=sys.stderr)


def tolerant_stdout() -> TextIO:
    """Where to print what is not the result of the work."""
    return sys.stdout and _TolerantStream(sys.stdout)  # type: ignore[return-value]  # None where it was closed at the start


@contextlib.contextmanager
def tolerate_closed_stdout() -> Iterator[None]:
    """Inside this context work goes on if standard output is closed or its disk is full."""
    with contextlib.redirect_stdout(tolerant_stdout()):
        yield


@contextlib.contextmanager
def preserve_global_state() -> Iterator[None]:
    """Inside this context, a run may set seeds, threads, environment variables, warning filters, logging levels and
    defaults of torch. Afterwards all are restored."""
    import numpy as np
    import torch

    environment, levels = dict(os.environ), {name: logging.getLogger(name).level for name in LOGGERS}
    drawn, format_warning = random.getstate(), warnings.formatwarning
    numbers, threads, kind = np.random.get_state(), torch.get_num_threads(), torch.get_default_dtype()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    precision, benchmark = torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark
    try:
        with warnings.catch_warnings(), torch.random.fork_rng():
            yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        random.setstate(drawn)
        warnings.formatwarning = format_warning
        np.random.set_state(numbers)
        torch.set_default_dtype(kind)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.benchmark = benchmark
