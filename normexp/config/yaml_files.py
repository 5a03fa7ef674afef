"""Read a yaml file that may be untrusted. It must be a plain file of sane size, and is checked before loading."""

from pathlib import Path
from typing import Any

import yaml

MOST_BYTES = 256 * 1024
MOST_VALUES = 20_000  # with every alias written out
DEEPEST = 50


def read_yaml(path: Path) -> str:
    """The text of a yaml file that is safe to load. Raises ValueError with one line for any other file.

    Nested aliases multiply: ten lines can stand for a billion values, and a loader would build them all.
    """
    try:
        if not path.is_file():  # opening a pipe would wait forever
            raise ValueError(f"{path}: is no file" if path.exists() else f"{path}: not found")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    if len(content) > MOST_BYTES:
        raise ValueError(
            f"{path}: cannot be read (larger than {MOST_BYTES // 1024} KiB, no configuration is)"
        )
    try:
        text = content.decode()
        _count(yaml.compose(text, yaml.SafeLoader), {}, 0)
    except RecursionError:
        raise ValueError(f"{path}: cannot be read (nested more than {DEEPEST} deep)") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read ({' '.join(str(error).split())})") from None
    return text


def _count(node: Any, known: dict[int, tuple[int, int]], level: int) -> tuple[int, int]:
    """Number of values in a node, and how deep they are nested. `known` holds the result of each counted node, and
    zeros while a node is being counted."""
    if level > DEEPEST:
        raise ValueError(f"nested more than {DEEPEST} deep")
    if not isinstance(node, yaml.CollectionNode):
        return 1, 0
    if id(node) not in known:
        known[id(node)] = 0, 0
        pairs = isinstance(node, yaml.MappingNode)
        children = [item for pair in node.value for item in pair] if pairs else node.value
        counted = [_count(child, known, level + 1) for child in children]
        size, depth = 1 + sum(size for size, _ in counted), 1 + max((d for _, d in counted), default=0)
        known[id(node)] = size, depth
    if known[id(node)] == (0, 0):
        raise ValueError("an alias stands for the value that it is part of")
    if known[id(node)][0] > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES:,} values with its aliases written out")
    if known[id(node)][1] > DEEPEST:
        raise ValueError(f"nested more than {DEEPEST} deep with its aliases written out")
    return known[id(node)]
