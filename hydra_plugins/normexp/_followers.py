"""Cells that differ only in plain values: one is resolved, and the others are derived from it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

PLAIN = (bool, int, float, str, type(None))
REFERENCE = re.compile(r"\$\{([^${}]*)\}")
Path = tuple[str | int, ...]


class Followers:
    """The places in a resolved configuration where the values of some keys appear, directly or through references.

    To find them, each key is set to a mark and the configuration is resolved once. OmegaConf takes 10 ms or more to
    resolve, and a sweep over a thousand seeds would do the same a thousand times.

    Args:
        config: of one cell, resolved.
        places: for each key, the places of its value.
    """

    def __init__(self, config: dict[str, Any], places: Mapping[str, list[Path]]):
        self.config, self.places = config, places

    @classmethod
    def find(
        cls, task: DictConfig, config: dict[str, Any], values: tuple[tuple[str, Any], ...]
    ) -> "Followers | None":
        """Find the places; None if a value may have another effect than to appear unchanged.

        Args:
            task: a cell as composed.
            config: the same, resolved.
            values: what it sets.
        """
        unresolved = OmegaConf.to_container(task, resolve=False)
        if any(_calls(text) for _, text in _leaves(unresolved) if isinstance(text, str)):
            return None
        marks = {key: f"<{number}:{key}>" for number, (key, _) in enumerate(values)}
        try:
            for key, mark in marks.items():
                OmegaConf.update(task, key, mark, merge=True)
            marked = OmegaConf.to_container(task, resolve=True)
        except OmegaConfBaseException:
            return None
        by_mark: dict[Any, str] = {mark: key for key, mark in marks.items()}
        places: dict[str, list[Path]] = {key: [] for key in marks}
        for path, value in _leaves(marked):
            if not isinstance(value, str):
                continue
            if value in by_mark:
                places[by_mark[value]].append(path)
            elif any(mark in value for mark in by_mark):
                return None
        return cls(config, places)

    def resolve(self, values: tuple[tuple[str, Any], ...]) -> dict[str, Any] | None:
        """The configuration with these values. Untouched nodes are shared. None if a value is not plain."""
        if not all(isinstance(value, PLAIN) and "${" not in str(value) for _, value in values):
            return None
        config, own = dict(self.config), set()
        for key, value in values:
            for path in self.places[key]:
                _put(config, path, value, own)
        return config


def _put(config: dict[str, Any], path: Path, value: Any, own: set[Path]) -> None:
    """Replace a value. The nodes on the way to it are copied once."""
    node: Any = config
    for depth, part in enumerate(path[:-1], 1):
        if path[:depth] not in own:
            own.add(path[:depth])
            node[part] = node[part].copy()
        node = node[part]
    node[path[-1]] = value


def _leaves(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _leaves(value, (*path, index))
    else:
        yield path, node


def _calls(text: str) -> bool:
    """Whether a text calls a resolver, which may change a value, or names a key by another key."""
    inner = REFERENCE.findall(text)
    return any(":" in name for name in inner) or text.count("${") != len(inner)
