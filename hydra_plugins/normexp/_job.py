"""One cell as a job: the function of `hydra.main`, called as Hydra would call it for this cell alone."""

import importlib
import sys
import traceback
from dataclasses import dataclass

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import setup_globals
from hydra.types import TaskFunction
from omegaconf import DictConfig

from hydra_plugins.normexp._cells import without_hydra
from normexp.cli import one_line


@dataclass
class Call:
    cell: DictConfig  # with its `hydra` node
    # The cell's command line: what the summary records, and what Lightning starts again for each device.
    argv: list[str]
    module: str  # of the job's function
    function: str  # its name there


def run_in_process(call: Call) -> None:
    """Target of a process: ends with status 1, its traceback and one line in the log when the job fails."""
    sys.stdout.reconfigure(line_buffering=True)
    sys.argv = call.argv
    setup_globals()
    try:
        execute(call.cell, getattr(importlib.import_module(call.module), call.function))
    except Exception as error:
        traceback.print_exc()
        print(f"Error: {one_line(error)}", flush=True)
        sys.exit(1)


def execute(cell: DictConfig, function: TaskFunction) -> None:
    previous = HydraConfig.instance().cfg
    HydraConfig.instance().set_config(cell)
    try:
        function(without_hydra(cell))
    finally:
        HydraConfig.instance().cfg = previous
