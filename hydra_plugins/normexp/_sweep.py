"""One launch of a sweep: check, show the plan, run what is missing, say what came of it."""

import os
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf

from hydra_plugins.normexp._cells import command_of, compose_cells, names, without_hydra
from hydra_plugins.normexp._job import Call, execute, run_in_process
from hydra_plugins.normexp._places import places
from normexp.cli import one_line
from normexp.cores import cores
from normexp.invocation import restore_command, typed
from normexp.sweeps.cell import STOPPED, Cell, write_ledger
from normexp.sweeps.pool import AT_ONCE, POLL_SECONDS, Adopted, Busy, Ended, Job, Pool
from normexp.sweeps.sweep_screen import Board, show_end, show_plan
from normexp.sweeps.turns import Elsewhere, Turns, elsewhere
from normexp.training.folder import WAIT


class Sweep:
    """Building one checks every cell and starts nothing; raises ValueError in one line."""

    def __init__(self, launcher: Any, folder: Path, job_overrides: list[list[str]]):
        self.folder = folder
        self.function = launcher.task_function
        restore_command()
        self.argv = list(sys.argv)
        context = launcher.hydra_context
        self.configs = compose_cells(context.config_loader, launcher.config, job_overrides)
        trainers = [OmegaConf.to_container(config.trainer, resolve=True) for config in self.configs]
        found = places(trainers, launcher.workers, launcher.runs_per_gpu)[: len(self.configs)]
        # A run that another launch began to train a moment before is waited for.
        self.slots = [{**place, WAIT: "1"} for place in found]
        self.threads = max(1, cores() // max(1, len(self.slots)))
        self.pool = Pool(self.threads) if self.slots else None
        self.cells = self._plan(job_overrides)
        self.to_run = [index for index, cell in enumerate(self.cells) if cell.state == "planned"]

    def _plan(self, job_overrides: list[list[str]]) -> list[Cell]:
        import torch

        from normexp.build import build, each_run
        from normexp.sweeps.plan import plan

        tasks = [without_hydra(config) for config in self.configs]
        choices = [OmegaConf.to_container(config.hydra.runtime.choices) for config in self.configs]
        torch.set_num_threads(self.threads)  # so that a timed step takes what it will take in a run
        return plan(
            names(job_overrides),
            job_overrides,
            resolve=lambda index: ([config for _, config in each_run(tasks[index])], choices[index]),
            build=lambda index: build(each_run(tasks[index])[0][0], choices[index]),
        )

    def run(self) -> list[JobReturn]:
        from normexp.training.interrupt import Interrupted  # loads torch: not before the pool runs
        from normexp.training.launch import make_console

        console = make_console()
        logs = self.folder / "logs"
        show_plan(self.cells, len(self.slots), self.threads, logs, console)
        for cell, config in zip(self.cells, self.configs, strict=True):
            cell.log = logs / f"{cell.run}.log"
            if config.threads is None and self.slots:
                config.threads = self.threads
        started = time.monotonic()
        self._write_ledger()
        with Board(self.cells, min(len(self.slots), len(self.to_run)), console) as board:
            for cell in self._in_processes() if self.pool else self._in_here():
                board.update(cell)
                self._write_ledger()
        study = Path(self.configs[0].outputs) / self.configs[0].name
        show_end(self.cells, time.monotonic() - started, study, console)
        if self.pool and (signum := self.pool.stopped_by):
            done = Interrupted(signum, 0, self.pool.previous).hand_on() if signum not in AT_ONCE else None
            if done:  # Slurm starts this job again
                console.print(done, highlight=False, markup=False, soft_wrap=True)
            sys.exit(128 + signum)
        if any(cell.state in ("failed", "interrupted") for cell in self.cells):
            sys.exit(1)
        return [self._job_return(index) for index in range(len(self.cells))]

    def _write_ledger(self) -> None:
        write_ledger(self.folder, typed(self.argv), self.cells)

    def _in_processes(self) -> Iterator[Cell]:
        """Yields a cell whenever its state changed."""
        jobs, started = [], {}
        for index in self.to_run:
            cell = self.cells[index]
            argv = command_of(self.argv, cell.overrides)
            call = Call(self.configs[index], argv, self.function.__module__, self.function.__name__)
            jobs.append(Job(index, call, cell.log))
        for event in self.pool.run(run_in_process, jobs, self.slots, lambda job: self._look(job.index)):
            cell = self.cells[event.job.index]
            if isinstance(event, Busy):
                cell.state = "elsewhere"
            elif isinstance(event, Adopted):
                cell.skip_if_finished()
            elif isinstance(event, Ended):
                seconds = time.monotonic() - started[event.job.index]
                cell.finish(event.exit_code, seconds, stopped=self.pool.stopped_by is not None)
            else:
                cell.state, started[event.job.index] = "running", time.monotonic()
            yield cell

    def _look(self, index: int) -> Elsewhere:
        cell = self.cells[index]
        return Elsewhere.NOTHING if cell.config["fast_dev_run"] else elsewhere(cell.folders)

    def _in_here(self) -> Iterator[Cell]:
        os.environ[WAIT] = "1"
        turns = Turns(self.to_run, self._look)
        while turns:
            if (turn := turns.take()) is None:
                time.sleep(POLL_SECONDS)
                continue
            cell, index = self.cells[turn[0]], turn[0]
            if turn[1] is Elsewhere.FINISHED:
                cell.skip_if_finished()
                yield cell
                continue
            cell.state = "running"
            yield cell
            started, code = time.monotonic(), 0
            sys.argv = command_of(self.argv, cell.overrides)
            try:
                execute(self.configs[index], self.function)
            except SystemExit as stop:  # interrupted: its checkpoint is kept
                code = stop.code
            except Exception as error:
                code = 1
                cell.log.parent.mkdir(parents=True, exist_ok=True)
                cell.log.write_text(f"{traceback.format_exc()}Error: {one_line(error)}\n")
            sys.argv = self.argv
            cell.finish(code, time.monotonic() - started, stopped=code in STOPPED)
            yield cell
            if cell.state == "interrupted":
                return

    def _job_return(self, index: int) -> JobReturn:
        """What Hydra's sweeper wants of each job; the run's results lie in its folder."""
        config = self.configs[index]
        return JobReturn(
            overrides=self.cells[index].overrides,
            cfg=without_hydra(config),
            hydra_cfg=OmegaConf.create({"hydra": config.hydra}),
            status=JobStatus.COMPLETED,
        )
