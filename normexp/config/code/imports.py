"""Which files a class reaches: its imports, and theirs, to the end. Files are read, never imported."""

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

from normexp.config.code.canonical import digest, short
from normexp.config.code.names import bindings, defined, hands_on

OURS = "normexp"
INSTALLED = {"site-packages", "dist-packages"}
Step = tuple[str, str | None]  # a module, and the name that is wanted of it; None: all of it


class Code:
    """The code of one checkout, and of people's own packages.

    Followed are imports of `normexp`, of the package that the importing file belongs to, and of modules that lie beside
    that package. Libraries are not: runs record their versions. Imports inside functions and relative ones count. Base
    classes are followed because a file imports or defines them.

    `from package import name` leads to the module that defines the name. So a change of one norm leaves runs of another
    alone, although `normexp/norms/__init__.py` imports both. What else such an `__init__` does counts too.
    """

    def __init__(self, root: Path):
        self.root = root  # holds `normexp/`
        self._places: dict[str, list[Path]] = {}
        self._trees: dict[Path, ast.Module] = {}
        self._imported: dict[str, list[tuple[str, Step]]] = {}
        self._digests: dict[tuple[tuple[str, ...], ...], str | None] = {}

    def digest(self, *names: str, without: tuple[str, ...] = (), but: tuple[str, ...] = ()) -> str | None:
        """First digits of the SHA-256 of all files that `names` reach; None where one of them cannot be found."""
        key = (names, without, but)
        if key not in self._digests:
            files = self.files(*names, without=without, but=but)
            lines = [f"{module} {files[module]}" for module in sorted(files or {})]
            self._digests[key] = short("\n".join(lines)) if files else None
        return self._digests[key]

    def files(
        self, *names: str, without: tuple[str, ...] = (), but: tuple[str, ...] = ()
    ) -> dict[str, str] | None:
        """Module -> digest of its code, for all modules that `names` (of modules or classes) reach.

        The parts in `without` are left out, `but` for those. None where a name cannot be found.
        """
        found: dict[str, str] = {}
        steps = [self._split(name) for name in names]
        if None in steps:
            return None
        seen: set[Step] = set()
        while steps:
            step = steps.pop()
            if step in seen:
                continue
            seen.add(step)
            module, name = step
            if name is not None:
                steps += self._definition(module, name)
            if _within(module, without) and not _within(module, but):
                continue
            if name is None:
                found[module] = digest(self._tree(module))
                steps += [step for *_, step in self._imports(module)]
            steps += self._packages_around(module, found)
        twice = {f"{package}.__init__" for package in found}
        return {module: found[module] for module in found if module not in twice}

    def _split(self, name: str) -> Step | None:
        """`package.module.Class` -> (package.module, Class)."""
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            if self._path(module := ".".join(parts[:end])):
                rest = parts[end] if end < len(parts) else None
                return (module, rest) if rest is None or self._has(module, rest) else None
        return None

    def _has(self, module: str, name: str) -> bool:
        names = defined(self._tree(module)) | {own for own, _ in self._imports(module)}
        return not names.isdisjoint({name, "*", "__getattr__"})

    def _path(self, module: str) -> Path | None:
        top, *rest = module.split(".")
        if top not in self._places:
            self._places[top] = [self.root / OURS] if top == OURS else _places(top)
        for place in self._places[top]:
            if place.suffix == ".py":
                return None if rest else place
            path = place.joinpath(*rest)
            for file in (path / "__init__.py", path.with_suffix(".py")):
                if file.is_file():
                    return file
        return None

    def _tree(self, module: str) -> ast.Module:
        path = self._path(module)
        if path not in self._trees:
            self._trees[path] = ast.parse(path.read_text(encoding="utf-8"))
        return self._trees[path]

    def _is_package(self, module: str) -> bool:
        path = self._path(module)
        return path is not None and path.name == "__init__.py"

    def _imports(self, module: str) -> list[tuple[str, Step]]:
        """(name here, where it leads) of the imports that are followed."""
        if module not in self._imported:
            self._imported[module] = [
                (own, (source, None if name == "*" else name))
                for own, source, name in bindings(self._tree(module), module, self._is_package(module))
                if self._follows(source, module) and self._path(source)
            ]
        return self._imported[module]

    def _follows(self, source: str, importer: str) -> bool:
        top, own = source.split(".")[0], importer.split(".")[0]
        if top in (OURS, own):
            return True
        if top in sys.stdlib_module_names or own == OURS or self._path(top) is None:
            return False
        beside = {place.parent for place in self._places[own]} & {place.parent for place in self._places[top]}
        return any(INSTALLED.isdisjoint(folder.parts) for folder in beside)

    def _definition(self, module: str, name: str) -> list[Step]:
        """Where `from module import name` leads."""
        if not self._is_package(module):
            return [(module, None)]
        if name.startswith("__"):  # `__version__` describes the package
            return []
        if handed_on := [step for own, step in self._imports(module) if own == name]:
            return handed_on
        names = defined(self._tree(module))
        if name not in names and self._path(f"{module}.{name}"):
            return [(f"{module}.{name}", None)]
        # A package with `__getattr__` may take a name from any file of its own when somebody asks for it.
        below = self._below(module) if "__getattr__" in names - {name} else ()
        return [(module, None), *((file, None) for file in below)]

    def _below(self, package: str) -> Iterator[str]:
        folder = self._path(package).parent
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join([package, *(part for part in parts if part != "__init__")])

    def _packages_around(self, module: str, found: dict[str, str]) -> list[Step]:
        """Count what the `__init__` of each package around a module does beside handing on names; where that leads."""
        steps: list[Step] = []
        parts = module.split(".")
        for package in (".".join(parts[:end]) for end in range(1, len(parts) + 1)):
            label = f"{package}.__init__"
            if package in found or label in found or not self._is_package(package):
                continue
            if doing := [statement for statement in self._tree(package).body if not hands_on(statement)]:
                found[label] = digest(*doing)
                used = {node.id for part in doing for node in ast.walk(part) if isinstance(node, ast.Name)}
                steps += [step for own, step in self._imports(package) if own in used]
        return steps


def _within(module: str, parts: tuple[str, ...]) -> bool:
    return any(f"{module}.".startswith(f"{part}.") for part in parts)


def _places(top: str) -> list[Path]:
    """The file of a module or the folders of a package, without importing it; none for what has no source."""
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
