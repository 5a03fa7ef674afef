"""Commands and functions in a process of their own that makes no imports: a fork of the server which sweeps use, that
made them once. A new interpreter takes five seconds for them; a test of the start itself starts one."""

import contextlib
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from unsynced import leave_to_the_kernel

from normexp.config.process import STOPS
from normexp.sweeps.places import processes

ROOT = Path(__file__).parents[1]


def forked(
    *words: str, script: str = "train.py", folder: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess:
    """`python SCRIPT WORDS`, started in a folder."""
    return call(run_script, [str(ROOT / script), *words], folder=folder, **environment)


def started(
    *words: str, folder: Path = ROOT, more: Sequence[Path] = (), **environment: str
) -> subprocess.CompletedProcess:
    """`python WORDS` in a new interpreter that finds this checkout, and `more` folders."""
    own = {"PYTHONPATH": os.pathsep.join(map(str, [ROOT, *more]))}
    environment = os.environ | own | environment
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def until(condition: Callable[[], Any], seconds: float = 300) -> Any:
    """The first value of a condition that is true."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)
    return found


def run_script(argv: Sequence[str]) -> None:
    sys.argv = [os.path.relpath(argv[0]), *argv[1:]]
    runpy.run_path(argv[0], run_name="__main__")


def call(
    function: Callable[..., Any], *arguments: Any, folder: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess:
    """What a function prints, and the status with which its process ends."""
    with begun(function, *arguments, folder=folder, **environment) as (_, done):
        return done()


@contextlib.contextmanager
def begun(
    function: Callable[..., Any], *arguments: Any, folder: Path = ROOT, **environment: str
) -> Iterator[tuple[int, Callable[[], subprocess.CompletedProcess]]]:
    """(the process that calls a function, what waits for its end)."""
    context = processes()
    with tempfile.TemporaryDirectory() as place:
        files = [Path(place) / name for name in ("out", "err")]
        server = forkserver._forkserver._forkserver_address if folder == ROOT else None
        around = (list(map(str, files)), str(folder), os.environ | environment, server)
        process = context.Process(target=_enter, args=(around, function, arguments))
        process.start()

        def done() -> subprocess.CompletedProcess:
            process.join()
            out, err = (path.read_text() for path in files)
            return subprocess.CompletedProcess([function.__name__, *arguments], process.exitcode, out, err)

        yield process.pid, done


def _enter(
    around: tuple[list[str], str, Mapping[str, str], str | None],
    function: Callable[..., Any],
    arguments: Sequence[Any],
) -> None:
    files, folder, environment, server = around
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, path in enumerate(files, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    leave_to_the_kernel()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    if server:
        _use_server(server)
    function(*arguments)


def _use_server(address: str) -> None:
    """Let the jobs of this process be forks of the server that forked it. A server of its own would take five seconds
    for its imports."""
    own = forkserver._forkserver
    own._forkserver_address, own._forkserver_pid = address, os.getppid()
    own.ensure_running = forkserver.ensure_running = lambda: None
