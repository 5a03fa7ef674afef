"""The project's launcher and sweeper, and the yaml files of the user and of installed packages that are allowed. Hydra
imports this file at every start, so slow imports stand in `launch`."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from normexp.config.compose import compose, plain_values
from normexp.config.errors import checked, one_line
from normexp.config.folder import more_folders
from normexp.config.process import fast_imports
from normexp.config.schema import Root
from normexp.sweeps.options import SweepOptions

NUMBER = re.compile(r"=[-+.\de]*\d$")


class NormexpLauncher(Launcher):
    """Hands the cells of `-m` to `normexp.sweeps.grid`. Its options are those of `SweepOptions`."""

    def __init__(self, slurm: DictConfig | None = None, **options: Any) -> None:
        more: Any = OmegaConf.to_container(slurm) if isinstance(slurm, DictConfig) else dict(slurm or {})
        self.options = checked(SweepOptions, {**options, "slurm": more})

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        setup_globals()
        from normexp.sweeps.places import processes

        if self.options.place == "here" and self.options.workers != 0:
            processes()  # whose server makes the imports of runs while this process composes
        compose_each_word(job_overrides)
        with fast_imports():
            from normexp.sweeps.grid import sweep

        folder = Path(self.config.hydra.sweep.dir)
        if status := sweep(list(map(list, job_overrides)), self.options, folder, list(sys.argv)):
            sys.exit(status)
        return [JobReturn(overrides=overrides, status=JobStatus.COMPLETED) for overrides in job_overrides]


def compose_each_word(cells: Sequence[Sequence[str]]) -> None:
    """Compose cells until each word has been in one, numbers once a key, so that a typo is answered before the imports,
    which take seconds. Raises ValueError with one line."""
    seen: set[str] = set()
    for cell in cells:
        kinds = {NUMBER.sub("=number", word) for word in cell}
        if not kinds <= seen:
            seen |= kinds
            try:
                checked(Root, plain_values(compose(cell)[0]))
            except Exception as error:  # Hydra's errors have many lines
                raise ValueError(one_line(error)) from None


class NormexpSweeper(BasicSweeper):
    """The product of all overrides. The launcher checks each cell, and writes nothing before it runs them."""

    def sweep(self, arguments: list[str]) -> None:
        if not isinstance(self.launcher, NormexpLauncher):
            super().sweep(arguments)
            return
        assert self.hydra_context is not None  # Hydra has set the sweeper up
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        (cells,) = self.split_arguments(parser.parse_overrides([*self._parse_config(), *arguments]), None)
        self.launcher.launch(cells, initial_job_idx=0)


class AllowedPackages(SearchPathPlugin):
    """The folders of the user and of packages come last, so they replace no file of normexp."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in more_folders():
            search_path.append("normexp", f"file://{folder.as_posix()}")
