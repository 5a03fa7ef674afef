"""Counts what a run does to the files under a folder, and stops the process, or its disk, at one of these points.

A point is an opening for writing, a write, a truncation, a rename, an fsync, an unlink, a new or a removed folder. A
write has two: before it, and when half of it is done. Kernel calls that C++ makes by itself are not seen; the project
writes through Python alone.
"""

import builtins
import errno
import io
import os
import pathlib
import signal
from collections.abc import Callable
from pathlib import Path

import normexp.training.loggers.files as record_files


class Points:
    """Counts from 1; at point `at` it calls `act`."""

    def __init__(self, root: Path, at: int | None, act: Callable[[], None]):
        self.root, self.at, self.act = str(root.resolve()), at, act
        self.seen: list[str] = []  # kind and file of each

    def reach(self, kind: str, path: str) -> bool:
        """Whether this is the point."""
        self.seen.append(f"{kind} {os.path.relpath(path, self.root)}")
        return len(self.seen) == self.at

    def inside(self, path) -> str | None:
        """The absolute path if it lies under the root."""
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        path = os.path.abspath(os.fsdecode(path))
        return path if path.startswith(self.root + os.sep) else None

    def before(self, kind: str, path) -> None:
        if (inside := self.inside(path)) and self.reach(kind, inside):
            self.act()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fill_disk() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def watch(points: Points) -> None:
    """From here on, everything in this process."""
    real_open, real_os_open = io.open, os.open

    class Raw(io.FileIO):
        def write(self, content) -> int:
            path = points.inside(self.fileno())
            if path and points.reach("write", path):
                points.act()
            if path and points.reach("half a write", path):
                super().write(memoryview(content)[: len(content) // 2])
                points.act()
            return super().write(content)

        def truncate(self, size=None) -> int:
            points.before("truncate", self.fileno())
            return super().truncate(size)

    def opened(
        file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None
    ):
        if isinstance(file, int) or not set(mode) & set("wax+") or not points.inside(file):
            return real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        points.before("open", file)
        raw = Raw(file, mode.replace("b", "").replace("t", ""))
        if buffering == 0:
            return raw
        buffered = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

    def os_open(path, flags, *args, **kwargs):
        if flags & (os.O_CREAT | os.O_TRUNC) and kwargs.get("dir_fd") is None:
            points.before("open", path)
        return real_os_open(path, flags, *args, **kwargs)

    def pluralize(kind: str, real: Callable) -> Callable:
        def call(path, *args, **kwargs):
            directory = kwargs.get("dir_fd")
            place = os.path.join(os.readlink(f"/proc/self/fd/{directory}"), path) if directory else path
            points.before(kind, place)
            return real(path, *args, **kwargs)

        return call

    io.open = builtins.open = opened
    os.open = os_open
    record_files.FileIO = Raw
    for name in ("replace", "rename", "fsync", "unlink", "remove", "mkdir", "rmdir", "truncate", "ftruncate"):
        setattr(os, name, pluralize(name, getattr(os, name)))
    pathlib.io = io  # some versions of pathlib have taken a copy
