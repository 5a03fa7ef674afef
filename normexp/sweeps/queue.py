"""The order of jobs, shared with other launches: none waits idly, and no run is done twice."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Generic, TypeVar

from normexp.runs import read_summary
from normexp.training.folder import in_use

LOOK_SECONDS = 1.0  # between two looks if other launches train all remaining runs

Job = TypeVar("Job")


class Elsewhere(Enum):
    """What other launches do, or have done, with a job."""

    NOTHING = 0
    TRAINING = 1
    FINISHED = 2


def elsewhere(folders: Sequence[Path]) -> Elsewhere:
    """The state of a job, from the folders of its runs. A damaged folder counts as free; the job will report it."""
    if any(in_use(folder) for folder in folders):
        return Elsewhere.TRAINING
    try:
        return Elsewhere.FINISHED if all(map(read_summary, folders)) else Elsewhere.NOTHING
    except ValueError:
        return Elsewhere.NOTHING


class JobQueue(Generic[Job]):
    """Jobs in their order, but jobs that another launch trains come last.

    So two sweeps of the same runs share the work. Between a look and the start of a job, another launch may take it.
    Then the job itself has to wait (`NORMEXP_WAIT`).

    Args:
        look: tells what other launches do with a job.

    Attributes:
        busy: remaining jobs that another launch trains.
    """

    def __init__(self, jobs: Iterable[Job], look: Callable[[Job], Elsewhere]):
        self._left, self._look = deque(jobs), look
        self._next_look = 0.0
        self.busy: list[Job] = []

    def __bool__(self) -> bool:
        return bool(self._left)

    def add(self, job: Job) -> None:
        """Add a job behind all others."""
        self._left.append(job)
        self._next_look = 0.0

    def take(self) -> tuple[Job, Elsewhere] | None:
        """The next job to start (NOTHING), or one that needs no start (FINISHED). None if other launches train all
        remaining jobs, or did so a moment ago."""
        if time.monotonic() < self._next_look:
            return None
        busy: list[Job] = []
        while self._left:
            job = self._left.popleft()
            found = self._look(job)
            if found is not Elsewhere.TRAINING:
                self._left.extend(busy)
                self.busy = [one for one in (*self.busy, *busy) if one is not job]
                return job, found
            busy.append(job)
        self._left.extend(busy)
        self.busy = busy
        self._next_look = time.monotonic() + LOOK_SECONDS
        return None
