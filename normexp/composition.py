"""From overrides to a composed configuration, and to its plain values. It imports neither torch nor Lightning, which
take seconds."""

import copy
from collections.abc import Iterable
from typing import Any, cast

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.conf import HydraConf
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from normexp.config.folder import CONFIGS
from normexp.config.interpolations import check_interpolations
from normexp.config.own_folder import own_folder


def compose(overrides: list[str]) -> tuple[DictConfig, dict[str, str]]:
    """The configuration and the chosen names that `python train.py <overrides>` would get."""
    cfg, hydra_config = compose_with_hydra(overrides)
    return cfg, dict(hydra_config.runtime.choices)


def compose_with_hydra(overrides: list[str]) -> tuple[DictConfig, DictConfig]:
    """The same configuration, and Hydra's own configuration, which `files_of` needs."""
    if own := own_folder():
        overrides = [*overrides, f"hydra.searchpath=['file://{own.as_posix()}']"]
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        cfg = hydra_compose("train", overrides=overrides, return_hydra_config=True)
    hydra_config = cfg.hydra
    with open_dict(cfg):
        del cfg["hydra"]
    return cfg, hydra_config


def plain_values(cfg: DictConfig) -> dict[str, Any]:
    """The values of a configuration, with interpolations resolved. They are not validated. Raises ValueError with one
    line for one that cannot be resolved."""
    check_interpolations(cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=False)))
    try:
        return cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True))
    except MissingMandatoryValue as error:
        raise ValueError(f"{error.full_key}: is missing; add {error.full_key}=VALUE") from None
    except OmegaConfBaseException as error:
        raise ValueError(str(error).split("\n")[0]) from None


def files_of(
    cfg: DictConfig, hydra_config: HydraConf | DictConfig, more: Iterable[str] = ()
) -> dict[str, str]:
    """The files in `.hydra/` of a run's folder, which say how the run was composed. `more` are later overrides."""
    own = OmegaConf.create({"hydra": copy.deepcopy(hydra_config)})
    OmegaConf.set_readonly(own.hydra, False)
    own.hydra.overrides.task.extend(more)
    own.hydra.job.override_dirname = ",".join(sorted(own.hydra.overrides.task))
    return {
        "config.yaml": OmegaConf.to_yaml(cfg),
        "hydra.yaml": OmegaConf.to_yaml(own),
        "overrides.yaml": OmegaConf.to_yaml(own.hydra.overrides.task),
    }
