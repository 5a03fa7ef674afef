"""The interface between the engine and a place where runs are computed."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


@dataclass
class Job:
    """The work of one run: `target(payload)`.

    Args:
        key: of the cell, equal in every launch of the same study.
        payload: sent by pickle.
        log: stdout and stderr meanwhile. A second try of the same launch appends to the file.
        folders: of its runs. Their checkpoints show whether a try made progress.
    """

    key: str
    payload: Any
    log: Path
    folders: tuple[Path, ...] = ()


@dataclass
class Started:
    """A job's process has started."""

    job: Job


@dataclass
class Ended:
    """A job's process has ended.

    Args:
        exit_code: negative for a signal, as in Python; None if nobody saw it end.
        lost: the reason if it ended without a result, e.g. "its node is gone". It is tried again.
        timed_out: it reached the time limit, and may resume from its checkpoint.
        used: what its process used, where that is known.
    """

    job: Job
    exit_code: int | None
    lost: str | None = None
    timed_out: bool = False
    used: "Used | None" = None


class Used(NamedTuple):
    """What a process used for a job: seconds of a core, and bytes of memory at its peak."""

    seconds: float
    memory: int


Event = Started | Ended


class Place(ABC):
    """Computes jobs. The engine calls it from one thread, and never submits more jobs than it has room for.

    Args:
        target: a function that a fresh process can import.
    """

    at_once: int  # jobs that run at a time, as far as known, for the estimate
    threads: int  # CPU threads of each run
    keeps_jobs = False  # jobs outlive this process

    def __init__(self, target: Callable[[Any], Any]):
        self.target = target
        self.said: list[str] = []  # lines for the screen, taken by the engine

    @property
    @abstractmethod
    def room(self) -> int:
        """Number of jobs that it can take now."""

    @abstractmethod
    def submit(self, jobs: Sequence[Job]) -> list[Job]:
        """Start or queue these jobs. Returns the jobs that it does not take now."""

    @abstractmethod
    def poll(self, seconds: float) -> list[Event]:
        """The new events. Waits up to so many seconds for one."""

    @abstractmethod
    def stop(self, *, force: bool) -> None:
        """Ask all jobs to save and end, or kill them. `poll` reports their ends."""

    def adopt(self, jobs: Sequence[Job]) -> list[Job]:
        """Adopt the jobs among these that an earlier launch started here and that still run or wait. Returns them."""
        return []

    def close(self) -> None:
        """Ask remaining jobs to stop, after the last event or after an error in the consumer."""
        self.stop(force=False)

    @abstractmethod
    def __str__(self) -> str:
        """How runs are computed, for the plan: `2 at a time, 1 thread each`."""


def each(threads: int) -> str:
    """For `__str__`."""
    return f"{threads} thread{'s' * (threads > 1)} each"
