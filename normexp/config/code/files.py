"""Files of Python code: the path and the syntax tree of a module, without importing it."""

import ast
import importlib.util
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

OURS = "normexp"


class Files:
    """The modules of one checkout of normexp, and all others that Python can import. Each file is read once."""

    def __init__(self, root: Path):
        self.root = root  # holds `normexp/`
        self.path = cache(self._path)
        self.tree = cache(self._tree)
        self.places = cache(self._places)

    def _path(self, module: str) -> Path | None:
        """The file of a module, or the `__init__.py` of a package; None if it has no source."""
        top, *rest = module.split(".")
        for place in self.places(top):
            if place.suffix == ".py":
                return None if rest else place
            path = place.joinpath(*rest)
            for file in (path / "__init__.py", path.with_suffix(".py")):
                if file.is_file():
                    return file
        return None

    def _tree(self, module: str) -> ast.Module:
        path = self.path(module)
        if path is None:
            raise ValueError(f"{module}: has no source")
        content = path.read_bytes()
        try:
            return ast.parse(content)
        except (SyntaxError, ValueError):
            # Written for another version of Python. The whole text counts, and no import is followed.
            return ast.parse(f"content = {content!r}")

    def _places(self, top: str) -> list[Path]:
        """The folders of a top-level package, or the file of a top-level module."""
        if top == OURS:
            return [self.root / OURS]
        file = getattr(sys.modules.get(top), "__file__", None)
        try:
            spec = None if file else importlib.util.find_spec(top)
        except (ImportError, ValueError):
            return []
        file = file or (spec.origin if spec else None)
        if file and file.endswith(".py"):
            path = Path(file)
            return [path.parent if path.name == "__init__.py" else path]
        return [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []

    def is_package(self, module: str) -> bool:
        path = self.path(module)
        return path is not None and path.name == "__init__.py"

    def below(self, package: str) -> Iterator[str]:
        """All modules in the folder of a package."""
        if init := self.path(package):
            for path in sorted(init.parent.rglob("*.py")):
                parts = path.relative_to(init.parent).with_suffix("").parts
                yield ".".join([package, *(part for part in parts if part != "__init__")])
