"""The place that a launch asks for, and how many jobs it takes at a time."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from normexp.machine import cores, memory
from normexp.sweeps.places.place import Options, Place


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

        return RayCluster(target, options, threads=options.threads or threads or 1)
    if options.workers == 0:
        from normexp.sweeps.places.this_machine import Inside

        return Inside(target)
    from normexp.sweeps.places.this_machine import ThisMachine

    per_gpu = max(1, int(1 / options.gpus)) if options.gpus else options.runs_per_gpu
    environments = slots(trainers, options.workers, per_gpu)[:cells]
    if need := options.memory_in():
        environments = environments[: max(1, int(memory() / need))]
    each = options.threads or max(1, cores() // max(1, len(environments)))
    return ThisMachine(target, environments, each, options.time_limit_in())


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
        most = max((n for n in devices if isinstance(n, int)), default=1)
        return [{}] * (workers or max(1, cores() // max(1, most)))
    if any(n != 1 for n in devices):
        return [{}] * (workers or 1)
    count = workers or len(gpus) * runs_per_gpu
    return [{"CUDA_VISIBLE_DEVICES": gpus[place % len(gpus)]} for place in range(count)]


def visible_gpus() -> list[str]:
    """Names for CUDA_VISIBLE_DEVICES."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name.strip()]
    import torch  # takes seconds

    return [str(index) for index in range(torch.cuda.device_count())]
