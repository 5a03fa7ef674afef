"""The files that a class reaches: its imports, their imports, and so on. Files are read, never imported."""

import ast
import sys
from functools import cache
from pathlib import Path

from normexp.config.code.canonical import digest, short
from normexp.config.code.files import OURS, Files
from normexp.config.code.names import bindings, defined, hands_on

INSTALLED = {"site-packages", "dist-packages"}
Step = tuple[str, str | None]  # a module, and the name that is wanted from it; None: the whole module


class Code:
    """The code of one checkout, and of users' own packages.

    It follows imports of `normexp`, of the importing file's own package, and of modules beside that package. Imports
    inside functions count, and so do relative ones. It does not follow libraries: runs record their versions. Base
    classes count because a file imports or defines them.

    `from package import name` leads to the module that defines the name. So a change to one norm does not touch runs of
    another, although `normexp/norms/__init__.py` imports both. Other statements of such an `__init__` count.
    """

    def __init__(self, root: Path):
        self.read = Files(root)
        self._own = cache(lambda module: digest(self.read.tree(module)))
        self._imports = cache(self._imports_of)
        self._digests: dict[tuple[tuple[str, ...], ...], str | None] = {}

    def digest(self, *names: str, without: tuple[str, ...] = (), but: tuple[str, ...] = ()) -> str | None:
        """First digits of the SHA-256 of all files that `names` reach; None if a name cannot be found."""
        key = (names, without, but)
        if key not in self._digests:
            files = self.files(*names, without=without, but=but)
            lines = [f"{module} {own}" for module, own in sorted(files.items())] if files else []
            self._digests[key] = short("\n".join(lines)) if lines else None
        return self._digests[key]

    def files(
        self, *names: str, without: tuple[str, ...] = (), but: tuple[str, ...] = ()
    ) -> dict[str, str] | None:
        """Module -> digest of its code, for all modules that `names` (modules or classes) reach.

        `without` names packages and modules to omit; `but` names exceptions. None if a name cannot be found.
        """
        found: dict[str, str] = {}
        steps: list[Step] = []
        for name in names:
            if (step := self._split(name)) is None:
                return None
            steps.append(step)
        seen: set[Step] = set()
        while steps:
            step = steps.pop()
            if step in seen:
                continue
            seen.add(step)
            module, wanted = step
            if wanted is not None:
                steps += self._definition(module, wanted)
            if wanted is None and not _left_out(module, without, but):
                found[module] = self._own(module)
                steps += [step for *_, step in self._imports(module)]
            around = [part for part in _packages(module) if not _left_out(part, without, but)]
            steps += self._packages_around(around, found)
        twice = {f"{package}.__init__" for package in found}
        return {module: found[module] for module in found if module not in twice}

    def _split(self, name: str) -> Step | None:
        """`package.module.Class` -> (package.module, Class)."""
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            if self.read.path(module := ".".join(parts[:end])):
                rest = parts[end] if end < len(parts) else None
                return (module, rest) if rest is None or self._has(module, rest) else None
        return None

    def _has(self, module: str, name: str) -> bool:
        names = defined(self.read.tree(module)) | {own for own, _ in self._imports(module)}
        return not names.isdisjoint({name, "*", "__getattr__"})

    def _imports_of(self, module: str) -> list[tuple[str, Step]]:
        """(name in this module, step) of each import that is followed."""
        return [
            (own, (source, None if name == "*" else name))
            for own, source, name in bindings(self.read.tree(module), module, self.read.is_package(module))
            if self._follows(source, module) and self.read.path(source)
        ]

    def _follows(self, source: str, importer: str) -> bool:
        top, own = source.split(".")[0], importer.split(".")[0]
        if top in (OURS, own):
            return True
        if top in sys.stdlib_module_names or own == OURS or self.read.path(top) is None:
            return False
        beside = {place.parent for place in self.read.places(own)} & {
            place.parent for place in self.read.places(top)
        }
        return any(INSTALLED.isdisjoint(folder.parts) for folder in beside)

    def _definition(self, module: str, name: str) -> list[Step]:
        """The steps to which `from module import name` leads."""
        if not self.read.is_package(module):
            return [(module, None)]
        if name.startswith("__"):  # `__version__` describes the package
            return []
        if handed_on := [step for own, step in self._imports(module) if own == name]:
            return handed_on
        names = defined(self.read.tree(module))
        if name not in names and self.read.path(f"{module}.{name}"):
            return [(f"{module}.{name}", None)]
        # A package with `__getattr__` may take a name from any of its files.
        below = self.read.below(module) if "__getattr__" in names - {name} else ()
        return [(module, None), *((file, None) for file in below)]

    def _packages_around(self, packages: list[str], found: dict[str, str]) -> list[Step]:
        """Add to `found` each package whose `__init__` does more than import names. Returns where that code leads."""
        steps: list[Step] = []
        for package in packages:
            label = f"{package}.__init__"
            if package in found or label in found or not self.read.is_package(package):
                continue
            if doing := [statement for statement in self.read.tree(package).body if not hands_on(statement)]:
                found[label] = digest(*doing)
                used = {node.id for part in doing for node in ast.walk(part) if isinstance(node, ast.Name)}
                steps += [step for own, step in self._imports(package) if own in used]
        return steps


def _left_out(module: str, without: tuple[str, ...], but: tuple[str, ...]) -> bool:
    return module not in but and any(f"{module}.".startswith(f"{part}.") for part in without)


def _packages(module: str) -> list[str]:
    """A module and the packages around it, the outermost first."""
    parts = module.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
