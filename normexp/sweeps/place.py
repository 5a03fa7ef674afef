"""A place computes jobs: the interface, the one that options name, and the plainest one, this process."""

import signal
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from normexp.sweeps.job import Job, Outcome, work
from normexp.sweeps.options import Options


class Place:
    """Computes jobs. It is used from one thread and never gets more than `at_once` jobs. Its text says how runs are
    computed, for the plan: `2 at a time`.

    Attributes:
        at_once: jobs that it takes now. A cluster may start fewer.
    """

    at_once: int

    def submit(self, job: Job) -> "Future[Outcome]":
        """Start or queue a job. Its future fails if the job ends without an outcome; then it is tried again."""
        raise NotImplementedError

    def look(self) -> None:
        """See how the jobs get on. Called a few times per second."""

    def cancel(self) -> None:
        """Ask all jobs to save and end; those that were asked before end at once. Their futures end."""

    def close(self) -> None:
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


def choose_place(options: Options, jobs: Sequence[Job], folder: Path) -> Place:
    """The place that the options name, for these jobs. Raises ValueError with one line if it cannot be used here.

    Args:
        folder: of the launch, for the files of the place.
    """
    threads = max(job.threads for job in jobs)
    if options.place == "ray":
        from normexp.sweeps.clusters import RayCluster

        return RayCluster(options, threads)
    if options.place != "here":
        from normexp.sweeps.clusters import SubmititJobs

        return SubmititJobs(options, folder / options.place, threads)
    if options.workers == 0:
        return Inside()
    from normexp.sweeps.this_machine import ThisMachine, slots

    return ThisMachine(slots([job.spec.config["trainer"] for job in jobs], options, threads)[: len(jobs)])
