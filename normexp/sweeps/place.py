"""A place computes jobs: the interface."""

from abc import ABC, abstractmethod
from concurrent.futures import Future

from normexp.sweeps.job import Job, Outcome


class Lost(Exception):
    """A job ended without an outcome, by no fault of its own as far as one can see. It is tried again."""


class Place(ABC):
    """Computes jobs. It is used from one thread and never gets more than `at_once` jobs. Its text says how runs are
    computed, for the plan: `2 at a time`.

    Attributes:
        at_once: jobs that it takes now. A cluster may start fewer.
    """

    at_once: int

    @abstractmethod
    def submit(self, job: Job) -> "Future[Outcome]":
        """Start or queue a job. Its future fails if the job ends without an outcome."""

    def look(self) -> None:  # noqa: B027  (most places need none)
        """See how the jobs get on. Called a few times per second."""

    def cancel(self, *, force: bool) -> None:  # noqa: B027
        """Ask all jobs to save and end, or kill them. Their futures end."""

    def close(self) -> None:  # noqa: B027
        """Give everything back. Jobs are left only after an error; they are asked to stop."""
