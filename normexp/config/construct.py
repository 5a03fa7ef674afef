"""Build the object that a checked node of a configuration names."""

import contextlib
import functools
from collections.abc import Iterable, Iterator
from typing import Any

from normexp.config.targets import resolve_target


def construct(path: str, node: Any, allowed: Iterable[str] | None = None) -> Any:
    """Build the object of a node with a `_target_`, or a factory of it if `_partial_` is true. In lists and other
    nodes, build the nodes inside.

    `path` is the node's path, for messages; `allowed` as in `resolve_target`. Raises ValueError with one line for a
    class that is not allowed or that does not take its options.
    """
    if isinstance(node, list):
        return [construct(f"{path}[{index}]", value, allowed) for index, value in enumerate(node)]
    if not isinstance(node, dict):
        return node
    options = {
        key: construct(f"{path}.{key}", value, allowed)
        for key, value in node.items()
        if not str(key).startswith("_")
    }
    if "_target_" not in node:
        return options
    target = resolve_target(path, node["_target_"], allowed)
    if node.get("_partial_", False):
        return functools.partial(target, **options)
    with refused(path, target.__name__):
        return target(**options)


@contextlib.contextmanager
def refused(path: str, what: str) -> Iterator[None]:
    """Turn an error of a part's code into one line that names the part. A ValueError passes: it is already a message to
    the user."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or "without a reason"
        raise ValueError(f"{path}: {what} refuses its options: {reason}") from error
