"""One launch of a sweep: check, show the plan, run what is missing, print the results."""

import sys
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf

from hydra_plugins.normexp._cells import Cells, command_of, names
from hydra_plugins.normexp._job import Call, call
from normexp.invocation import restore_command, typed
from normexp.sweeps.cell import Cell
from normexp.sweeps.launch import Launch
from normexp.sweeps.options import Options
from normexp.sweeps.places.choose import choose_place


class Sweep:
    """To build a sweep checks every cell and starts nothing. Raises ValueError with one line."""

    def __init__(self, launcher: Any, folder: Path, job_overrides: list[list[str]]):
        self.options: Options = launcher.options
        self.function = launcher.task_function
        restore_command()
        self.argv = list(sys.argv)
        context = launcher.hydra_context
        self.sources = Cells(context.config_loader, launcher.config, job_overrides)
        first = self.sources.config(0)
        self.study = Path(first.outputs) / first.name
        firsts = self.sources.each_place()
        trainers = [OmegaConf.to_container(config.trainer, resolve=True) for config in firsts]
        asked = [config.threads for config in firsts if config.threads]
        self.place = choose_place(
            call, self.options, trainers, len(job_overrides), folder, threads=max(asked, default=None)
        )
        self.cells = self._plan(job_overrides)
        self._index = {id(cell): index for index, cell in enumerate(self.cells)}
        self.launch = Launch(self.place, self._payload, folder, typed(self.argv))

    def _plan(self, job_overrides: list[list[str]]) -> list[Cell]:
        from normexp.build import build, each_run
        from normexp.sweeps.plan import plan

        return plan(
            names(job_overrides),
            job_overrides,
            resolve=lambda index: (self.sources.runs(index), self.sources.choices(index)),
            build=lambda index: build(each_run(self.sources.task(index))[0][0], self.sources.choices(index)),
            threads=self.place.threads,
        )

    def run(self) -> list[JobReturn]:
        """Exits with a status other than 0 where a run is left."""
        self.launch.add(self.cells)
        self.launch.show_plan()
        if self.options.plan:
            return []
        for _ in self.launch.run():
            pass
        if status := self.launch.end(self.study):
            sys.exit(status)
        done = JobStatus.COMPLETED  # the run's results lie in its folder
        return [JobReturn(overrides=cell.overrides, status=done) for cell in self.cells]

    def _payload(self, cell: Cell) -> Call:
        index = self._index[id(cell)]
        argv = command_of(self.argv, cell.overrides)
        threads = self.place.threads or None
        where = self.function.__module__, self.function.__name__
        return Call(self.sources.parcel(index), cell.overrides, threads, argv, *where)
