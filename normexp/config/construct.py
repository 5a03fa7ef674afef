"""Build the object that a checked node of a configuration names, and read the content of its data."""

import contextlib
import functools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from normexp.config.targets import resolve_target

if TYPE_CHECKING:
    from normexp.data.base import DataModule


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


_recent: list["DataModule"] = []  # what the last fingerprint read; the next run that is built shares it


def fingerprint(config: dict[str, Any], allowed: Sequence[str] | None, known: dict[str, str]) -> str:
    """The fingerprint of the data of a configuration, "" for a standard data set. It reads the data.

    Args:
        known: what earlier calls of this launch found, by the data's options. Files may change until the next launch.
    """
    key = json.dumps(config["data"], sort_keys=True, default=str)
    standard = str(config["data"].get("_target_"))
    if standard in known or key in known:
        return known.get(key, "")
    _recent.clear()
    data = load_data(config, allowed)
    _recent.append(data)
    known[key if data.fingerprint else standard] = data.fingerprint
    return data.fingerprint


def load_data(
    config: dict[str, Any], allowed: Sequence[str] | None, like: Sequence["DataModule"] = ()
) -> "DataModule":
    """The data module of a configuration, loaded. It shares the splits of `like`, and of what was read last for a
    fingerprint, if only the order of batches differs."""
    data = construct("data", config["data"], allowed)
    data.load(like=[*like, *_recent])
    _recent.clear()  # files may change before the next run
    return data
