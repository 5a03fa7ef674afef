"""The interface between the engine and a place where runs are computed, and the place that a launch asks for."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from normexp.machine import cores, memory
from normexp.sweeps.options import Options


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


def choose_place(
    target: Callable[[Any], Any],
    options: Options,
    trainers: Sequence[Mapping[str, Any]],
    cells: int,
    folder: Path,
    *,
    threads: int | None = None,
) -> Place:
    """The place that the options name. Raises ValueError with one line if it cannot be used here.

    Args:
        target: see `Place`.
        trainers: the trainer of each kind of run, as plain values.
        cells: most cells that will run.
        folder: of this launch, for the files of the place.
        threads: of a run, if its configuration says so.
    """
    if options.place == "slurm":
        from normexp.sweeps.places.slurm import Slurm

        return Slurm(target, options, folder, threads=options.threads or threads or 1)
    if options.place == "ray":
        from normexp.sweeps.places.ray_cluster import RayCluster

        return RayCluster(target, options, folder, threads=options.threads or threads or 1)
    if options.workers == 0:
        from normexp.sweeps.places.this_machine import Inside

        return Inside(target)
    from normexp.sweeps.places.this_machine import ThisMachine

    per_gpu = max(1, int(1 / options.gpus)) if options.gpus else options.runs_per_gpu
    found = slots(trainers, options.workers, per_gpu)[:cells]
    if need := options.memory_in():
        found = found[: max(1, int(memory() / need))]
    return ThisMachine(
        target, found, options.threads or max(1, cores() // max(1, len(found))), options.time_limit_in()
    )


def warm_up(options: Options) -> None:
    """Begin to import what jobs on this machine need, in the server that starts them."""
    if options.place == "here" and options.workers != 0:
        from normexp.sweeps.places.this_machine import THREADS, processes

        # read when libraries are loaded; each job sets its own number
        os.environ.update(dict.fromkeys(THREADS, "1"))
        processes()


def slots(
    trainers: Sequence[Mapping[str, Any]], workers: int | None, runs_per_gpu: int
) -> list[dict[str, str]]:
    """Environment of each place for a job; none for `workers=0`.

    On the CPU there are as many places as cores; runs on several devices take several cores each. With GPUs each place
    sees one GPU, and `runs_per_gpu` places share it. If some run asks for several GPUs, every run sees all, and runs go
    one at a time.
    """
    if workers == 0:
        return []
    on_cpu = all(trainer.get("accelerator") == "cpu" for trainer in trainers)
    gpus = [] if on_cpu else visible_gpus()
    devices = [trainer.get("devices", 1) for trainer in trainers]
    if not gpus:
        most = (
            max(n for n in devices if isinstance(n, int)) if any(isinstance(n, int) for n in devices) else 1
        )
        return [{}] * (workers or max(1, cores() // max(1, most)))
    if any(n != 1 for n in devices):
        return [{}] * (workers or 1)
    count = workers or len(gpus) * runs_per_gpu
    return [{"CUDA_VISIBLE_DEVICES": gpus[place % len(gpus)]} for place in range(count)]


def visible_gpus() -> list[str]:
    """Names for CUDA_VISIBLE_DEVICES."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name.strip()]
    import torch  # takes seconds

    return [str(index) for index in range(torch.cuda.device_count())]
