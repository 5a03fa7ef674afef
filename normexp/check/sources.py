"""Where the layers of a network are written: `net.py:14`."""

import inspect
import linecache
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from torch import nn


def sources_of(root: nn.Module, layers: list[str]) -> dict[str, str]:
    """Layer -> `file:line`. It is the layer's own class if that is written in the present folder; else the line of the
    innermost class there that holds the layer (`self.bn1 = ...`); else the layer's class, with an absolute path."""
    written.cache_clear()  # of another present folder
    linecache.checkcache()
    modules = dict(root.named_modules())
    found = {layer: source_of(modules, layer) for layer in layers}
    return {layer: source for layer, source in found.items() if source}


def source_of(modules: dict[str, nn.Module], layer: str) -> str:
    """See `sources_of`; empty where nothing is known, as of a class typed into a notebook."""
    path, held = layer, ""
    while True:
        owner = modules.get(path)  # None for the name of a parameter
        if owner is not None and (source := written(type(owner), held)) and not Path(source).is_absolute():
            return source
        if not path:
            break
        path, _, held = path.rpartition(".")
    module = modules.get(layer) or modules.get(layer.rpartition(".")[0])
    return written(type(module)) if module is not None else ""


@cache
def written(target: Any, attribute: str = "") -> str:
    """`file:line` of a class or function, at the line of `self.attribute = ` if there is one. The path is relative
    below the present folder, but not into an environment there. (`inspect` parses whole files for it, a second of
    them for a ResNet.)"""
    if (code := getattr(inspect.unwrap(target), "__code__", None)) is not None:
        file, line = Path(code.co_filename), code.co_firstlineno
    else:
        file = Path(getattr(sys.modules.get(getattr(target, "__module__", "")), "__file__", None) or "")
        line = line_of(file, getattr(target, "__qualname__", "").rpartition(".")[2], attribute)
    if not line or not file.is_file():
        return ""
    file, here, installed = file.resolve(), Path.cwd().resolve(), Path(sys.prefix).resolve()
    inside = file.is_relative_to(here) and not (installed != here and file.is_relative_to(installed))
    if inside and "site-packages" not in file.parts:
        return f"{file.relative_to(here).as_posix()}:{line}"
    return f"{file.as_posix()}:{line}"


def line_of(file: Path, name: str, attribute: str) -> int:
    """The line of `class name` in a file, or in that class of `self.attribute = `; 0 if there is no such class."""
    lines = linecache.getlines(str(file))
    begins = re.compile(rf"(\s*)class {re.escape(name)}\b")
    start = next(((at, found[1]) for at, text in enumerate(lines, 1) if (found := begins.match(text))), None)
    if start is None or not attribute:
        return start[0] if start else 0
    line, indent = start
    assigned = re.compile(rf"\s*self\.{re.escape(attribute)}\s*[:=]")
    for at, text in enumerate(lines[line:], line + 1):
        if text.strip() and not text.startswith((f"{indent} ", f"{indent}\t", "#", ")")):
            break  # behind the class
        if assigned.match(text):
            return at
    return line
