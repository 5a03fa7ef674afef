"""The project's launcher and sweeper, and the yaml files of installed packages that the command line allows. Hydra
imports this file at every start, so slow imports stand in `launch`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.utils import JobReturn, JobStatus, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from normexp.config.folder import more_folders, own_folder
from normexp.sweeps.options import as_options


class NormexpLauncher(Launcher):
    """Hands the cells of `-m` to `normexp.sweeps.grid`. Its options are those of `Options`."""

    def __init__(self, slurm: DictConfig | None = None, **options: Any) -> None:
        more: Any = OmegaConf.to_container(slurm) if isinstance(slurm, DictConfig) else dict(slurm or {})
        self.options = as_options({**options, "slurm": more}, "hydra.launcher.")

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        setup_globals()
        from normexp.sweeps.this_machine import processes

        if self.options.place == "here" and self.options.workers != 0:
            processes()  # whose server makes the imports of runs while this process composes
        from normexp.sweeps.grid import sweep

        folder = Path(self.config.hydra.sweep.dir)
        try:
            status = sweep(list(map(list, job_overrides)), self.options, folder, list(sys.argv))
        finally:
            _remove_if_unused(folder)
        if status:
            sys.exit(status)
        return [JobReturn(overrides=own, status=JobStatus.COMPLETED) for own in job_overrides]


class NormexpSweeper(BasicSweeper):
    """The product of all overrides, without Hydra's check of each cell: the launcher makes a better one."""

    def validate_batch_is_legal(self, batch) -> None:
        if not isinstance(self.launcher, NormexpLauncher):
            super().validate_batch_is_legal(batch)

    def sweep(self, arguments: list[str]) -> None:
        assert self.config is not None  # Hydra has set the sweeper up
        # Hydra would make the folder itself, but its error names neither the key nor a remedy.
        try:
            Path(self.config.hydra.sweep.dir).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(
                f"outputs={self.config.outputs}: cannot be written ({error.strerror}); choose another folder"
            ) from None
        super().sweep(arguments)


def _remove_if_unused(folder: Path) -> None:
    """Remove what Hydra's sweeper made for this sweep, if no run was started. Folders are removed only if they are
    empty, because hydra.sweep.dir may name any folder."""
    if not (folder / "sweep.json").exists():
        (folder / "multirun.yaml").unlink(missing_ok=True)
    for place in (folder, *list(folder.parents)[:3]):  # .sweeps, the study, outputs
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()


class AllowedPackages(SearchPathPlugin):
    """Their folders come last, so they replace no file of normexp or of the user."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in more_folders():
            if folder != own_folder():  # Hydra has that one from --config-dir
                search_path.append("normexp", f"file://{folder.as_posix()}")
