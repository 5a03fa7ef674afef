"""Checks a composed configuration against what the code takes, before anything is built.

The yaml tree has no schema of its own: the signature of each `_target_` is the schema of its node, and `SETTINGS`
is the schema of the root. So a wrong key or a wrong type is found in one place, in one line.
"""

import difflib
import inspect
import math
import os
import pkgutil
import shutil
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

GROUPS = ("model", "norm", "data", "optimizer", "schedule", "trainer", "monitor")
SETTINGS = {
    "seed": int, "batch_size": int, "lr": float, "max_epochs": int, "max_steps": int | None, "eps": float,
    "val_every_n_steps": int | None, "log_every_n_steps": int, "accuracies": list[float], "channels_last": bool,
    "compile": bool | Literal["reduce-overhead"], "name": str, "outputs": str, "run_dir": str | None,
    "fast_dev_run": bool, "threads": int | None, "allow_targets": list[str], "replicas": int | dict,
}  # fmt: skip
AT_LEAST = {
    "seed": 0, "batch_size": 1, "lr": 0, "max_epochs": 0, "max_steps": 0, "eps": 0,
    "val_every_n_steps": 1, "log_every_n_steps": 1, "threads": 1,
}  # fmt: skip
LARGEST_SEED = 2**32 - 1  # of numpy, and of Lightning's seed_everything
INJECTED = ("norm", "input_shape", "num_classes", "num_features", "channel_dim", "layer", "params")


def validate(config: dict[str, Any]) -> None:
    """Raise a ValueError of one line for the first thing that is wrong in a resolved configuration."""
    _check_keys(config, [*SETTINGS, *GROUPS], path="")
    for group in GROUPS:
        if group not in config:
            raise ValueError(
                f"{group}: none is chosen; use {group}=<name>, python train.py --help lists them"
            )
    for key, kind in SETTINGS.items():
        _check_type(key, config[key], kind)
    for key, least in AT_LEAST.items():
        if config[key] is not None and not config[key] >= least:  # `not >=` catches nan
            raise ValueError(f"{key}={config[key]}: must be at least {least}")
    if config["seed"] > LARGEST_SEED:
        raise ValueError(f"seed={config['seed']}: must be at most {LARGEST_SEED}")
    if Path(config["name"]).is_absolute() or ".." in Path(config["name"]).parts:
        raise ValueError(f"name={config['name']}: a study lies below outputs; set outputs for another place")
    for group in GROUPS:
        _check_node(group, config[group], tuple(config["allow_targets"]))


def _check_keys(node: dict[str, Any], known: Sequence[str], path: str) -> None:
    for key in node:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {path}{near[0]}?" if near else f"the keys are: {', '.join(known)}"
            raise ValueError(f"{path}{key}: no such key; {hint}")


def _check_node(path: str, node: Any, allowed: tuple[str, ...]) -> None:
    """A node with a `_target_` is checked against its signature; others are searched for such nodes."""
    if isinstance(node, dict) and "_target_" in node:
        target = resolve_target(path, node["_target_"], allowed)
        parameters = inspect.signature(target).parameters
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            names = [name for name, p in parameters.items() if p.kind is not p.VAR_POSITIONAL]
            hidden = [name for name in names if name in INJECTED and name not in node]
            shown = [name for name in names if name not in hidden]
            _check_keys({k: v for k, v in node.items() if not k.startswith("_")}, shown, f"{path}.")
        hints = _hints(target)
        for key, value in node.items():
            if key in hints and not (isinstance(value, dict) and "_target_" in value):
                _check_type(f"{path}.{key}", value, hints[key])
    if isinstance(node, dict):
        for key, value in node.items():
            _check_node(f"{path}.{key}", value, allowed)
    if isinstance(node, list):
        for index, value in enumerate(node):
            _check_node(f"{path}[{index}]", value, allowed)


def resolve_target(path: str, name: str, allowed: tuple[str, ...] = ()) -> Any:
    """The class that a `_target_` names. A config from a stranger must not run anything else, so what counts is
    the object found, not the text: classes of normexp, torch modules, optimizers and schedulers, Lightning parts."""
    try:
        target = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{path}._target_={name}: cannot be imported ({error}); check its spelling"
        ) from None
    package = getattr(target, "__module__", "").split(".")[0]
    fits = isinstance(target, type) and (
        package == "normexp"
        or (package == "torch" and issubclass(target, (nn.Module, Optimizer, LRScheduler)))
        or package in ("pytorch_lightning", "lightning_fabric")
    )
    if not fits and not (package in allowed and callable(target)):
        raise ValueError(
            f"{path}._target_={name}: not a class of normexp, torch or Lightning that may be built; "
            f"allow your own package with allow_targets=[{package}]"
        )
    return target


def _hints(target: Any) -> dict[str, Any]:
    """Type hints of a constructor; of a class with `__init__` inherited from elsewhere, those it declares itself."""
    try:
        return get_type_hints(target.__init__ if isinstance(target, type) else target)
    except (NameError, TypeError, AttributeError):
        return {}


def _check_type(path: str, value: Any, kind: Any) -> None:
    if isinstance(value, float) and math.isinf(value):
        raise ValueError(f"{path}={value}: must be finite")
    if not fits_type(value, kind):
        raise ValueError(f"{path}={value!r}: {_describe(kind)}")


def fits_type(value: Any, kind: Any) -> bool:
    """Whether a yaml value may stand where `kind` is annotated; a kind that yaml cannot express accepts nothing
    but itself, an unknown one accepts everything."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return any(fits_type(value, option) for option in get_args(kind))
    if origin is Literal:
        # True == 1 in Python, but not in a configuration
        return any(value == option and type(value) is type(option) for option in get_args(kind))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        options = [option for option in get_args(kind) if option is not Ellipsis]
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        return is_list and all(any(fits_type(v, o) for o in options) for v in value)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind in (bool, str):
        return isinstance(value, kind)
    if kind in (None, type(None)):
        return value is None
    return True if not isinstance(kind, type) else isinstance(value, kind) or kind is object


def _describe(kind: Any) -> str:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        literals = [a for k in get_args(kind) for a in (get_args(k) if get_origin(k) is Literal else ())]
        names = [str(a) for a in literals] + [
            _name(k) for k in get_args(kind) if get_origin(k) is not Literal
        ]
        return f"choose from {', '.join(names)}" if literals else f"must be {' or '.join(names)}"
    if origin is Literal:
        return f"choose from {', '.join(map(str, get_args(kind)))}"
    return f"must be {_name(kind)}"


def _name(kind: Any) -> str:
    if get_origin(kind) is not None:
        examples = {float: "0.5", int: "1", str: "name"}
        return "a list such as [" + ", ".join(examples.get(a, "...") for a in get_args(kind)) + "]"
    names = {float: "a number", int: "a whole number", bool: "true or false", str: "text", type(None): "null"}
    return names.get(kind, getattr(kind, "__name__", str(kind)))


def check_compiler(config: dict[str, Any]) -> None:
    """torch.compile generates C++ on the CPU (and calls it from C++ on a GPU); CUDA graphs are a GPU's."""
    on_cpu = config["trainer"].get("accelerator") == "cpu" or not torch.cuda.is_available()
    if config["compile"] == "reduce-overhead" and on_cpu:
        raise ValueError(
            "compile=reduce-overhead: CUDA graphs need a GPU and this run is on the CPU; use compile=true"
        )
    names = [name for name in (os.environ.get("CXX"), "g++", "clang++", "cl") if name]
    if not any(shutil.which(name) for name in names):
        raise ValueError(
            f"compile={config['compile']}: no C++ compiler found ({', '.join(names)}); install g++ or leave it out"
        )
