"""A place computes jobs: the interface, the one that options name, and the plainest one, this process."""

import signal
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from normexp.config.run_spec import RunSpec
from normexp.sweeps.job import Job, Outcome, work
from normexp.sweeps.options import Options, threads_of


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


class Inside(Place):
    """One job at a time in this process, for debuggers. Signals reach the job itself."""

    at_once = 1

    def submit(self, job: Job) -> "Future[Outcome]":
        future: Future[Outcome] = Future()
        future.set_result(outcome := work(job))
        if outcome.status == "interrupted":
            signal.raise_signal(signal.SIGINT)  # which the run has answered, and now the launch
        return future

    def __str__(self) -> str:
        return "one by one, in this process"


def choose_place(options: Options, specs: Sequence[RunSpec], folder: Path) -> Place:
    """The place that the options name, for these runs. Raises ValueError with one line if it cannot be used here.

    Args:
        folder: of the launch, for the files of the place.
    """
    threads = max(threads_of(spec, options) for spec in specs)
    if options.place == "ray":
        from normexp.sweeps.ray_cluster import RayCluster

        return RayCluster(options, threads)
    if options.place != "here":
        from normexp.sweeps.submitit_jobs import SubmititJobs

        return SubmititJobs(options, folder / options.place, threads)
    if options.workers == 0:
        return Inside()
    from normexp.sweeps.this_machine import ThisMachine, slots

    return ThisMachine(slots([spec.config["trainer"] for spec in specs], options, threads)[: len(specs)])
