"""One cell as a job: the function of `hydra.main`, called as Hydra would call it for this cell alone; or several cells,
trained side by side."""

import importlib
import sys
import traceback
from dataclasses import dataclass

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import setup_globals
from hydra.types import TaskFunction
from omegaconf import DictConfig, OmegaConf

from hydra_plugins.normexp._cells import without_hydra
from normexp.cli import one_line
from normexp.invocation import typed


@dataclass
class Call:
    cells: list[DictConfig]  # with their `hydra` nodes
    # The command line of each cell alone: what the summary records, and what Lightning starts again for each device.
    argv: list[list[str]]
    module: str  # of the job's function
    function: str  # its name there
    stacked: bool  # computed as replicas are, be it one or more


def run_in_process(call: Call) -> None:
    """Target of a process: ends with status 1, its traceback and one line in the log when the job fails."""
    sys.stdout.reconfigure(line_buffering=True)
    sys.argv = call.argv[0]
    setup_globals()
    try:
        if call.stacked:
            train_stacked(call.cells, call.argv)
        else:
            execute(call.cells[0], getattr(importlib.import_module(call.module), call.function))
    except Exception as error:
        traceback.print_exc()
        print(f"Error: {one_line(error)}", flush=True)
        sys.exit(1)


def train_stacked(cells: list[DictConfig], argv: list[list[str]]) -> None:
    """What `train.py` does, for several cells that differ in nothing but seed and learning rate."""
    from normexp.build import build, files_of
    from normexp.config.run_parts import Parts
    from normexp.training.replicas.launch_replicas import launch_replicas

    all_parts: list[Parts] = []
    for cell, own in zip(cells, argv, strict=True):
        task, choices = without_hydra(cell), OmegaConf.to_container(cell.hydra.runtime.choices)
        files, command = files_of(task, cell.hydra), typed(own)
        loaded = [other.data for other in all_parts]
        all_parts.append(build(task, choices, files=files, command=command, loaded=loaded))
    launch_replicas(all_parts)


def execute(cell: DictConfig, function: TaskFunction) -> None:
    previous = HydraConfig.instance().cfg
    HydraConfig.instance().set_config(cell)
    try:
        function(without_hydra(cell))
    finally:
        HydraConfig.instance().cfg = previous
