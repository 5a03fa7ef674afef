"""Limit what configuration files may ask of Hydra itself. Hydra acts on its own node before normexp sees anything: it
builds callbacks and the objects below the launcher, imports what logging names, sets environment variables of jobs.

A folder given by `--config-dir` may be a stranger's. So these keys must keep the values of normexp or Hydra, unless
the command line sets them.
"""

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import hydra
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from normexp.config.folder import CONFIGS
from normexp.config.interpolations import check_interpolations
from normexp.config.yaml_files import read_yaml

PLUGINS = ("hydra_plugins.", "hydra._internal.core_plugins.")
# When the saved configuration of a run is composed again, Hydra's own defaults hold.
AS_SHIPPED: dict[str, tuple[Any, ...]] = {
    "callbacks": ({}, None),
    "searchpath": ([],),
    "output_subdir": (None, ".hydra"),
    "run.dir": (".", "outputs/${now:%Y-%m-%d}/${now:%H-%M-%S}"),
    "sweep.dir": (
        "${outputs}/${name}/.sweeps/${now:%Y-%m-%d_%H-%M-%S-%f}",
        "multirun/${now:%Y-%m-%d}/${now:%H-%M-%S}",
    ),
    "sweep.subdir": (".", "${hydra.job.num}"),
    "job.chdir": (None, False),
    "job.env_set": ({},),
    "job.env_copy": ([],),
    "launcher.setup": (None,),  # for clusters: shell commands, and the interpreter
    "launcher.python": (None,),
    "launcher.srun_args": (None,),
    "launcher.additional_parameters": ({}, None),
    "launcher.slurm": ({},),
    "launcher.address": (None,),  # of a cluster that would run whatever is asked
    "launcher.trust_network": (False,),
}
LOGGING = ("job_logging", "hydra_logging")
_load_configuration, _load_config = ConfigLoaderImpl.load_configuration, ConfigRepository.load_config


def guard(arguments: Iterable[str]) -> None:
    """From now on, refuse to compose keys that a file may not set. `arguments` are the command line, which may set any
    key."""
    keys = [argument.lstrip("+~").partition("=")[0].replace("/", ".") for argument in arguments]
    named = tuple(key for key in keys if key.startswith("hydra."))

    def load_configuration(self: ConfigLoaderImpl, *args: Any, **options: Any) -> DictConfig:
        cfg = _load_configuration(self, *args, **options)
        check_interpolations(cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=False)))
        judge(cfg.hydra, named)
        return cfg

    def load_config(self: ConfigRepository, config_path: str) -> ConfigResult | None:
        for source in self.get_sources():
            if source.scheme() == "file" and source.is_config(config_path):
                _check_file(Path(source.path, source._normalize_file_name(config_path)))
        result = _load_config(self, config_path)
        found = OmegaConf.to_container(result.config, resolve=False) if result else None
        own = found.get("hydra") if isinstance(found, dict) else None
        # Hydra would search this path before everything is composed.
        if isinstance(own, dict) and own.get("searchpath"):
            judge(OmegaConf.create({"searchpath": own["searchpath"]}), named)
        return result

    setattr(ConfigLoaderImpl, "load_configuration", load_configuration)  # noqa: B010, a method of another library
    setattr(ConfigRepository, "load_config", load_config)  # noqa: B010


def _check_file(file: Path) -> None:
    if not file.resolve().is_relative_to(CONFIGS.resolve()):
        read_yaml(file)


def judge(node: DictConfig, named: tuple[str, ...] = ()) -> None:
    """Raise ValueError with one line for the first key of Hydra's own node that a file may not set. `named` are the
    keys on the command line."""
    plain = OmegaConf.to_container(node, resolve=False)
    for key, values in {**AS_SHIPPED, **dict.fromkeys(LOGGING, _shipped_logging())}.items():
        value: Any = plain
        for part in key.split("."):
            value = value.get(part, "???") if isinstance(value, dict) else "???"
        if value != "???" and value not in values and not _is_named(f"hydra.{key}", named):
            raise _refusal(f"hydra.{key}", value)
    for key in ("launcher", "sweeper"):
        for path, value in _leaves(key, _select(node, key)):
            plugin = path == f"{key}._target_" and str(value).startswith(PLUGINS)
            if path.endswith("._target_") and not plugin and not _is_named(f"hydra.{path}", named):
                raise _refusal(f"hydra.{path}", value)


def _refusal(key: str, value: Any) -> ValueError:
    text = " ".join(str(value).split())
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return ValueError(f"{key}={shown}: no file can set it; if you trust it, give it on the command line")


def _is_named(key: str, named: tuple[str, ...]) -> bool:
    return any(f"{key}.".startswith(f"{name}.") or name.startswith(f"{key}.") for name in named)


def _select(node: Any, key: Any) -> Any:
    try:
        return node[key]
    except (OmegaConfBaseException, KeyError):  # absent, or impossible to resolve and so to build
        return None


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every plain value with its path. `${...}` is followed to other nodes."""
    if not OmegaConf.is_config(value):
        yield path, value
    elif OmegaConf.is_dict(value):
        for key in value:
            yield from _leaves(f"{path}.{key}", _select(value, key))
    else:
        for index in range(len(value)):
            yield from _leaves(f"{path}.{index}", _select(value, index))


@functools.cache
def _shipped_logging() -> tuple[Any, ...]:
    folder = Path(hydra.__file__).parent / "conf" / "hydra"
    files = [path for key in LOGGING for path in sorted((folder / key).glob("*.yaml"))]
    return tuple(OmegaConf.to_container(OmegaConf.load(path), resolve=False) for path in files)
