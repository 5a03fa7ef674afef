"""What configuration files may ask, checked before anything is built. A folder given by `--config-dir`, or a saved run,
may be untrusted: its files must have a sane size, also with aliases and `${...}` written out, and set nothing that
Hydra itself acts on.

Hydra acts on its own node before normexp sees anything: it builds callbacks and the objects below the launcher, imports
what logging names, sets environment variables of jobs. So these keys must keep the values of normexp or Hydra, unless
the command line sets them. Files are read and composed for this before Hydra acts on anything.
"""

import functools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import hydra
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from normexp.config.folder import CONFIGS, long_flags

MOST_BYTES = 256 * 1024
MOST_VALUES = 20_000  # of a file, with every alias written out
DEEPEST = 50
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
        check_folder(Path(folder))
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


def read_yaml(path: Path) -> str:
    """The text of a yaml file that is safe to load. Raises ValueError with one line for any other file.

    Nested aliases multiply: ten lines can stand for a billion values, and a loader would build them all.
    """
    try:
        if not path.is_file():  # opening a pipe would wait forever
            raise ValueError(f"{path}: is no file" if path.exists() else f"{path}: not found")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    if len(content) > MOST_BYTES:
        raise ValueError(
            f"{path}: cannot be read (larger than {MOST_BYTES // 1024} KiB, no configuration is)"
        )
    try:
        text = content.decode()
        _count(yaml.compose(text, yaml.SafeLoader), {}, 0)
    except RecursionError:
        raise ValueError(f"{path}: cannot be read (nested more than {DEEPEST} deep)") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read ({' '.join(str(error).split())})") from None
    return text


def _count(node: Any, known: dict[int, tuple[int, int]], level: int) -> tuple[int, int]:
    """Number of values in a node, and how deep they are nested. `known` holds the result of each counted node, and
    zeros while a node is being counted."""
    if level > DEEPEST:
        raise ValueError(f"nested more than {DEEPEST} deep")
    if not isinstance(node, yaml.CollectionNode):
        return 1, 0
    if id(node) not in known:
        known[id(node)] = 0, 0
        pairs = isinstance(node, yaml.MappingNode)
        children = [item for pair in node.value for item in pair] if pairs else node.value
        counted = [_count(child, known, level + 1) for child in children]
        size, depth = 1 + sum(size for size, _ in counted), 1 + max((d for _, d in counted), default=0)
        known[id(node)] = size, depth
    if known[id(node)] == (0, 0):
        raise ValueError("an alias stands for the value that it is part of")
    if known[id(node)][0] > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES:,} values with its aliases written out")
    if known[id(node)][1] > DEEPEST:
        raise ValueError(f"nested more than {DEEPEST} deep with its aliases written out")
    return known[id(node)]


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
    config = cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=False))
    _Sizes(config).of((), config)


class _Sizes:
    def __init__(self, config: dict[str, Any]):
        self.config = config
        self.known: dict[tuple[str, ...], int] = {}  # 0 while it is counted

    def of(self, path: tuple[str, ...], value: Any) -> int:
        """Number of characters and values at a path after everything is resolved."""
        if self.known.get(path) == 0:
            raise ValueError(f"{'.'.join(path)}: refers to itself; write its value")
        if path not in self.known:
            self.known[path] = 0
            self.known[path] = size = 1 + self._inside(path, value)
            if size > MOST:
                raise ValueError(
                    f"{'.'.join(path) or 'configuration'}: its references expand to over {MOST:,} values"
                )
        return self.known[path]

    def _inside(self, path: tuple[str, ...], value: Any) -> int:
        if isinstance(value, dict):
            return sum(self.of((*path, str(key)), item) for key, item in value.items())
        if isinstance(value, list):
            return sum(self.of((*path, str(index)), item) for index, item in enumerate(value))
        return self._text(path, value) if isinstance(value, str) else 1

    def _text(self, path: tuple[str, ...], text: str) -> int:
        size, rest, inner = len(text), text, False
        while found := INNERMOST.search(rest):
            resolver, colon, _ = found[1].partition(":")
            if colon and resolver.strip() in REFUSED:
                raise ValueError(f"{'.'.join(path)}={text}: {resolver} is not read; write the value")
            if not colon and inner and "\0" in found[1]:
                raise ValueError(f"{'.'.join(path)}={text}: a reference inside a reference is not read")
            key = found[1].split(",")[0].partition(":")[2] if resolver == "oc.select" else found[1]
            size += self._reference(path, key) if not colon or resolver == "oc.select" else 0
            # \0 marks a resolved part.
            rest, inner = f"{rest[: found.start()]}\0{rest[found.end() :]}", True
        return size

    def _reference(self, path: tuple[str, ...], key: str) -> int:
        """Size of a reference: `a.b` starts at the root, `.b` at the node around it, `..b` one node higher."""
        up = len(key) - len(key.lstrip("."))
        parts = [part for part in re.split(r"[.\[\]]+", key.strip()) if part]
        return self._follow((*path[: max(0, len(path) - up)], *parts) if up else tuple(parts))

    def _follow(self, target: tuple[str, ...], turns: int = 0) -> int:
        value: Any = self.config
        for place, part in enumerate(target):
            if isinstance(value, dict):
                value = next((item for name, item in value.items() if str(name) == part), None)
            elif isinstance(value, list):
                value = value[int(part)] if part.isdecimal() and int(part) < len(value) else None
            elif isinstance(value, str) and "${" in value:  # a reference on the way: follow it
                whole = INNERMOST.fullmatch(value)
                if whole is None or ":" in whole[1] or whole[1].startswith(".") or turns > MOST_TURNS:
                    raise ValueError(f"{'.'.join(target)}: a reference through {value} is not read")
                parts = [name for name in re.split(r"[.\[\]]+", whole[1].strip()) if name]
                return self._follow((*parts, *target[place:]), turns + 1)
            else:
                return 1  # no such key; OmegaConf reports it
        return self.of(target, value)
