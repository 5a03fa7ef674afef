"""One cell as a job: call the function of `hydra.main` as Hydra would call it for this cell alone."""

import importlib
import sys
from dataclasses import dataclass

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import setup_globals

from hydra_plugins.normexp._cells import Values, unpack, without_hydra


@dataclass
class Call:
    """What a cell's process needs."""

    parcel: tuple[bytes, Values]  # the cell, see `_cells.unpack`
    overrides: list[str]
    threads: int | None  # for cells that name none
    # The cell's command line. The summary records it, and Lightning runs it again for each device.
    argv: list[str]
    module: str  # of the job's function
    function: str  # its name there


def call(job: Call) -> None:
    """Target of a process."""
    sys.argv = job.argv
    setup_globals()
    cell = unpack(job.parcel, job.overrides)
    if cell.threads is None:
        cell.threads = job.threads
    previous = HydraConfig.instance().cfg
    HydraConfig.instance().set_config(cell)
    try:
        getattr(importlib.import_module(job.module), job.function)(without_hydra(cell))
    finally:
        HydraConfig.instance().cfg = previous
