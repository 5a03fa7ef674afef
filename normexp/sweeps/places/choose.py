"""The place that a launch asks for."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from normexp.cores import cores, memory
from normexp.sweeps.options import Options
from normexp.sweeps.places.place import Place
from normexp.sweeps.slots import slots


def choose_place(
    target: Callable[[Any], None],
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
        from normexp.sweeps.places.inside import Inside

        return Inside(target)
    from normexp.sweeps.places.this_machine import ThisMachine

    per_gpu = max(1, int(1 / options.gpus)) if options.gpus else options.runs_per_gpu
    found = slots(trainers, options.workers, per_gpu)[:cells]
    if need := options.memory_in():
        found = found[: max(1, int(memory() / need))]
    return ThisMachine(
        target, found, options.threads or max(1, cores() // max(1, len(found))), options.time_limit_in()
    )
