"""The place that the options name, and the plainest one: this process."""

import signal
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from normexp.config.run_spec import RunSpec
from normexp.machine import cores
from normexp.sweeps.job import Job, Outcome, work
from normexp.sweeps.options import Options, threads_of
from normexp.sweeps.place import Place


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

    trainers = [spec.config["trainer"] for spec in specs]
    return ThisMachine(slots(trainers, options, max(1, cores() // threads))[: len(specs)])
