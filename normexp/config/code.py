"""Which code a run was computed by: a digest of each file that defines a class which its configuration names."""

import ast
import hashlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

LIBRARIES = ("torch", "torchvision", "pytorch_lightning", "lightning_fabric")  # their versions are recorded


def sources(config: dict[str, Any]) -> dict[str, str]:
    """`_target_` -> first digits of the SHA-256 of the code in the file that defines it, for classes of normexp and
    one's own. Comments, docstrings and layout do not count; a file that such a file imports is not looked at."""
    names = {name for name in _targets(config) if name.split(".")[0] not in LIBRARIES}
    return {name: digest for name in sorted(names) if (digest := _digest(name)) is not None}


def changed(config: dict[str, Any], recorded: dict[str, str] | None) -> list[str]:
    """The classes whose file is another now than when a run was computed; none where nothing was recorded."""
    return [name for name, digest in sources(config).items() if (recorded or {}).get(name, digest) != digest]


def _targets(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("_target_"), str):
            yield node["_target_"]
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _targets(child)


@cache  # a claim asks for hundreds of runs, and this process computes with the code that it has loaded
def _digest(target: str) -> str | None:
    try:
        path = inspect.getsourcefile(pkgutil.resolve_name(target))
    except (ImportError, AttributeError, ValueError, TypeError):  # built in, or gone
        return None
    return hashlib.sha256(_code(Path(path).read_text()).encode()).hexdigest()[:12] if path else None


def _code(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            and ast.get_docstring(node) is not None
        ):
            node.body[0] = ast.Pass()
    return ast.unparse(tree)
