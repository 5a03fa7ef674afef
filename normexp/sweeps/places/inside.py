"""Jobs one by one inside this process, for a debugger."""

import os
import sys
import traceback
from collections.abc import Sequence

from normexp.cli.errors import one_line
from normexp.sweeps.places.place import Ended, Event, Job, Place, Started
from normexp.training.folder import WAIT


class Inside(Place):
    """One job at a time, on all threads of this process. A signal stops the job itself, which exits with 128 plus the
    signal's number."""

    at_once, threads = 1, 0

    def __init__(self, target):
        super().__init__(target)
        self._next: list[Job] = []
        self._begun = False

    @property
    def room(self) -> int:
        return 1 - len(self._next)

    def submit(self, jobs: Sequence[Job]) -> list[Job]:
        self._next, self._begun = list(jobs[:1]), False
        return list(jobs[1:])

    def poll(self, seconds: float) -> list[Event]:
        if not self._next:
            return []
        if not self._begun:  # report the start before the job begins
            self._begun = True
            return [Started(self._next[0])]
        job, argv = self._next.pop(), list(sys.argv)
        try:
            return [Ended(job, self._run(job))]
        finally:
            sys.argv = argv

    def _run(self, job: Job) -> int:
        before = os.environ.get(WAIT)
        os.environ[WAIT] = "1"  # another launch may be training the same run
        try:
            self.target(job.payload)
        except SystemExit as stop:  # interrupted: its checkpoint is kept
            return int(stop.code or 0)
        except Exception as error:
            job.log.parent.mkdir(parents=True, exist_ok=True)
            job.log.write_text(f"{traceback.format_exc()}Error: {one_line(error)}\n")
            return 1
        finally:
            os.environ.pop(WAIT)
            if before is not None:
                os.environ[WAIT] = before
        return 0

    def stop(self, *, force: bool) -> None:
        self._next = []

    def __str__(self) -> str:
        return "one by one, in here"
