"""The identity of a run: the hash of the values that differ from their defaults, and the folder that it names.

A value that equals its default is no part of the identity, so a new option with a default voids no finished run. The
default of an option is that of the signature of its `_target_`; of a key at the root, that of the schema. So a changed
default is a change of `normexp.NUMERICS`.
"""

import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from normexp.config.folder import lies_in
from normexp.config.options import key_of
from normexp.config.schema import GROUPS, NOT_IDENTITY, Root

ROOT_DEFAULTS = {key: field.default for key, field in Root.model_fields.items() if not field.is_required()}
IDENTITY_KEYS = tuple(key for key in Root.model_fields if key not in NOT_IDENTITY)
DECAY_DEFAULT = "matrices"  # `decay` is for the groups of parameters, so no signature of an optimizer has it

RECIPE_KEYS = (
    "optimizer", "schedule", "lr", "batch_size", "max_epochs", "max_steps", "trainer.gradient_clip_val",
    "trainer.accumulate_grad_batches",
)  # fmt: skip


def identity(config: Mapping[str, Any], fingerprint: str = "", processes: int = 1) -> dict[str, Any]:
    """The part of a resolved configuration that makes two runs the same run: what differs from its default, without
    paths, hardware and monitors; with the fingerprint of a user's own data, and the number of processes that share a
    batch, since each normalizes and augments its own part of it."""
    kept = {key: plain(config[key]) for key in IDENTITY_KEYS if key in config}
    kept = {k: v for k, v in kept.items() if k not in ROOT_DEFAULTS or v != ROOT_DEFAULTS[k]}
    if "max_steps" in kept:
        kept.pop("max_epochs", None)  # it is ignored
    for group in GROUPS:
        if isinstance(node := kept.get(group), dict):
            options = {key: value for key, value in node.items() if f"{group}.{key}" not in NOT_IDENTITY}
            if group == "optimizer" and options.get("decay") == DECAY_DEFAULT:
                del options["decay"]
            kept[group] = _differing(options)
    if fingerprint:
        kept["fingerprint"] = fingerprint
    if processes > 1:
        kept["processes"] = processes
    return kept


def _differing(node: dict[str, Any]) -> dict[str, Any]:
    """The options of a node that differ from the defaults of its class."""
    target = str(node.get("_target_", ""))
    defaults = _defaults(target)
    kept: dict[str, Any] = {"_target_": target} if target else {}
    for key, value in node.items():
        if not key.startswith("_") and (key not in defaults or value != defaults[key]):
            kept[key] = _differing(value) if isinstance(value, dict) else value
    return kept


@cache
def _defaults(target: str) -> dict[str, Any]:
    """The defaults of a class's options; none of a class that cannot be named in a configuration."""
    from normexp.config.targets import resolve_target  # imports torch

    try:
        parameters = inspect.signature(resolve_target("", target)).parameters.values()
    except (ValueError, TypeError):  # absent, not allowed, or written in C
        return {}
    return {p.name: plain(p.default) for p in parameters if p.default is not p.empty}


def config_hash(config: Mapping[str, Any], fingerprint: str = "", processes: int = 1) -> str:
    """Hexadecimal SHA-256 of the identity, equal for 1 and 1.0 and for any order of keys."""
    text = json.dumps(identity(config, fingerprint, processes), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def plain(value: Any) -> Any:
    """A value in the form in which equal values have one text: lists for tuples, whole numbers for 1.0."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def processes_of(config: dict[str, Any]) -> int:
    """The number of processes that share a batch: one for each device of each node; one for a run of no step. For
    `devices: auto` it is what a trainer finds on this machine."""
    if config.get("max_steps") == 0:
        return 1
    trainer = config.get("trainer") or {}
    devices, nodes = trainer.get("devices", "auto"), trainer.get("num_nodes", 1)
    if isinstance(devices, list):
        return len(devices) * nodes
    if str(devices).isdigit() and int(devices):
        return int(devices) * nodes
    from normexp.config.targets import construct, refused

    with refused("trainer", "Trainer"):
        make_trainer = construct("trainer", trainer)
        return make_trainer(logger=False, enable_checkpointing=False, enable_progress_bar=False).world_size


def default_folder(config: dict[str, Any], choices: dict[str, str], digest: str) -> Path:
    """`<outputs>/<name>/<model>/<norm>-bs<N>-s<seed>-<hash8>`"""
    leaf = f"{choices['norm']}-bs{config['batch_size']}-s{config['seed']}-{digest[:8]}"
    return Path(config["outputs"]) / config["name"] / choices["model"] / leaf


def model_label(config: Mapping[str, Any], choices: Mapping[str, str]) -> str:
    """The model of a run, as `network_label` names it."""
    return network_label(choices["model"], config["model"].get("name"), config["model"].get("path"))


def network_label(model: str, name: str | None, path: str | None) -> str:
    """The chosen model, with the network of a library or of a user, which a folder does not name: `torchvision
    resnet18`, `module my_package.Net`."""
    return f"{model} {name or path}" if name or path else model


def recipe_overrides(overrides: Iterable[str]) -> list[str]:
    """The overrides that change something of the recipe: `["optimizer=sgd", "max_epochs=3"]`."""
    return [override for override in overrides if lies_in(key_of(override), RECIPE_KEYS)]
