"""The project's launcher. Hydra imports this file at every start, so whatever takes time is imported in `launch`."""

from collections.abc import Sequence
from pathlib import Path

from hydra.core.utils import JobReturn, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class NormexpLauncher(Launcher):
    """Checks the whole grid before the first run starts, skips finished runs, keeps every failure.

    Args:
        workers: runs at a time, each in a process of its own; null takes as many as there are cores, or GPUs; 0 runs
            them one by one inside this process (for a debugger).
        runs_per_gpu: small runs leave most of a GPU idle, so several may share one.
    """

    def __init__(self, workers: int | None = None, runs_per_gpu: int = 1) -> None:
        for name, value, least in (("workers", workers, 0), ("runs_per_gpu", runs_per_gpu, 1)):
            if value is not None and (type(value) is not int or value < least):
                raise ValueError(f"hydra.launcher.{name}={value}: must be a whole number, at least {least}")
        self.workers = workers
        self.runs_per_gpu = runs_per_gpu

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        setup_globals()
        folder = Path(self.config.hydra.sweep.dir)
        try:
            from hydra_plugins.normexp._sweep import Sweep

            sweep = Sweep(self, folder, [list(overrides) for overrides in job_overrides])
        except BaseException:  # nothing was started, so nothing is left behind
            _remove(folder)
            raise
        return sweep.run()


def _remove(folder: Path) -> None:
    """Remove what Hydra's sweeper made for this sweep. The folder and its parents go only where they are empty:
    hydra.sweep.dir may name one that holds anything."""
    (folder / "multirun.yaml").unlink(missing_ok=True)
    for place in (folder, *list(folder.parents)[:3]):  # .sweeps, the study, outputs
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()
