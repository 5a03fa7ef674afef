"""Check a composed configuration against the code before anything is built.

The yaml tree has no schema of its own. `normexp.config.settings` is the schema of the root; the signature of each
`_target_` is the schema of its node. So one place finds a wrong key or type and says so in one line.
"""

import contextlib
import inspect
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import torch

from normexp.config import settings
from normexp.config.construct import resolve_target
from normexp.config.folder import CONFIGS, allowed_packages
from normexp.config.process import command
from normexp.config.recipe import shipped

# Options that normexp gives the trainer itself -> the setting that decides each.
SET_ELSEWHERE = {
    "max_epochs": "max_epochs", "max_steps": "max_steps", "fast_dev_run": "fast_dev_run",
    "val_check_interval": "val_every_n_steps", "check_val_every_n_epoch": "val_every_n_steps",
    "log_every_n_steps": "log_every_n_steps", "default_root_dir": "outputs", "callbacks": "monitor",
    "logger": "log_every_n_steps", "num_sanity_val_steps": None, "enable_model_summary": None,
    "use_distributed_sampler": None, "enable_checkpointing": None, "enable_progress_bar": None,
    "limit_val_batches": "data.val_size", "limit_test_batches": None,
}  # fmt: skip
# group -> arguments that normexp passes to the class; the node must not set them
INJECTED = {
    "model": ("input_shape", "num_classes", "norm"),
    "norm": ("num_features", "channel_dim", "layer"),
    "optimizer": ("params", "fused"),
}
FAST = "fast"  # the recipe with a file for each model and data
OPTIONAL = ("params", "fused")  # an optimizer may name its parameters differently and have no fused kernel
PARTIAL = ("model", "norm", "optimizer", "trainer")
HYDRAS = ("_target_", "_partial_", "_convert_")  # Hydra's keys that have a meaning here


def validate(
    config: dict[str, Any], allowed: Iterable[str] | None = None, groups: Sequence[str] = settings.GROUPS
) -> None:
    """Raise a ValueError of one line for the first mistake in a resolved configuration.

    Args:
        allowed: the user's packages that `_target_` may name; by default those of the command line.
        groups: whose nodes are checked, if not all are used.
    """
    known = [*(setting.key for setting in settings.ROOT), *settings.GROUPS]
    settings.check_keys(config, known, path="")
    for key in known:
        if key not in config:
            what = "none is chosen" if key in settings.GROUPS else "is missing"
            raise ValueError(f"{key}: {what}; use {key}=<value>, {command('train')} --help lists them")
    for setting in settings.ROOT:
        settings.check_setting(setting, config[setting.key])
    for key, value in config.items():
        settings.check_plain(key, value)
    settings.early_stop(config)
    settings.check_loggers(config["logger"])
    if Path(config["name"]).is_absolute() or ".." in Path(config["name"]).parts:
        raise ValueError(f"name={config['name']}: a study lies below outputs; set outputs for another place")
    for accuracy in config["accuracies"]:
        if not 0 < accuracy <= 1:
            raise ValueError(
                f"accuracies={config['accuracies']}: must be fractions above 0, at most 1, not percents"
            )
    if (threads := config["threads"] or 0) > (most := max(64, 4 * (os.cpu_count() or 1))):
        raise ValueError(f"threads={threads}: this machine has {os.cpu_count()} cores; choose at most {most}")
    packages = allowed_packages() if allowed is None else tuple(allowed)
    if foreign := [name for name in config["allow_targets"] if name not in packages]:
        raise ValueError(
            f"allow_targets={foreign}: no file can allow a package; if you trust it, add allow_targets="
            f"[{','.join(foreign)}] to the command line"
        )
    for group in groups:
        check_group(group, config[group], packages)
    if "data" in groups:
        size = config["data"].get("batch_size", config["batch_size"])
        if size != config["batch_size"]:
            raise ValueError(
                f"data.batch_size={size}: the run would be called one of batch_size={config['batch_size']}; write "
                f"batch_size={size}"
            )
    if "trainer" in groups:
        check_trainer(config["trainer"])
    if "optimizer" in groups:
        settings.decay_of(config["optimizer"])


def check_compiler(config: dict[str, Any]) -> None:
    """torch.compile needs a C++ compiler on CPU and GPU; CUDA graphs need a GPU."""
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


def check_trainer(trainer: dict[str, Any]) -> None:
    """Raise a ValueError of one line for the first harmful option of the trainer."""
    for key in trainer.keys() & SET_ELSEWHERE.keys():
        other = SET_ELSEWHERE[key]
        remedy = f"set {other} instead" if other else "leave it out"
        raise ValueError(f"trainer.{key}={trainer[key]}: is decided by normexp; {remedy}")
    clip, batches = trainer.get("gradient_clip_val"), trainer.get("accumulate_grad_batches", 1)
    if clip is not None and not clip > 0:
        raise ValueError(
            f"trainer.gradient_clip_val={clip}: must be above 0; use trainer.gradient_clip_val=null to clip nothing"
        )
    if not batches >= 1:
        raise ValueError(f"trainer.accumulate_grad_batches={batches}: must be at least 1")


def check_group(group: str, node: Any, allowed: Iterable[str] | None) -> None:
    """Check a group's node and the nodes inside it. Raises ValueError with one line for the first mistake."""
    parts = {group: node}
    if group == "monitor" and isinstance(node, dict):
        parts = {f"{group}.{key}": value for key, value in node.items() if value is not None}
    for path, part in parts.items():
        if not isinstance(part, dict):
            raise ValueError(f"{path}={part!r}: must be a choice or keys with values, such as {path}.key=1")
        if "_target_" not in part:
            raise ValueError(f"{path}: names no class; choose {group}=<name> or write _target_")
        own = settings.class_options(part) if group == "optimizer" else part
        check_node(path, own, allowed, injected=INJECTED.get(group, ()))
    partial = group in PARTIAL
    if group != "monitor" and node.get("_partial_", False) is not partial:
        why = "normexp calls it later" if partial else "it is built as it stands"
        raise ValueError(f"{group}._partial_={node.get('_partial_')}: must be {str(partial).lower()}; {why}")


def check_node(path: str, node: Any, allowed: Iterable[str] | None, injected: Sequence[str] = ()) -> None:
    """Check a node with a `_target_` against its signature; search other nodes for such nodes."""
    if isinstance(node, list):
        for index, value in enumerate(node):
            check_node(f"{path}[{index}]", value, allowed)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if not key.startswith("_"):
            check_node(f"{path}.{key}", value, allowed)
    if "_target_" in node:
        check_options(path, node, resolve_target(path, node["_target_"], allowed), allowed, injected)


def check_options(
    path: str, node: dict[str, Any], target: type, allowed: Iterable[str] | None, injected: Sequence[str]
) -> None:
    """Check a node's keys and values against the constructor of its class."""
    for key in node:
        if key.startswith("_") and key not in HYDRAS:
            raise ValueError(f"{path}.{key}: is not read; the keys of Hydra's are {', '.join(HYDRAS)}")
        if key in injected:
            raise ValueError(f"{path}.{key}: is given by normexp; leave it out")
    if not isinstance(node.get("_partial_", False), bool):
        raise ValueError(f"{path}._partial_={node['_partial_']!r}: must be true or false")
    options = {key: value for key, value in node.items() if not key.startswith("_")}
    try:
        parameters = inspect.signature(target).parameters
    except (TypeError, ValueError):  # of a class written in C
        return
    names = [name for name, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        settings.check_keys(options, [name for name in names if name not in injected], f"{path}.")
        lacking = [name for name in injected if name not in names and name not in OPTIONAL]
        if lacking:
            raise ValueError(
                f"{path}._target_={node['_target_']}: does not take {', '.join(lacking)}; name a class that does"
            )
    for name in names:
        required = parameters[name].default is inspect.Parameter.empty
        if required and name not in options and name not in injected and not node.get("_partial_", False):
            raise ValueError(f"{path}.{name}: is missing; {path}.{name}=VALUE is needed")
    hints: dict[str, Any] = {}
    with contextlib.suppress(NameError, TypeError, AttributeError):
        hints = get_type_hints(inspect.getattr_static(target, "__init__"))  # also of an inherited one
    for key, value in options.items():
        if key in hints and isinstance(value, dict) and "_target_" in value:
            if not _takes_part(hints[key], resolve_target(f"{path}.{key}", value["_target_"], allowed)):
                raise ValueError(
                    f"{path}.{key}._target_={value['_target_']}: {settings.describe(hints[key])}"
                )
        elif key in hints:
            settings.check_type(f"{path}.{key}", value, hints[key])


def _takes_part(kind: Any, target: type) -> bool:
    """Whether an object of this class, or a factory of it, fits the annotation `kind`."""
    origins = [get_origin(option) or option for option in settings.options_of(kind)]
    return any(
        own in (Any, object, Callable) or (isinstance(own, type) and issubclass(target, own))
        for own in origins
    )


def check_kinds(
    config: dict[str, Any], choices: dict[str, str], allowed: Iterable[str] | None = None
) -> None:
    """Refuse a model on data that it cannot read. The message names the data that fits."""

    def said(group: str, attribute: str) -> str:
        """What a class says of itself. For a user's own data and network it is an option."""
        name = config[group]["_target_"]
        own = getattr(resolve_target(group, name, allowed), attribute, None)
        if (found := config[group].get(attribute, own)) not in ("image", "text"):
            raise ValueError(
                f'{group}._target_={name}: must say {attribute} = "image" or "text" in its class'
            )
        return found

    if config.get("recipe") == FAST and not shipped(
        "recipe", FAST, f"{FAST}_{choices['model']}_{choices['data']}"
    ):
        made = sorted(path.stem.split("_", 2)[1:] for path in (CONFIGS / "recipe" / FAST).glob("*.yaml"))
        pairs = ", ".join(f"model={model} data={data}" for model, data in made)
        raise ValueError(f"recipe={FAST}: is made for {pairs}; choose one of these, or leave it out")
    accepts, kind = said("model", "accepts"), said("data", "kind")
    if accepts != kind:
        names = sorted(path.stem for path in (CONFIGS / "data").glob("*.yaml") if path.stem != "module")
        targets = {name: (shipped("data", name) or {}).get("_target_") for name in names}
        fitting = [
            n
            for n, to in targets.items()
            if to and getattr(resolve_target("data", to), "kind", None) == accepts
        ]
        raise ValueError(
            f"model={choices['model']}: reads {accepts} data, and data={choices['data']} is {kind} data; "
            f"use data={' or data='.join(fitting)}"
        )
