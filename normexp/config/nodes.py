"""The options of a group: the signature of a `_target_` is the schema of its node."""

import difflib
import inspect
import math
from collections.abc import Sequence
from typing import Any, get_type_hints

from normexp.config.targets import resolve_target
from normexp.config.types import describe, fits_type

INJECTED = ("norm", "input_shape", "num_classes", "num_features", "channel_dim", "layer", "params")


def check_keys(node: dict[str, Any], known: Sequence[str], path: str) -> None:
    for key in node:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {path}{near[0]}?" if near else f"the keys are: {', '.join(known)}"
            raise ValueError(f"{path}{key}: no such key; {hint}")


def check_node(path: str, node: Any, allowed: tuple[str, ...]) -> None:
    """A node with a `_target_` is checked against its signature; others are searched for such nodes."""
    if isinstance(node, dict) and "_target_" in node:
        target = resolve_target(path, node["_target_"], allowed)
        parameters = inspect.signature(target).parameters
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            names = [name for name, p in parameters.items() if p.kind is not p.VAR_POSITIONAL]
            hidden = [name for name in names if name in INJECTED and name not in node]
            shown = [name for name in names if name not in hidden]
            check_keys({k: v for k, v in node.items() if not k.startswith("_")}, shown, f"{path}.")
        hints = _hints(target)
        for key, value in node.items():
            if key in hints and not (isinstance(value, dict) and "_target_" in value):
                check_type(f"{path}.{key}", value, hints[key])
    if isinstance(node, dict):
        for key, value in node.items():
            check_node(f"{path}.{key}", value, allowed)
    if isinstance(node, list):
        for index, value in enumerate(node):
            check_node(f"{path}[{index}]", value, allowed)


def _hints(target: Any) -> dict[str, Any]:
    """Type hints of a constructor; of a class with `__init__` inherited from elsewhere, those it declares itself."""
    try:
        return get_type_hints(target.__init__ if isinstance(target, type) else target)
    except (NameError, TypeError, AttributeError):
        return {}


def check_type(path: str, value: Any, kind: Any) -> None:
    if isinstance(value, float) and math.isinf(value):
        raise ValueError(f"{path}={value}: must be finite")
    if not fits_type(value, kind):
        raise ValueError(f"{path}={value!r}: {describe(kind)}")
