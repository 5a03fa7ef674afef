"""What the engine asks of a place where runs are computed, and what a place answers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Job:
    """What one process does: `target(payload)`.

    Args:
        key: which cell it is, equal in every launch of the same study.
        payload: travels by pickle.
        log: stdout and stderr of the process; a second try of the same launch goes on in the same file.
        folders: of its runs; their checkpoints say whether a try got on.
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
        exit_code: negative for a signal, as Python's own; None where nobody saw it end.
        lost: why it ended without an outcome of its own, e.g. "its node is gone"; it is tried again.
        timed_out: it reached the time limit, and may go on from its checkpoint.
    """

    job: Job
    exit_code: int | None
    lost: str | None = None
    timed_out: bool = False


Event = Started | Ended


class Place(ABC):
    """Computes jobs. The engine calls it from one thread, and submits no more than there is room for.

    Args:
        target: a function that a fresh process can import.
    """

    at_once: int  # jobs that run at a time, as far as known: for the estimate
    threads: int  # CPU threads of each run
    keeps_jobs = False  # jobs outlive this process

    def __init__(self, target: Callable[[Any], None]):
        self.target = target

    @property
    @abstractmethod
    def room(self) -> int:
        """How many more jobs it takes now."""

    @abstractmethod
    def submit(self, jobs: Sequence[Job]) -> list[Job]:
        """Start these, or put them in its queue; returns those that it does not take now."""

    @abstractmethod
    def poll(self, seconds: float) -> list[Event]:
        """What happened; waits so long for something to happen."""

    @abstractmethod
    def stop(self, *, force: bool) -> None:
        """Ask all jobs to save and end, or kill them. Their ends come by `poll`."""

    def adopt(self, jobs: Sequence[Job]) -> list[Job]:
        """Those of these jobs that an earlier launch started here and that still run or wait; from now on they are
        this launch's."""
        return []

    def close(self) -> None:
        """After the last event, or an error in whoever consumes them: jobs that are left are asked to stop."""
        self.stop(force=False)

    @abstractmethod
    def __str__(self) -> str:
        """How runs are computed, for the plan: `2 at a time, 1 thread each`."""


def each(threads: int) -> str:
    """For `__str__`."""
    return f"{threads} thread{'s' * (threads > 1)} each"
