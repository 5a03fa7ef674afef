"""The process of a command starts and ends sooner than Python's own way.

A run's libraries are a million objects. By default Python searches them for garbage several times while they are
imported, and takes them down one by one at the end. Each costs a second.
"""

import atexit
import contextlib
import gc
import inspect
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn

STARTERS = (__name__, "normexp.cli.main", "runpy")
WITHOUT_BUFFER = (io.FileIO, io.BytesIO, io.StringIO)  # or whose content is in memory and nowhere else


@contextlib.contextmanager
def imports() -> Iterator[None]:
    """Inside this context nothing is searched for garbage. What exists at its end is never searched again."""
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
    status = main(*arguments)
    if not status and _nothing_comes_after():
        end()
    sys.exit(status)


def _nothing_comes_after() -> bool:
    """Whether Python itself started what calls this: one script or module, with nothing around it."""
    modules, frame = 0, inspect.currentframe()
    while frame is not None:
        modules += frame.f_code.co_name == "<module>"
        if frame.f_code.co_name != "<module>" and frame.f_globals.get("__name__") not in STARTERS:
            return False
        frame = frame.f_back
    return modules == 1


def end() -> None:
    """End this process with status 0: wait for its threads, call what is registered for the end, write what was
    printed. Memory is left to the system. Does nothing in a process that is profiled, or has an open file: then Python
    has more to do."""
    if _is_profiled():
        return
    gc.disable()
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        if not _open_files():
            os._exit(0)
    # The disk is full, a stream is closed or gone: Python says so.
    except (OSError, ValueError, AttributeError):
        pass
    gc.enable()


def _is_profiled() -> bool:
    tools = getattr(sys, "monitoring", None)  # from Python 3.12
    return bool(sys.getprofile() or sys.gettrace() or (tools and any(map(tools.get_tool, range(6)))))


def _open_files() -> list[io.IOBase]:
    """Files that are open for writing, without the standard streams."""
    things = gc.get_objects()
    # By their classes, because proxies compute attributes, and there are few classes.
    kinds = {kind for kind in set(map(type, things)) if issubclass(kind, io.IOBase)}
    kinds = {kind for kind in kinds if not issubclass(kind, WITHOUT_BUFFER)}
    return [thing for thing in things if type(thing) in kinds and _is_open(thing)]


def _is_open(file: io.IOBase) -> bool:
    try:
        return not file.closed and file.writable() and file.fileno() > 2
    except (OSError, ValueError):  # it is none of the system's
        return True
