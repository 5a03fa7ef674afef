"""What of a run is as shipped: the choices of its nodes, and its recipe, how its model is trained by default."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from normexp.config.folder import CONFIGS
from normexp.config.identity import with_later_options
from normexp.config.settings import GROUPS

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
    fast = shipped("recipe", "fast", f"{config['recipe']}_{choices['model']}_{choices['data']}") or {}
    recipe = recipe | fast
    train = shipped("train") or {}
    root = {key: value for key, value in train.items() if key != "defaults"}
    asked = _chosen(train) | _chosen(recipe)
    found = [f"{group}={choices[group]}" for group in CHOSEN if choices[group] != asked[group]]
    own = {group: shipped(group, choices[group]) or config for group in CHOSEN}
    trainer = shipped("trainer", "auto") | recipe.get("trainer", {})
    rate = shipped("recipe", "rate", f"{config['recipe']}_{choices['optimizer']}") or own["optimizer"]
    asked = root | {"lr": rate.get("lr")} | recipe
    steps = config["max_steps"] is not None
    for key in VALUES:
        if key != "max_epochs" or not steps:  # max_steps decides, max_epochs is ignored
            found += _differing(key, config[key], asked[key])
    for key in OF_TRAINER:
        found += _differing(f"trainer.{key}", config["trainer"].get(key), trainer.get(key))
    nodes = {"optimizer": own["optimizer"].get("optimizer", {}), "schedule": own["schedule"]}
    for group, node in nodes.items():
        for key, value in node.items():
            if not key.startswith("_") and key in config[group]:
                found += _differing(f"{group}.{key}", config[group][key], value)
    return found


def choice_of(group: str, node: dict[str, Any]) -> str:
    """Recover the name of a node's choice where Hydra does not keep it. For a list, monitor=[light,hessian],
    the names of its members. For the saved configuration of a run, the file with these values."""
    if "_target_" not in node:
        return "+".join(node) or "none"
    node = with_later_options(node)
    for path in sorted((CONFIGS / group).glob("*.yaml")):
        file = shipped(group, path.stem) or {}
        written = with_later_options({key: value for key, value in file.items() if key != "defaults"})
        same = (value == node.get(key) or "${" in str(value) for key, value in written.items())
        if written.keys() == node.keys() and all(same):
            return path.stem
    return "own"


def choices_of(config: dict[str, Any], known: Mapping[str, str]) -> dict[str, str]:
    """The choice of each group in a configuration, and its recipe. `known` is what Hydra keeps of them: nothing for a
    file that was saved whole."""
    found = {group: known.get(group) or choice_of(group, config[group]) for group in GROUPS}
    return {**found, "recipe": config["recipe"]}


def own_recipe(model: str) -> str | None:
    """The recipe with the model's name; None if there is none."""
    return model if shipped("recipe", model) is not None else None


def older(summary: dict[str, Any]) -> str | None:
    """One line on a finished run whose recipe has changed since; None if it has not."""
    name = summary["config"].get("recipe")
    if name is None:
        return "trained before models had recipes; what it left to the defaults is recipe=plain today"
    now, then = changes(summary["config"], summary["choices"]), summary.get("recipe_changes")
    if now is None or then is None or now == then:
        return None
    return f"trained by an older recipe={name}, which differs from today's in {', '.join(sorted({*now} ^ {*then}))}"


def _differing(key: str, found: Any, asked: Any) -> list[str]:
    follows = isinstance(asked, str) and "${" in asked
    return [] if follows or found == asked else [f"{key}={'null' if found is None else found}"]


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
    return (yaml.safe_load(path.read_text()) or {}) if path.is_file() else None
