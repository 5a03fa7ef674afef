"""The options of a group: the signature of a `_target_` is the schema of its node."""

import difflib
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args, get_origin, get_type_hints

from normexp.config.targets import resolve_target
from normexp.config.types import UNPRINTABLE, describe, fits_type, is_union

# group -> arguments that normexp passes to the class; the node must not set them
INJECTED = {
    "model": ("input_shape", "num_classes", "norm"),
    "norm": ("num_features", "channel_dim", "layer"),
    "optimizer": ("params", "fused"),
}
OPTIONAL = ("params", "fused")  # an optimizer may name its parameters differently and have no fused kernel
PARTIAL = ("model", "norm", "optimizer", "trainer")
LARGEST = 2**63 - 1
HYDRAS = ("_target_", "_partial_", "_convert_")  # Hydra's keys that have a meaning here


def check_group(group: str, node: Any, allowed: Iterable[str] | None) -> None:
    """Check a group's node and the nodes inside it. Raises ValueError with one line for the first mistake."""
    if group == "monitor":
        for key, value in _options(group, node).items():
            if value is not None:
                _check_named(f"{group}.{key}", value)
                check_node(f"{group}.{key}", value, allowed)
        return
    _check_named(group, node)
    check_node(group, node, allowed, injected=INJECTED.get(group, ()))
    partial = group in PARTIAL
    if node.get("_partial_", False) is not partial:
        why = "normexp calls it later" if partial else "it is built as it stands"
        raise ValueError(f"{group}._partial_={node.get('_partial_')}: must be {str(partial).lower()}; {why}")


def _check_named(path: str, node: Any) -> None:
    if "_target_" not in _options(path, node):
        raise ValueError(f"{path}: names no class; choose {path.partition('.')[0]}=<name> or write _target_")


def _options(path: str, node: Any) -> dict[str, Any]:
    if not isinstance(node, dict):
        raise ValueError(f"{path}={node!r}: must be a choice or keys with values, such as {path}.key=1")
    return node


def check_keys(node: dict[str, Any], known: Sequence[str], path: str) -> None:
    """Raise a ValueError of one line for the first unknown key of a node."""
    for key in node:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {path}{near[0]}?" if near else f"the keys are: {', '.join(known)}"
            raise ValueError(f"{path}{key}: no such key; {hint}")


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
    parameters = _parameters(target)
    if parameters is None:
        return
    names = [name for name, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        check_keys(options, [name for name in names if name not in injected], f"{path}.")
        lacking = [name for name in injected if name not in names and name not in OPTIONAL]
        if lacking:
            raise ValueError(
                f"{path}._target_={node['_target_']}: does not take {', '.join(lacking)}; name a class that does"
            )
    for name in names:
        required = parameters[name].default is inspect.Parameter.empty
        if required and name not in options and name not in injected and not node.get("_partial_", False):
            raise ValueError(f"{path}.{name}: is missing; {path}.{name}=VALUE is needed")
    hints = _hints(target)
    for key, value in options.items():
        if key in hints and isinstance(value, dict) and "_target_" in value:
            if not _takes_part(hints[key], resolve_target(f"{path}.{key}", value["_target_"], allowed)):
                raise ValueError(f"{path}.{key}._target_={value['_target_']}: {describe(hints[key])}")
        elif key in hints:
            check_type(f"{path}.{key}", value, hints[key])


def _parameters(target: type) -> dict[str, inspect.Parameter] | None:
    try:
        return dict(inspect.signature(target).parameters)
    except (TypeError, ValueError):  # a class written in C
        return None


def _hints(target: type) -> dict[str, Any]:
    """Type hints of a constructor, or of the class itself if it inherits `__init__` from elsewhere."""
    try:
        return get_type_hints(inspect.getattr_static(target, "__init__"))
    except (NameError, TypeError, AttributeError):
        return {}


def _takes_part(kind: Any, target: type) -> bool:
    """Whether an object of this class, or a factory of it, fits the annotation `kind`."""
    if is_union(kind):
        return any(_takes_part(option, target) for option in get_args(kind))
    if kind in (Any, object) or get_origin(kind) is Callable:
        return True
    if isinstance(kind, type):
        return issubclass(target, kind)
    return isinstance(get_origin(kind), type) and issubclass(target, get_origin(kind))


def check_type(path: str, value: Any, kind: Any) -> None:
    """Raise ValueError with one line for a value that does not fit its annotation."""
    if not fits_type(value, kind):
        raise ValueError(f"{path}={value!r}: {describe(kind)}")


def check_plain(path: str, value: Any) -> None:
    """Raise ValueError with one line for a value that no setting can have: a key that is no text, a number that is
    infinite or NaN or needs more than 64 bits, text that no line can show."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{path}.{key}: a key must be text; quote it")
            check_plain(f"{path}.{key}", item)
    elif isinstance(value, list):
        for item in value:
            check_plain(path, item)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{path}={value}: must be finite")
    elif isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError(f"{path}: a number of {len(str(value))} digits; must be at most {LARGEST}")
    elif isinstance(value, str) and UNPRINTABLE.search(value):
        raise ValueError(f"{path}={value!r}: has a character that no line can show; leave it out")
