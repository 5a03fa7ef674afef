"""The configurations of all cells of a sweep. The underscore keeps Hydra from importing this file at each start."""

import copy
from collections.abc import Sequence

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException


def compose_cells(
    loader: ConfigLoader, master: DictConfig, job_overrides: Sequence[Sequence[str]]
) -> list[DictConfig]:
    """What Hydra would compose for each job, `hydra` node included.

    Hydra takes 70 to 150 ms to compose one configuration. Cells mostly differ in plain values (seeds, batch sizes),
    which Hydra sets after composing: so each combination of choices is composed once, values are set on copies.
    """
    parser = OverridesParser.create(config_loader=loader)
    groups = set(master.hydra.runtime.choices)
    composed: dict[tuple[str, ...], DictConfig] = {}
    cells = []
    for overrides in job_overrides:
        parsed = parser.parse_overrides(list(overrides))
        values = [override for override in parsed if _sets_a_value(override, groups)]
        choices = tuple(override.input_line for override in parsed if override not in values)
        if choices not in composed:
            composed[choices] = loader.load_sweep_config(master, list(choices))
        cell = copy.deepcopy(composed[choices])
        try:
            for override in values:
                OmegaConf.update(cell, override.key_or_group, override.value(), merge=True)
        except (OmegaConfBaseException, AttributeError):
            cell = loader.load_sweep_config(master, list(overrides))  # for Hydra's own message
        with read_write(cell.hydra), open_dict(cell.hydra):
            cell.hydra.overrides.task = list(overrides)
        cells.append(cell)
    return cells


def _sets_a_value(override: Override, groups: set[str]) -> bool:
    plain = not (override.is_add() or override.is_force_add() or override.is_delete() or override.package)
    return plain and override.key_or_group not in groups


def without_hydra(cell: DictConfig) -> DictConfig:
    """What the job's function gets."""
    task = copy.deepcopy(cell)
    with read_write(task), open_dict(task):
        del task["hydra"]
    return task


def names(job_overrides: Sequence[Sequence[str]]) -> list[str]:
    """Each cell by the overrides in which the cells differ; a sweep of one cell by all of them."""
    everywhere = set.intersection(*(set(overrides) for overrides in job_overrides))
    return [
        " ".join(o for o in overrides if o not in everywhere) or " ".join(overrides)
        for overrides in job_overrides
    ]


def command_of(argv: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """The command line of one cell alone, from that of the sweep: its flags stay, its overrides become the cell's."""
    flags = [a for a in argv[1:] if a not in ("-m", "--multirun") and (a.startswith("-") or "=" not in a)]
    # A preset's `hydra.mode: MULTIRUN` would make the one cell a sweep again.
    single = ["hydra.mode=RUN"] if any(o.startswith("experiment=") for o in overrides) else []
    return [argv[0], *flags, *overrides, *single]
