"""Compose configurations with Hydra. Beside the entry point of `train`, only this file knows Hydra.

Hydra takes a tenth of a second for one configuration. Most configurations of a study differ in plain values alone, and
Hydra sets those after it has merged the files. So each tuple of choices is composed once, and values are set on copies.
It imports neither torch nor Lightning.
"""

import copy
import pickle
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from normexp.config.folder import CONFIGS, allowed_packages, own_folder
from normexp.config.hydra_gate import check_composed, check_folder
from normexp.config.settings import ROOT

# Values at the root. `recipe` is none: the list of defaults in train.yaml reads it.
VALUES = frozenset(setting.key for setting in ROOT) - {"recipe"}


class Composer:
    """Composes what a list of overrides asks for, each tuple of choices once.

    Args:
        load: what Hydra composes for overrides, with its own node `hydra`.
        named: the keys of this node that the command line sets; files may not set all of them.
    """

    def __init__(
        self, load: Callable[[list[str]], DictConfig], named: tuple[str, ...] = ("hydra.searchpath",)
    ):
        self._load = lambda overrides: check_composed(load(overrides), named)
        self._parser = OverridesParser.create()
        self._merged: dict[tuple[str, ...], bytes] = {}
        self.fingerprints: dict[str, str] = {}  # of the data that a launch has read, see `data_content`

    def compose(self, overrides: Sequence[str]) -> DictConfig:
        """The configuration with Hydra's own node. Callers may change it."""
        parsed = self._parser.parse_overrides(list(overrides))
        values = [override for override in parsed if _is_value(override)]
        choices = tuple(str(own.input_line) for own in parsed if not _is_value(own))
        if choices not in self._merged:
            self._merged[choices] = pickle.dumps(self._load(list(choices)))
        cfg = pickle.loads(self._merged[choices])  # takes an eighth of the time of a deep copy
        try:
            for override in values:
                OmegaConf.update(cfg, override.key_or_group, override.value(), merge=True)
        except (OmegaConfBaseException, AttributeError):
            return self._load(list(overrides))  # for Hydra's message
        with read_write(cfg.hydra), open_dict(cfg.hydra):
            cfg.hydra.overrides.task = list(overrides)
        return cfg


def _is_value(override: Override) -> bool:
    """Whether an override changes one value, and so no choice. Of the keys at the root, some are choices."""
    changes = not (override.is_delete() or override.is_add() or override.is_force_add())
    key = override.key_or_group
    below_root = "." in key and "/" not in key and not key.startswith("hydra.")
    plain = (below_root or key in VALUES) and override.package is None
    return changes and plain and not override.is_sweep_override()


def composer() -> Composer:
    """A composer of this project's files, and of the user's own folder if one is in use, for one launch."""
    found = copy.copy(_composer(own_folder(), allowed_packages()))
    found.fingerprints = {}
    return found


@cache
def _composer(own: Path | None, allowed: tuple[str, ...]) -> Composer:
    search = [f"hydra.searchpath=['file://{own.as_posix()}']"] if own else []
    if own:
        check_folder(own)

    def load(overrides: list[str]) -> DictConfig:
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            return hydra_compose("train", overrides=[*overrides, *search], return_hydra_config=True)

    return Composer(load)


def compose(overrides: Iterable[str]) -> tuple[DictConfig, dict[str, str]]:
    """The configuration and the chosen names that `python train.py <overrides>` would get."""
    return task_and_choices(composer().compose(list(overrides)))


def task_and_choices(cfg: DictConfig) -> tuple[DictConfig, dict[str, str]]:
    """A configuration without Hydra's own node, and the names that were chosen."""
    choices = dict(cfg.hydra.runtime.choices)
    with read_write(cfg), open_dict(cfg):
        del cfg["hydra"]
    return cfg, choices


def hydra_files(cfg: DictConfig, overrides: Sequence[str]) -> dict[str, str]:
    """The files in `.hydra/` of a run's folder, which say how the run was composed.

    Args:
        cfg: with Hydra's own node, if there is one; it is changed.
        overrides: the arguments of this run alone.
    """
    if "hydra" not in cfg:
        return {"config.yaml": OmegaConf.to_yaml(cfg)}
    own = OmegaConf.create({"hydra": copy.deepcopy(cfg.hydra)})
    OmegaConf.set_readonly(own.hydra, False)
    with open_dict(own.hydra):
        own.hydra.overrides.task = list(overrides)
        own.hydra.job.override_dirname = ",".join(sorted(overrides))
    with read_write(cfg), open_dict(cfg):
        del cfg["hydra"]
    return {
        "config.yaml": OmegaConf.to_yaml(cfg),
        "hydra.yaml": OmegaConf.to_yaml(own),
        "overrides.yaml": OmegaConf.to_yaml(own.hydra.overrides.task),
    }
