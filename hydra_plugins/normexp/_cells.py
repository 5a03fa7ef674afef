"""The configurations of all cells of a sweep. The underscore keeps Hydra from importing this file at each start."""

import copy
import pickle
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from hydra_plugins.normexp._followers import Followers
from normexp.config.settings import GROUPS, ROOT

FREE = ("seed", "lr")
Values = tuple[tuple[str, Any], ...]  # key -> what a cell sets it to


class Family:
    """Cells of the same choices that set the same keys, composed once."""

    def __init__(self, base: DictConfig):
        self.base = base
        self.looked, self.followers = False, None
        self._checked: set[tuple[str, type, Any]] = set()
        self.choices: dict[str, str] = OmegaConf.to_container(base.hydra.runtime.choices)

    def config(self, values: Values, overrides: Sequence[str]) -> DictConfig:
        """What Hydra would compose for a cell, `hydra` node included."""
        cell = copy.deepcopy(self.base)
        set_values(cell, values, overrides)
        return cell

    def check(self, config: dict[str, Any], values: Values) -> None:
        """What `normexp.build.resolved` checks, which takes milliseconds: once for each value of each key, since none
        is judged by another's, and of seeds and rates their bounds alone."""
        from normexp.config.checks import check_setting, validate
        from normexp.training.rehearsal import check_options

        for setting in ROOT:
            if setting.key in FREE:
                check_setting(setting, config[setting.key])
        told = {(key, type(value), value) for key, value in values if key not in FREE}
        if not self._checked or told - self._checked:
            validate(config)
            check_options(config["trainer"])
            self._checked |= told | {("", str, "")}

    @cached_property
    def pickled(self) -> bytes:
        """The base for other processes, which set a cell's values."""
        return pickle.dumps(self.base)


class Cells:
    """What Hydra would compose for each job.

    Hydra takes 70 to 150 ms to compose one configuration. Cells mostly differ in plain values (seeds, batch sizes),
    which Hydra sets after composing: so each combination of choices is composed once, values are set on copies, and
    of cells that differ in plain values alone one is resolved.
    """

    def __init__(self, loader: ConfigLoader, master: DictConfig, job_overrides: Sequence[Sequence[str]]):
        self.overrides = job_overrides
        parser = OverridesParser.create(config_loader=loader)
        # Hydra lists no choice for a group of which several are chosen, as in monitor=[light,hessian].
        groups = {*master.hydra.runtime.choices, *GROUPS}
        parsed = {text: parser.parse_override(text) for text in {t for own in job_overrides for t in own}}
        plain = {text: _sets_a_value(override, groups) for text, override in parsed.items()}
        composed: dict[tuple[str, ...], DictConfig] = {}
        self._families: dict[tuple[tuple[str, ...], tuple[str, ...]], Family] = {}
        self._of: list[tuple[Family, Values]] = []
        for overrides in job_overrides:
            choices = tuple(parsed[text].input_line for text in overrides if not plain[text])
            values = tuple((parsed[t].key_or_group, parsed[t].value()) for t in overrides if plain[t])
            if choices not in composed:
                composed[choices] = loader.load_sweep_config(master, list(choices))
            key = (choices, tuple(name for name, _ in values))
            if key not in self._families:
                self._families[key] = Family(composed[choices])
                try:
                    self._families[key].config(values, overrides)
                except (OmegaConfBaseException, AttributeError):
                    loader.load_sweep_config(master, list(overrides))  # for Hydra's own message
                    raise
            self._of.append((self._families[key], values))

    def __len__(self) -> int:
        return len(self._of)

    def each_place(self) -> list[DictConfig]:
        """One configuration of each kind of cell that may ask for other devices or threads."""
        found: dict[Any, int] = {}
        for index, (family, values) in enumerate(self._of):
            asked = [item for item in values if item[0].startswith(("trainer", "threads"))]
            found.setdefault((id(family), str(asked)), index)
        return [self.config(index) for index in found.values()]

    def choices(self, index: int) -> dict[str, str]:
        return self._of[index][0].choices

    def config(self, index: int) -> DictConfig:
        family, values = self._of[index]
        return family.config(values, self.overrides[index])

    def task(self, index: int) -> DictConfig:
        """The configuration that the job's function gets."""
        return without_hydra(self.config(index))

    def parcel(self, index: int) -> tuple[bytes, Values]:
        """The same for another process: `unpack` there."""
        family, values = self._of[index]
        return family.pickled, values

    def runs(self, index: int) -> list[dict[str, Any]]:
        """The configuration of each run of a cell, as plain values, checked."""
        # These load torch: not before the place has begun to.
        from normexp.build import each_run
        from normexp.config.seeds_and_rates import ALONE

        family, values = self._of[index]
        if family.followers and (config := family.followers.resolve(values)):
            family.check(config, values)
            return [config]
        task = self.task(index)
        found = [config for _, config in each_run(task)]
        alone = task.replicas == ALONE and not any(key.startswith("replicas") for key, _ in values)
        if alone and not family.looked:
            family.looked, family.followers = True, Followers.find(task, found[0], values)
        return found


def set_values(cell: DictConfig, values: Values, overrides: Sequence[str]) -> None:
    for key, value in values:
        OmegaConf.update(cell, key, value, merge=True)
    with read_write(cell.hydra), open_dict(cell.hydra):
        cell.hydra.overrides.task = list(overrides)


def unpack(parcel: tuple[bytes, Values], overrides: Sequence[str]) -> DictConfig:
    cell = pickle.loads(parcel[0])
    set_values(cell, parcel[1], overrides)
    return cell


def _sets_a_value(override: Override, groups: set[str]) -> bool:
    plain = not (override.is_add() or override.is_force_add() or override.is_delete() or override.package)
    return plain and override.key_or_group not in groups


def without_hydra(cell: DictConfig) -> DictConfig:
    """The configuration that the job's function gets."""
    task = copy.deepcopy(cell)
    with read_write(task), open_dict(task):
        del task["hydra"]
    return task


def names(job_overrides: Sequence[Sequence[str]]) -> list[str]:
    """The name of each cell: the overrides in which cells differ, or all overrides if there is one cell."""
    everywhere = set.intersection(*(set(overrides) for overrides in job_overrides))
    return [
        " ".join(o for o in overrides if o not in everywhere) or " ".join(overrides)
        for overrides in job_overrides
    ]


def command_of(argv: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """The command line of one cell: the sweep's flags with the overrides of the cell."""
    flags = [a for a in argv[1:] if a not in ("-m", "--multirun") and (a.startswith("-") or "=" not in a)]
    # A preset's `hydra.mode: MULTIRUN` would make the one cell a sweep again.
    single = ["hydra.mode=RUN"] if any(o.startswith("experiment=") for o in overrides) else []
    return [argv[0], *flags, *overrides, *single]
