"""Compose configurations: Hydra composes, OmegaConf resolves. Beside the entry point of `train` and the launcher, only
this file knows Hydra. Imports neither torch nor Lightning.

Hydra takes a tenth of a second for one configuration. Most configurations of a study differ in plain values alone, so
each tuple of choices is composed once, and values are set on copies.
"""

import functools
import hashlib
import pickle
import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

from hydra import compose as hydra_compose
from hydra import initialize_config_dir, version
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import OverrideParseException
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from normexp.config.errors import one_line
from normexp.config.folder import CONFIGS, allowed_packages, check_own_name, config_file, own_folder
from normexp.config.identity import ROOT_DEFAULTS
from normexp.config.options import GROUPS as CHOSEN
from normexp.config.options import expanded, no_such_choice, quoted
from normexp.config.schema import GROUPS, Root

OPTIONAL = ("preset", "experiment", "debug")
ONE = ("model", "norm", "data", "optimizer", "schedule")  # groups of which a run has one choice
REQUIRED = (*ONE, "trainer", "monitor", "recipe")
NO_NAME = ("outputs", "threads", "allow_targets", "trainer.enable_progress_bar")  # where and how, not what
# Values at the root. `recipe` is none: the list of defaults in train.yaml reads it.
VALUES = frozenset(Root.model_fields) - {*GROUPS, "recipe"}


def compose(overrides: Iterable[str]) -> tuple[DictConfig, dict[str, str]]:
    """The configuration and the chosen names that `python train.py <overrides>` would get. Raises Hydra's errors."""
    overrides = expanded(overrides)
    parsed = list(map(_parsed, overrides))
    check_choices(parsed)
    values = [override for override in parsed if _is_value(override)]
    others = tuple(word for word, override in zip(overrides, parsed, strict=True) if not _is_value(override))
    pickled, chosen = _merged(others, own_folder(), allowed_packages())
    cfg = pickle.loads(pickled)  # takes an eighth of the time of a deep copy
    try:
        for override in values:
            OmegaConf.update(cfg, override.key_or_group, override.value(), merge=True)
    except (OmegaConfBaseException, AttributeError):
        return _by_hydra(overrides)  # for Hydra's message
    return cfg, dict(chosen)


def chosen_node(group: str, name: str) -> dict[str, Any]:
    """The node of a choice, `norm=layernorm`, as a run would get it. Raises ValueError with one line."""
    try:
        return plain_values(compose([f"{group}={quoted(name)}"])[0])[group]
    except Exception as error:  # Hydra's have many lines
        raise ValueError(one_line(error)) from None


def check_choices(overrides: Iterable[Override]) -> None:
    """Raise ValueError with one line for a choice that is no name or list of names, for example `data=[0]`, where Hydra
    would end in a TypeError of its own; and for two of which a run has one."""
    for override in overrides:
        key = str(override.key_or_group)
        if override.is_delete() and (key in REQUIRED or (key in VALUES and key not in ROOT_DEFAULTS)):
            what = "VALUE" if key in VALUES else "NAME"
            raise ValueError(f"{override.input_line}: a run needs one; write {key}={what} instead")
        if key not in CHOSEN or override.is_delete() or override.is_sweep_override():
            continue
        value: Any = override.value()
        names = value if isinstance(value, list) else [value]
        # Hydra would pass over a name of these that it does not find.
        if key in OPTIONAL and isinstance(value, str) and config_file(key, value) is None:
            raise ValueError(f"{key}={value}: {no_such_choice(key, value)}")
        if not names:
            none = "none" if config_file(key, "none") else "NAME"
            raise ValueError(f"{override.input_line}: chooses nothing; write {key}={none}")
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"{override.input_line}: choices are names; write {key}=NAME")
        if key in ONE and len(names) > 1:  # Hydra would merge them, and call it the last one
            raise ValueError(
                f"{override.input_line}: a run has one {key}; a sweep has several: -m {key}={','.join(names)}"
            )


def study_of(overrides: Sequence[str]) -> str | None:
    """The study of a sweep that names none, so that each kind of sweep has a folder of its own: what is fixed, what
    varies, and the hash of what is fixed. More seeds or norms go to the same study. None where a study is named, by
    `name=` or a preset, and where nothing varies."""
    if any(word.lstrip("+").startswith(("name=", "experiment=")) for word in overrides):
        return None
    try:
        parsed = [_parsed(word) for word in expanded(overrides) if "hydra." not in word]
    except OverrideParseException:  # Hydra will say what is wrong with it
        return None
    swept = [str(item.key_or_group).rpartition(".")[2] for item in parsed if item.is_sweep_override()]
    fixed = [item for item in parsed if not item.is_sweep_override() and item.key_or_group not in NO_NAME]
    if not swept:
        return None
    chosen = [str(item.value()) for item in fixed if item.key_or_group in ("model", "data")]
    axes = [key for key in swept if key != "seed"] or swept
    lines = sorted(str(item.input_line) for item in fixed)
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return re.sub(r"\W+", "_", "_".join([*chosen, *axes])) + (f"-{digest[:4]}" if fixed else "")


@functools.lru_cache(maxsize=4096)
def _parsed(word: str) -> Override:
    return OverridesParser.create().parse_overrides([word])[0]  # its errors name the word


def _is_value(override: Override) -> bool:
    """Whether an override changes one value, and so no choice. Of the keys at the root, some are choices."""
    key = override.key_or_group
    below_root = "." in key and "/" not in key and not key.startswith("hydra.")
    plain = (below_root or key in VALUES) and override.package is None
    return override.type is OverrideType.CHANGE and plain and not override.is_sweep_override()


@functools.lru_cache(maxsize=256)
def _merged(overrides: tuple[str, ...], *search_path: Any) -> tuple[bytes, dict[str, str]]:
    # Hydra finds choices in the user's folder and allowed packages, too: they are keys of the cache.
    cfg, chosen = _by_hydra(overrides)
    return pickle.dumps(cfg), chosen


def _by_hydra(overrides: Sequence[str]) -> tuple[DictConfig, dict[str, str]]:
    current = GlobalHydra.instance()  # of a sweep, which Hydra runs
    running, current.hydra = current.hydra, None
    try:
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            cfg = hydra_compose("train", overrides=list(overrides), return_hydra_config=True)
    finally:
        current.hydra = running
    chosen = {key: value for key, value in cfg.hydra.runtime.choices.items() if "hydra/" not in key}
    for group, choice in chosen.items():
        for name in [choice] if isinstance(choice, str) else choice or ():
            check_own_name(group, name)
    with read_write(cfg), open_dict(cfg):
        del cfg["hydra"]
    return cfg, chosen


def hydra_itself() -> Hydra:
    """Hydra as its own command runs it: over all cells of a sweep, or to print a configuration."""
    version.setbase("1.3")
    GlobalHydra.instance().clear()  # of an earlier command of this process
    return Hydra.create_main_hydra2("train", create_config_search_path(str(CONFIGS)))


def plain_values(cfg: DictConfig) -> dict[str, Any]:
    """The values of a configuration, with interpolations resolved. They are not validated. Raises ValueError with one
    line for one that cannot be resolved."""
    try:
        return cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True))
    except MissingMandatoryValue as error:
        raise ValueError(f"{error.full_key}: is missing; add {error.full_key}=VALUE") from None
    except OmegaConfBaseException as error:
        key = f"{error.full_key}: " if error.full_key else ""
        raise ValueError(f"{key}{str(error).splitlines()[0]}") from None
    except RecursionError:
        raise ValueError("the configuration refers to itself; write the value") from None
