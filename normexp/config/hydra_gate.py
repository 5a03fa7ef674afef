"""Limit what configuration files may ask of Hydra itself. Hydra acts on its own node before normexp sees anything: it
builds callbacks and the objects below the launcher, imports what logging names, sets environment variables of jobs.

A folder given by `--config-dir` may be untrusted. So these keys must keep the values of normexp or Hydra, unless
the command line sets them. Files are read and composed for this before Hydra acts on anything.
"""

import functools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import hydra
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
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
FOLDER, PATH, NAME = ("--config-dir", "-cd"), ("--config-path", "-cp"), ("--config-name", "-cn")
OTHERS_WITH_VALUE = ("--package", "-p", "--cfg", "-c", "--shell-completion", "-sc")


def check_command_line(arguments: Sequence[str]) -> None:
    """Refuse what files may not set, in the configuration that a command line asks of Hydra. Without a folder of the
    user's own there is nothing to refuse.

    Raises ValueError with one line; Hydra's errors are its own.
    """
    flags, overrides = _parsed(arguments)
    own = {key: next((flags[name] for name in names if name in flags), None) for key, names in
           (("folder", FOLDER), ("path", PATH), ("name", NAME))}  # fmt: skip
    search = [f"file://{Path(own['folder']).absolute().as_posix()}"] if own["folder"] else []
    searched = [override for override in overrides if override.lstrip("+").startswith("hydra.searchpath=")]
    if not (search or searched or own["path"] or own["name"]):
        return
    if "://" in str(own["path"]):
        raise ValueError(f"--config-path={own['path']}: is no folder; write the path of one")
    path = Path(own["path"] or CONFIGS).absolute()
    for folder in [path, *re.findall(r"file://([^,'\"\]]+)", " ".join([*search, *searched]))]:
        check_folder(Path(folder))
    named = named_keys(arguments)
    name = (own["name"] or "train").removesuffix(".yaml")
    if own["folder"] and not (path / f"{name}.yaml").is_file():  # Hydra then looks in the other folder
        if path != CONFIGS.absolute():
            raise ValueError(f"--config-name={name}: is not in {path}; name its folder with --config-path")
        path, search = Path(own["folder"]).absolute(), [f"file://{path.as_posix()}"]
    _check_search_path(path / f"{name}.yaml", named)
    more = [f"hydra.searchpath={search}"] if search and not searched else []
    fixed = [text for text in overrides if not _is_sweep(text)]
    with initialize_config_dir(str(path), version_base="1.3"):
        cfg = compose(name, [*fixed, *more], return_hydra_config=True)
    check_composed(cfg, (*named, *named_keys(more)))


def check_folder(folder: Path) -> None:
    """Raise ValueError with one line if a yaml file below a folder is not safe to load."""
    if folder.resolve().is_relative_to(CONFIGS.resolve()):
        return
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.endswith((".yaml", ".yml")):
                read_yaml(Path(place, name))


def check_composed(cfg: DictConfig, named: tuple[str, ...] = ()) -> DictConfig:
    """A composed configuration with Hydra's own node. Raises ValueError with one line if its references grow too large
    or a file set what it may not. `named` are the keys on the command line."""
    check_interpolations(cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=False)))
    judge(cfg.hydra, named)
    return cfg


def named_keys(arguments: Iterable[str]) -> tuple[str, ...]:
    """The keys of Hydra's own node that a command line sets."""
    keys = [argument.lstrip("+~").partition("=")[0].replace("/", ".") for argument in arguments]
    return tuple(key for key in keys if key.startswith("hydra."))


def _parsed(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The flags of Hydra with their values, and the overrides."""
    flags: dict[str, str] = {}
    overrides: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        flag, equals, value = argument.partition("=")
        if not argument.startswith("-"):
            overrides.append(argument)
        elif flag in (*FOLDER, *PATH, *NAME, *OTHERS_WITH_VALUE):
            flags[flag] = value if equals else next(waiting, "")
    return flags, overrides


def _is_sweep(override: str) -> bool:
    """Whether an override has several values. The launcher composes and checks each of them."""
    return bool(OverridesParser.create().parse_override(override).is_sweep_override())


def _check_search_path(primary: Path, named: tuple[str, ...]) -> None:
    """Hydra searches the path that the primary file names before everything is composed."""
    if primary.is_file():
        cfg = OmegaConf.load(primary)
        check_interpolations(cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=False)))
        found = OmegaConf.select(cfg, "hydra.searchpath", default=None)
        if found:
            judge(OmegaConf.create({"searchpath": found}), named)


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
