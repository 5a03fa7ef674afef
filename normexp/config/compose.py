"""Compose configurations with Hydra, and check what they may ask. Beside the entry point of `train`, only this file
knows Hydra. It imports neither torch nor Lightning.

Hydra takes a tenth of a second for one configuration. Most configurations of a study differ in plain values alone, and
Hydra sets those after it has merged the files. So each tuple of choices is composed once, and values are set on copies.

A folder given by `--config-dir`, or a saved run, may be untrusted: it must have a sane size, also with `${...}` written
out. Hydra acts on its own node before normexp sees anything: it builds callbacks and the objects below the launcher,
imports what logging names, sets environment variables of jobs. So these keys must keep the values of normexp or Hydra,
unless the command line sets them. Files are read and composed for this before Hydra acts on anything.
"""

import copy
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import hydra
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from normexp.config.command_line import check_choices
from normexp.config.folder import CONFIGS, allowed_packages, check_files, lies_in, long_flags, own_folder
from normexp.config.settings import ROOT, value_at

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
        check_choices(parsed)
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
        check_files(own)

    def load(overrides: list[str]) -> DictConfig:
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            return hydra_compose("train", overrides=[*overrides, *search], return_hydra_config=True)

    return Composer(load)


def compose(overrides: Iterable[str]) -> tuple[DictConfig, dict[str, str]]:
    """The configuration and the chosen names that `python train.py <overrides>` would get."""
    cfg = composer().compose(list(overrides))
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


def check_command_line(arguments: Sequence[str]) -> None:
    """Refuse what files may not set, in the configuration that a command line asks of Hydra. Without a folder of the
    user's own there is nothing to refuse.

    Raises ValueError with one line; Hydra's errors are its own.
    """
    arguments = long_flags(arguments)
    flags = dict(argument.split("=", 1) for argument in arguments if re.match("--.*=", argument))
    own, path, name = (flags.get(f"--config-{what}") for what in ("dir", "path", "name"))
    overrides = [argument for argument in arguments if not argument.startswith("-")]
    search = [f"file://{Path(own).absolute().as_posix()}"] if own else []
    searched = [override for override in overrides if override.lstrip("+").startswith("hydra.searchpath=")]
    if not (search or searched or path or name):
        return
    if "://" in str(path):
        raise ValueError(f"--config-path={path}: is no folder; write the path of one")
    place, name = Path(path or CONFIGS).absolute(), (name or "train").removesuffix(".yaml")
    for folder in [place, *re.findall(r"file://([^,'\"\]]+)", " ".join([*search, *searched]))]:
        check_files(Path(folder))
    named = named_keys(arguments)
    if own and not (place / f"{name}.yaml").is_file():  # Hydra then looks in the other folder
        if place != CONFIGS.absolute():
            raise ValueError(f"--config-name={name}: is not in {place}; name its folder with --config-path")
        place, search = Path(own).absolute(), [f"file://{place.as_posix()}"]
    if (primary := place / f"{name}.yaml").is_file():  # Hydra searches its path before everything is composed
        cfg = OmegaConf.load(primary)
        check_interpolations(cfg)
        if found := OmegaConf.select(cfg, "hydra.searchpath", default=None):
            judge(OmegaConf.create({"searchpath": found}), named)
    more = [f"hydra.searchpath={search}"] if search and not searched else []
    with initialize_config_dir(str(place), version_base="1.3"):
        parser = OverridesParser.create()  # the launcher composes and checks each cell of a sweep
        fixed = [text for text in overrides if not parser.parse_override(text).is_sweep_override()]
        cfg = hydra_compose(name, [*fixed, *more], return_hydra_config=True)
    check_composed(cfg, (*named, *named_keys(more)))


def check_composed(cfg: DictConfig, named: tuple[str, ...] = ()) -> DictConfig:
    """A composed configuration with Hydra's own node. Raises ValueError with one line if its references grow too large
    or a file set what it may not. `named` are the keys on the command line."""
    check_interpolations(cfg)
    judge(cfg.hydra, named)
    return cfg


def named_keys(arguments: Iterable[str]) -> tuple[str, ...]:
    """The keys of Hydra's own node that a command line sets."""
    keys = [argument.lstrip("+~").partition("=")[0].replace("/", ".") for argument in arguments]
    return tuple(key for key in keys if key.startswith("hydra."))


def judge(node: DictConfig, named: tuple[str, ...] = ()) -> None:
    """Raise ValueError with one line for the first key of Hydra's own node that a file may not set. `named` are the
    keys on the command line."""
    plain = OmegaConf.to_container(node, resolve=False)
    for key, values in {**AS_SHIPPED, **dict.fromkeys(LOGGING, _shipped_logging())}.items():
        value = value_at(plain, key, "???")
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
    return lies_in(key, named) or any(lies_in(name, [key]) for name in named)


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


@cache
def _shipped_logging() -> tuple[Any, ...]:
    folder = Path(hydra.__file__).parent / "conf" / "hydra"
    files = [path for key in LOGGING for path in sorted((folder / key).glob("*.yaml"))]
    return tuple(OmegaConf.to_container(OmegaConf.load(path), resolve=False) for path in files)


Keys = tuple[str, ...]
INNERMOST = re.compile(r"\$\{([^${}]*)\}")
MOST = 1_000_000  # characters and values of a configuration; one of normexp has some thousands
MOST_TURNS = 20
# These build nodes from text or from other nodes, and their size cannot be seen here.
REFUSED = ("oc.create", "oc.dict.keys", "oc.dict.values")


def plain_values(cfg: DictConfig) -> dict[str, Any]:
    """The values of a configuration, with interpolations resolved. They are not validated. Raises ValueError with one
    line for one that cannot be resolved."""
    check_interpolations(cfg)
    try:
        return cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True))
    except MissingMandatoryValue as error:
        raise ValueError(f"{error.full_key}: is missing; add {error.full_key}=VALUE") from None
    except OmegaConfBaseException as error:
        raise ValueError(str(error).split("\n")[0]) from None


def check_interpolations(cfg: Any) -> None:
    """Raise ValueError with one line if a configuration would grow too large once it is resolved, refers to itself, or
    has references that cannot be followed."""
    config = OmegaConf.to_container(cfg, resolve=False)
    size = 0  # characters and values, with all references written out
    waiting: list[tuple[Keys, Any, tuple[Keys, ...]]] = [((), config, ())]
    while waiting:
        path, value, around = waiting.pop()
        if path in around:
            raise ValueError(f"{'.'.join(path)}: refers to itself; write its value")
        around = (*around, path)
        size += 1 + len(value if isinstance(value, str) else "")
        if size > MOST:
            key = ".".join(around[min(1, len(around) - 1)]) or "configuration"
            raise ValueError(f"{key}: its references expand to over {MOST:,} values")
        if isinstance(value, str):
            waiting += [(*_follow(config, target), around) for target in _references(path, value)]
        elif isinstance(value, (dict, list)):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            waiting += [((*path, str(key)), item, around) for key, item in items]


def _references(path: Keys, text: str) -> Iterator[Keys]:
    """The place that each reference in a text at `path` names."""
    rest = text
    while found := INNERMOST.search(rest):
        resolver, colon, argument = found[1].partition(":")
        if colon and resolver.strip() in REFUSED:
            raise ValueError(f"{'.'.join(path)}={text}: {resolver} is not read; write the value")
        if not colon and "\0" in found[1]:
            raise ValueError(f"{'.'.join(path)}={text}: a reference inside a reference is not read")
        if not colon or resolver == "oc.select":
            yield _place(path, argument.split(",")[0] if colon else found[1])
        rest = f"{rest[: found.start()]}\0{rest[found.end() :]}"  # \0 marks a resolved part


def _place(path: Keys, key: str) -> Keys:
    """`a.b` starts at the root, `.b` at the node around `path`, `..b` one node higher."""
    up = len(key) - len(key.lstrip("."))
    parts = [part for part in re.split(r"[.\[\]]+", key.strip()) if part]
    return (*path[: max(0, len(path) - up)], *parts) if up else tuple(parts)


def _follow(config: Any, target: Keys, turns: int = 0) -> tuple[Keys, Any]:
    """A place, and what stands there; None if nothing does, which OmegaConf reports."""
    value = config
    for index, part in enumerate(target):
        if isinstance(value, str) and "${" in value:  # a reference on the way: follow it
            whole = INNERMOST.fullmatch(value)
            if whole is None or ":" in whole[1] or whole[1].startswith(".") or turns > MOST_TURNS:
                raise ValueError(f"{'.'.join(target)}: a reference through {value} is not read")
            return _follow(config, (*_place((), whole[1]), *target[index:]), turns + 1)
        if isinstance(value, list):
            value = dict(enumerate(value))
        value = {str(key): item for key, item in value.items()}.get(part) if isinstance(value, dict) else None
    return target, value
