"""Check a composed configuration before anything is built: its root against the schema, each node against the signature
of its `_target_`, and what belongs together."""

from collections.abc import Mapping, Sequence
from typing import Any

from normexp.config.errors import checked
from normexp.config.folder import CONFIGS, allowed_packages
from normexp.config.options import OF_TRAINER
from normexp.config.schema import GROUPS, Root, options_of
from normexp.config.targets import resolve_target
from normexp.format import require_at_least, require_choice

# group -> arguments that normexp passes to the class; the node must not set them
INJECTED = {
    "model": ("input_shape", "num_classes", "norm"),
    "norm": ("num_features", "channel_dim", "layer"),
    "optimizer": ("params", "fused"),
    "trainer": (
        *OF_TRAINER, "num_sanity_val_steps", "enable_model_summary", "use_distributed_sampler",
        "enable_checkpointing", "limit_val_batches", "limit_test_batches",
    ),
}  # fmt: skip
FAST = "fast"  # the recipe with a file for each model and data
FITTING = {"text": "data=python_docs or data=text_file", "image": "data=digits or data=mnist"}


def validate(config: dict[str, Any], groups: Sequence[str] = GROUPS) -> None:
    """Raise a ValueError of one line for the first mistake in a resolved configuration, in the nodes of `groups`."""
    checked(Root, config)
    if foreign := [name for name in config["allow_targets"] if name not in allowed_packages()]:
        raise ValueError(
            f"allow_targets={foreign}: no file can allow a package; if you trust it, add allow_targets="
            f"[{','.join(foreign)}] to the command line"
        )
    for group in groups:
        node = config[group]
        parts = {group: node}
        if group == "monitor":
            parts = {f"{group}.{key}": value for key, value in node.items() if value is not None}
        for path, part in parts.items():
            if not isinstance(part, dict) or "_target_" not in part:
                raise ValueError(f"{path}: names no class; choose {group}=<name> or write _target_")
            options = class_options(part) if group == "optimizer" else part
            check_node(path, options, INJECTED.get(group, ()))
    size = config["data"].get("batch_size", config["batch_size"])
    if size != config["batch_size"]:
        raise ValueError(
            f"data.batch_size={size}: the run would be called one of batch_size={config['batch_size']}; write "
            f"batch_size={size}"
        )
    clip = config["trainer"].get("gradient_clip_val")
    if clip is not None and not clip > 0:
        raise ValueError(
            f"trainer.gradient_clip_val={clip}: must be above 0; use trainer.gradient_clip_val=null to clip nothing"
        )
    require_at_least("trainer.accumulate_grad_batches", config["trainer"].get("accumulate_grad_batches"), 1)
    require_choice("optimizer.decay", config["optimizer"].get("decay", "matrices"), ("matrices", "all"))


def check_node(path: str, node: Any, given: tuple[str, ...] = ()) -> None:
    """Check a node, and those in it, against the signature of its `_target_`. `given`: what normexp passes itself."""
    if isinstance(node, list):
        for index, value in enumerate(node):
            check_node(f"{path}[{index}]", value)
    if not isinstance(node, dict):
        return
    options = {key: value for key, value in node.items() if not key.startswith("_")}
    for key, value in options.items():
        check_node(f"{path}.{key}", value)
    if "_target_" not in node:
        return
    target = resolve_target(path, node["_target_"])
    if fixed := [key for key in given if key in node]:
        instead = OF_TRAINER.get(fixed[0]) if path == "trainer" else None
        remedy = f"write {instead}=VALUE instead" if instead else "leave it out"
        raise ValueError(f"{path}.{fixed[0]}={node[fixed[0]]!s:.60}: is given by normexp; {remedy}")
    if model := options_of(target, given, bool(node.get("_partial_", False))):
        checked(model, options, path)


def class_options(optimizer: Mapping[str, Any]) -> dict[str, Any]:
    """An optimizer's node without what is for normexp and not for its class."""
    return {key: value for key, value in optimizer.items() if key != "decay"}


def declared(config: dict[str, Any], group: str, attribute: str) -> str:
    """What the class of a node says of itself: `kind` of the data, what a model `accepts`. For a user's own data and
    network it is an option."""
    target = resolve_target(group, config[group]["_target_"])
    return config[group].get(attribute, getattr(target, attribute, None))


def check_kinds(config: dict[str, Any], choices: dict[str, str]) -> None:
    """Refuse a model on data that it cannot read, and the fast recipe of a pair that has none."""
    pair = f"{FAST}_{choices['model']}_{choices['data']}"
    shipped = {path.stem for path in (CONFIGS / "recipe" / FAST).glob("*.yaml")}
    if config["recipe"] == FAST and pair not in shipped:
        made = sorted(name.split("_", 2)[1:] for name in shipped)
        pairs = ", ".join(f"model={model} data={data}" for model, data in made)
        raise ValueError(f"recipe={FAST}: is made for {pairs}; choose one of these, or leave it out")
    accepts, kind = declared(config, "model", "accepts"), declared(config, "data", "kind")
    if accepts not in FITTING:
        raise ValueError(
            f'model={choices["model"]}: accepts={accepts}: says not what it reads; write accepts = "image" or '
            '"text" into its class'
        )
    if accepts != kind:
        raise ValueError(
            f"model={choices['model']}: reads {accepts} data, and data={choices['data']} is {kind} data; "
            f"use {FITTING[accepts]}"
        )
