"""Whose turn it is, among runs that other launches may train at the same time: none waits idly, none is done twice."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Generic, TypeVar

from normexp.runs import read_summary
from normexp.training.folder import in_use

LOOK_SECONDS = 1.0  # between two looks where all that is left is trained elsewhere

Job = TypeVar("Job")


class Elsewhere(Enum):
    """What other launches do, or have done, about a job."""

    NOTHING = 0
    TRAINING = 1
    FINISHED = 2


def elsewhere(folders: Sequence[Path]) -> Elsewhere:
    """What is known of a job from the folders of its runs. A damaged one is nobody's: the job itself will say it."""
    if any(in_use(folder) for folder in folders):
        return Elsewhere.TRAINING
    try:
        return Elsewhere.FINISHED if all(map(read_summary, folders)) else Elsewhere.NOTHING
    except ValueError:
        return Elsewhere.NOTHING


class Turns(Generic[Job]):
    """Jobs in their order, except that those which another launch is at come last.

    So two sweeps of the same runs share the work. Between a look and the start of a job somebody else may take it:
    then the job itself has to wait (`NORMEXP_WAIT`).

    Args:
        look: what other launches do about a job.

    Attributes:
        busy: jobs that were found trained elsewhere and are left.
    """

    def __init__(self, jobs: Iterable[Job], look: Callable[[Job], Elsewhere]):
        self._left, self._look = deque(jobs), look
        self._next_look = 0.0
        self.busy: list[Job] = []

    def __bool__(self) -> bool:
        return bool(self._left)

    def add(self, job: Job) -> None:
        """Behind all others."""
        self._left.append(job)
        self._next_look = 0.0

    def take(self) -> tuple[Job, Elsewhere] | None:
        """The next job that can be started (NOTHING) or that needs no start (FINISHED); None where others are at all
        that is left, or were a moment ago."""
        if time.monotonic() < self._next_look:
            return None
        busy = []
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
