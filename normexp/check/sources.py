"""Where the layers of a network are written: `net.py:14`."""

import inspect
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
    modules = dict(root.named_modules())
    found = {layer: source_of(modules, layer) for layer in layers}
    return {layer: place for layer, place in found.items() if place}


def source_of(modules: dict[str, nn.Module], layer: str) -> str:
    """See `sources_of`; empty where nothing is known, as of a class typed into a notebook."""
    path, held = layer, ""
    while True:
        owner = modules.get(path)  # None for the name of a parameter
        if owner is not None and (place := written(type(owner), held)) and not Path(place).is_absolute():
            return place
        if not path:
            break
        path, _, held = path.rpartition(".")
    own = modules.get(layer) or modules.get(layer.rpartition(".")[0])
    return written(type(own)) if own is not None else ""


@cache
def written(target: Any, attribute: str = "") -> str:
    """`file:line` of a class or function, at the line of `self.attribute = ` if there is one. The path is relative
    below the present folder, but not into an environment there."""
    try:
        file = Path(inspect.getsourcefile(target) or "").resolve()
        lines, line = inspect.getsourcelines(target)
    except (TypeError, OSError):
        return ""
    if attribute:
        assigned = re.compile(rf"\s*self\.{re.escape(attribute)}\s*[:=]")
        line += next((at for at, text in enumerate(lines) if assigned.match(text)), 0)
    here, installed = Path.cwd().resolve(), Path(sys.prefix).resolve()
    inside = file.is_relative_to(here) and not (installed != here and file.is_relative_to(installed))
    if inside and "site-packages" not in file.parts:
        return f"{file.relative_to(here).as_posix()}:{max(line, 1)}"
    return f"{file.as_posix()}:{max(line, 1)}"
