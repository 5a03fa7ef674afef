"""Check a composed configuration before anything is built: its root against the schema, each node against the signature
of its `_target_`, and what belongs together."""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from normexp.config.errors import checked
from normexp.config.folder import CONFIGS, allowed_packages
from normexp.config.loggers import check_loggers
from normexp.config.recipe import shipped
from normexp.config.schema import GROUPS, Root, options_of
from normexp.config.targets import resolve_target
from normexp.format import require_at_least, require_plain

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
PARTIAL = ("model", "norm", "optimizer", "trainer")
HYDRAS = ("_target_", "_partial_", "_convert_")  # Hydra's keys that have a meaning here
FAST = "fast"  # the recipe with a file for each model and data
ROLES = ("input_norms", "output_norms", "qk", "final", "matrices")


def validate(
    config: dict[str, Any], allowed: Iterable[str] | None = None, groups: Sequence[str] = GROUPS
) -> None:
    """Raise a ValueError of one line for the first mistake in a resolved configuration.

    Args:
        allowed: the user's packages that `_target_` may name; by default those of the command line.
        groups: whose nodes are checked, if not all are used.
    """
    require_plain("", config)
    checked(Root, config)
    check_loggers(config["logger"])
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
        decay_of(config["optimizer"])


def check_group(group: str, node: Mapping[str, Any], allowed: Iterable[str] | None) -> None:
    """Check a group's node and the nodes inside it. Raises ValueError with one line for the first mistake."""
    parts = {group: node}
    if group == "monitor":
        parts = {f"{group}.{key}": value for key, value in node.items() if value is not None}
    for path, part in parts.items():
        if not isinstance(part, dict) or "_target_" not in part:
            raise ValueError(f"{path}: names no class; choose {group}=<name> or write _target_")
        own = class_options(part) if group == "optimizer" else part
        check_node(path, own, allowed, INJECTED.get(group, ()))
    partial = group in PARTIAL
    if group != "monitor" and node.get("_partial_", False) is not partial:
        why = "normexp calls it later" if partial else "it is built as it stands"
        raise ValueError(f"{group}._partial_={node.get('_partial_')}: must be {str(partial).lower()}; {why}")


def check_node(path: str, node: Any, allowed: Iterable[str] | None, given: tuple[str, ...] = ()) -> None:
    """Check a node with a `_target_` against its signature; search other nodes for such nodes. `given` are arguments
    that normexp passes itself."""
    if isinstance(node, list):
        for index, value in enumerate(node):
            check_node(f"{path}[{index}]", value, allowed)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if not key.startswith("_"):
            check_node(f"{path}.{key}", value, allowed)
        elif key not in HYDRAS:
            raise ValueError(f"{path}.{key}: is not read; the keys of Hydra's are {', '.join(HYDRAS)}")
    if "_target_" not in node:
        return
    target = resolve_target(path, node["_target_"], allowed)
    for key in given:
        if key in node:
            raise ValueError(f"{path}.{key}: is given by normexp; leave it out")
    options = {key: value for key, value in node.items() if not key.startswith("_")}
    if model := options_of(target, given, bool(node.get("_partial_", False))):
        checked(model, options, path)


def check_trainer(trainer: Mapping[str, Any]) -> None:
    """Raise a ValueError of one line for the first harmful option of the trainer."""
    for key in trainer.keys() & SET_ELSEWHERE.keys():
        other = SET_ELSEWHERE[key]
        remedy = f"set {other} instead" if other else "leave it out"
        raise ValueError(f"trainer.{key}={trainer[key]}: is decided by normexp; {remedy}")
    clip = trainer.get("gradient_clip_val")
    if clip is not None and not clip > 0:
        raise ValueError(
            f"trainer.gradient_clip_val={clip}: must be above 0; use trainer.gradient_clip_val=null to clip nothing"
        )
    require_at_least("trainer.accumulate_grad_batches", trainer.get("accumulate_grad_batches"), 1)


def decay_of(optimizer: Mapping[str, Any]) -> str | dict[str, bool]:
    """What weight decay is for, from an optimizer's node: `matrices`, `all`, or role -> whether it decays, where a role
    that is not named has its default: matrices do, norms do not. Raises ValueError with one line for anything else."""
    asked = optimizer.get("decay", "matrices")
    if asked in ("matrices", "all"):
        return asked
    if not isinstance(asked, dict) or not all(isinstance(value, bool) for value in asked.values()):
        raise ValueError(f"optimizer.decay={asked}: use matrices, all or keys such as {{input_norms: true}}")
    for role in asked:
        if role not in ROLES:
            raise ValueError(f"optimizer.decay.{role}: no such parameters; use some of {', '.join(ROLES)}")
    return {role: asked.get(role, role == "matrices") for role in ROLES}


def class_options(optimizer: Mapping[str, Any]) -> dict[str, Any]:
    """An optimizer's node without what is for normexp and not for its class."""
    return {key: value for key, value in optimizer.items() if key != "decay"}


def check_compiler(config: Mapping[str, Any]) -> None:
    """torch.compile needs a C++ compiler on CPU and GPU; CUDA graphs need a GPU."""
    import torch

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

    pair = f"{FAST}_{choices['model']}_{choices['data']}"
    if config.get("recipe") == FAST and not shipped("recipe", FAST, pair):
        made = sorted(path.stem.split("_", 2)[1:] for path in (CONFIGS / "recipe" / FAST).glob("*.yaml"))
        pairs = ", ".join(f"model={model} data={data}" for model, data in made)
        raise ValueError(f"recipe={FAST}: is made for {pairs}; choose one of these, or leave it out")
    accepts, kind = said("model", "accepts"), said("data", "kind")
    if accepts != kind:
        files = sorted(path.stem for path in (CONFIGS / "data").glob("*.yaml") if path.stem != "module")
        targets = {name: (shipped("data", name) or {}).get("_target_") for name in files}
        fitting = [name for name, to in targets.items() if to and resolve_target("data", to).kind == accepts]  # type: ignore[attr-defined]
        raise ValueError(
            f"model={choices['model']}: reads {accepts} data, and data={choices['data']} is {kind} data; "
            f"use data={' or data='.join(fitting)}"
        )
