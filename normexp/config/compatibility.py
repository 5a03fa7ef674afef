"""The shipped choices: which of them a node came from, and which of them fit together."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from normexp.config.folder import CONFIGS
from normexp.config.later_options import with_later_options
from normexp.config.targets import resolve_target


def choice_of(group: str, node: dict[str, Any]) -> str:
    """Recover the name of a node's choice where Hydra does not keep it. For a list, monitor=[light,hessian],
    the names of its members. For the saved configuration of a run, the file with these values."""
    if "_target_" not in node:
        return "+".join(node) or "none"
    node = with_later_options(node)
    for path in sorted((CONFIGS / group).glob("*.yaml")):
        written = {key: value for key, value in _content(path).items() if key != "defaults"}
        written = with_later_options(written)
        same = (value == node.get(key) or "${" in str(value) for key, value in written.items())
        if written.keys() == node.keys() and all(same):
            return path.stem
    return "own"


@cache
def _content(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text()) or {}


def check_kinds(
    config: dict[str, Any], choices: dict[str, str], allowed: Iterable[str] | None = None
) -> None:
    """Refuse a model on data that it cannot read. The message names the data that fits."""
    model = resolve_target("model", config["model"]["_target_"], allowed)
    data = resolve_target("data", config["data"]["_target_"], allowed)
    kind = config["data"].get("kind", getattr(data, "kind", None))  # for a user's own data it is an option
    # The same for a user's own network.
    accepts = config["model"].get("accepts", getattr(model, "accepts", None))
    for group, found, attribute in (
        ("model", accepts, "accepts"),
        ("data", kind, "kind"),
    ):
        if found not in ("image", "text"):
            name = config[group]["_target_"]
            raise ValueError(
                f'{group}._target_={name}: must say {attribute} = "image" or "text" in its class'
            )
    if accepts == kind:
        return
    fitting = []
    for path in sorted((CONFIGS / "data").glob("*.yaml")):
        target = _content(path).get("_target_")
        if (
            path.stem != "module"
            and target
            and getattr(resolve_target("data", target), "kind", None) == accepts
        ):
            fitting.append(path.stem)
    raise ValueError(
        f"model={choices['model']}: reads {accepts} data, and data={choices['data']} is {kind} data; "
        f"use data={' or data='.join(fitting)}"
    )
