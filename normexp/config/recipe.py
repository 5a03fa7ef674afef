"""What of a run is as shipped: the choices of its nodes, and its recipe, how its model is trained by default."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from normexp.config.folder import CONFIGS, load_yaml
from normexp.config.schema import GROUPS, value_at

OLDER = "older"  # recipe of a run that is older than recipes
CHOSEN = ("optimizer", "schedule")  # groups that a recipe chooses from
VALUES = ("lr", "batch_size", "max_epochs", "max_steps")
OF_TRAINER = ("gradient_clip_val", "accumulate_grad_batches")


def changes(config: dict[str, Any], choices: dict[str, str]) -> list[str] | None:
    """What a run changed in its recipe, as overrides: `["optimizer=sgd", "max_epochs=3"]`.

    The learning rate belongs to the optimizer: another optimizer at its own rate is one change. None if the recipe is
    not this project's, or if the run is older than recipes.
    """
    recipe = shipped("recipe", config.get("recipe"))
    if recipe is None:
        return None
    pair = f"{config['recipe']}_{choices['model']}_{choices['data']}"
    fast = shipped("recipe", "fast", pair) or {}
    fast = fast | (shipped("recipe", "fast", "optimizer", f"{pair}_{choices['optimizer']}") or {})
    recipe = recipe | fast
    train = shipped("train") or {}
    chosen = _chosen(train) | _chosen(recipe)
    own = {group: shipped(group, choices[group]) or config for group in CHOSEN}
    rate = shipped("recipe", "rate", f"{config['recipe']}_{choices['optimizer']}") or own["optimizer"]
    root = train | {"lr": rate.get("lr")} | recipe
    trainer = shipped("trainer", "auto") | recipe.get("trainer", {})
    nodes = {"optimizer": own["optimizer"].get("optimizer", {}), "schedule": own["schedule"]}
    asked = {key: root[key] for key in VALUES}
    asked |= {f"trainer.{key}": trainer.get(key) for key in OF_TRAINER}
    for group, node in nodes.items():
        options = {key: value for key, value in node.items() if not key.startswith("_")}
        asked |= {f"{group}.{key}": value for key, value in options.items() if key in config[group]}
    for group, value in fast.items():  # it sets the network and the data, too
        of_group = isinstance(value, dict)
        asked |= {f"{group}.{key}": one for key, one in value.items()} if of_group else {group: value}
    if config["max_steps"] is not None:
        del asked["max_epochs"]  # it is ignored
    changed = [f"{group}={choices[group]}" for group in CHOSEN if choices[group] != chosen[group]]
    for key, value in asked.items():
        if "${" not in str(value) and (now := value_at(config, key)) != value:
            changed.append(f"{key}={'null' if now is None else now}")
    if (rate_given := config["optimizer"].get("lr", config["lr"])) != config["lr"]:  # then lr moves nothing
        changed = [word for word in changed if not word.startswith("lr=")] + [f"optimizer.lr={rate_given}"]
    return changed


def choices_of(config: dict[str, Any], known: Mapping[str, str]) -> dict[str, str]:
    """The choice of each group in a configuration, and its recipe. `known` is what Hydra keeps of them: nothing for a
    list, `monitor=[light,hessian]`, which is named by its members, and for a node that was written without a choice."""
    found = {group: known.get(group) or _named(config.get(group) or {}) for group in GROUPS}
    return {**found, "recipe": config["recipe"]}


def _named(node: dict[str, Any]) -> str:
    return "own" if "_target_" in node else "+".join(node) or "none"


def _chosen(node: dict[str, Any]) -> dict[str, str]:
    """The choices of a defaults list, with its overrides."""
    items = [item for item in node.get("defaults", []) if isinstance(item, dict)]
    named = {
        re.sub(r"^(override|optional) +/?", "", key): value for item in items for key, value in item.items()
    }
    return {group: named[group] for group in CHOSEN if group in named}


@cache
def shipped(*place: str | None) -> dict[str, Any] | None:
    """A file of the configuration; None if there is none. Callers share the content and must not change it."""
    names = [name for name in place if isinstance(name, str) and re.fullmatch(r"\w+", name)]
    if len(names) < len(place):
        return None  # the name may come from a stranger's run
    path = CONFIGS.joinpath(*names).with_suffix(".yaml")
    return (load_yaml(path.read_text()) or {}) if path.is_file() else None
