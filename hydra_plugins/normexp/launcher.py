"""The project's launcher. Hydra imports this file at every start, so slow imports stand in `launch`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from normexp.sweeps.options import Options


class NormexpLauncher(Launcher):
    """Checks the whole grid before the first run starts, skips finished runs, keeps every failure.

    Args:
        options: see `normexp.sweeps.options.Options`.
    """

    def __init__(self, slurm: DictConfig | None = None, **options: Any) -> None:
        more = OmegaConf.to_container(slurm) if isinstance(slurm, DictConfig) else dict(slurm or {})
        self.options = Options(**options, slurm=more).check("hydra.launcher.")

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        setup_globals()
        folder = Path(self.config.hydra.sweep.dir)
        try:
            from hydra_plugins.normexp._sweep import Sweep

            sweep = Sweep(self, folder, [list(overrides) for overrides in job_overrides])
        except BaseException:  # no run was started, so leave nothing behind
            _remove(folder)
            raise
        done = sweep.run()
        if self.options.plan:
            _remove(folder)
        return done


def _remove(folder: Path) -> None:
    """Remove what Hydra's sweeper made for this sweep. The folder and its parents are removed only if they are empty,
    because hydra.sweep.dir may name any folder."""
    (folder / "multirun.yaml").unlink(missing_ok=True)
    for place in (folder, *list(folder.parents)[:3]):  # .sweeps, the study, outputs
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()
