"""What of a run is as shipped: the choices of its nodes, and its recipe, how its model is trained by default."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from normexp.config.folder import CONFIGS, lies_in, load_yaml
from normexp.config.schema import GROUPS

# What belongs to a recipe, beside all below `optimizer` and `schedule`.
PARTS = (
    "optimizer", "schedule", "lr", "batch_size", "max_epochs", "max_steps", "trainer.gradient_clip_val",
    "trainer.accumulate_grad_batches",
)  # fmt: skip


def changes(overrides: Iterable[str]) -> list[str]:
    """What a command changes in its recipe: those of its words, `["optimizer=sgd", "max_epochs=3"]`."""
    return [word for word in overrides if lies_in(word.lstrip("+").partition("=")[0], PARTS)]


def choices_of(config: dict[str, Any], known: Mapping[str, str]) -> dict[str, str]:
    """The choice of each group in a configuration, and its recipe. `known` is what Hydra keeps of them: nothing for a
    list, `monitor=[light,hessian]`, which is named by its members, and for a node that was written without a choice."""
    found = {group: known.get(group) or _named(config.get(group) or {}) for group in GROUPS}
    return {**found, "recipe": config["recipe"]}


def _named(node: dict[str, Any]) -> str:
    return "own" if "_target_" in node else "+".join(node) or "none"


@cache
def shipped(*place: str | None) -> dict[str, Any] | None:
    """A file of the configuration; None if there is none. Callers share the content and must not change it."""
    names = [name for name in place if isinstance(name, str) and re.fullmatch(r"\w+", name)]
    if len(names) < len(place):
        return None  # the name may come from a stranger's run
    path = CONFIGS.joinpath(*names).with_suffix(".yaml")
    return (load_yaml(path.read_text()) or {}) if path.is_file() else None
