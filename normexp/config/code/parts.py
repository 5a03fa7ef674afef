"""What a run records of the code that computes it: digests of files, and the git commit.

The code of normexp that computes is counted part by part: a part is a file, or one line of a package's `__init__` that
hands on a name. A record holds the digest of each part, so a run can be compared with later code:

- a part that was changed or deleted is seen; a part that was added changes nothing that was there before, unless
  another part imports it, and that part is then changed itself;
- comments, docstrings and layout do not count, a file may move to another folder, and every version of Python gives
  the same digests;
- not seen: an import that is led to a file of the same name in another folder, and code that imports files by name.

Files are read, never imported.
"""

import ast
import hashlib
import importlib.util
import os
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]  # holds `normexp/`; the same inside a wheel
OURS = "normexp"
NORMEXP, MONITORS = OURS, "monitors"  # the keys of a record, beside the user's classes
# The rooms that compute, followed to what they import of normexp.
ROOMS = {
    NORMEXP: ("norms", "models", "data", "training", "lit_model", "schedules", "optimizers"),
    MONITORS: ("monitors",),
}
# They reach this code too, but it decides no number of a result: configuration (its values are part of a run's
# identity), reading and writing of finished runs, what is shown, and monitors, which change nothing.
LEFT_OUT = (
    *("normexp.config", "normexp.runs", "normexp.monitors", "normexp.report"),
    *(
        "normexp.training.loggers",
        "normexp.training.progress",
        "normexp.training.screen",
        "normexp.training.recipe_hint",
    ),
)
# Exceptions: what builds the objects, and the convergence numbers of the summary.
BUT = ("normexp.config.construct", "normexp.monitors.convergence")
DIGITS, PART = 12, 6  # of a SHA-256, and of the digest of each part
LIBRARIES = ("torch", "torchvision", "pytorch_lightning", "lightning_fabric")  # their versions are recorded
INSTALLED = {"site-packages", "dist-packages"}
SECONDS = 10  # for git: a network drive may be slow; a run waits no longer for this note


def sources(config: dict[str, Any]) -> dict[str, str]:
    """The code that computes a run with this configuration.

    Returns:
        `normexp`: digests of all parts that compute, sorted, in one text; `monitors`: the same of what watches, if the
        run has a monitor; and for each class of the user's own a digest of its file and of the files beside it that it
        reaches. For libraries, the versions are recorded elsewhere.
    """
    own = {name: found for name in targets(config) if _is_own(name) and (found := own_digest(name))}
    watched = {MONITORS: parts(MONITORS)} if targets(config.get("monitor")) else {}
    return {NORMEXP: parts(NORMEXP)} | watched | own


def read_ahead() -> None:
    """Read the code now. A process that is forked from this one then records the code that it was forked with."""
    for room in ROOMS:
        parts(room)


def parts(room: str) -> str:
    """The digests of all parts of a room of ROOMS, sorted, in one text."""
    return "".join(sorted(named_parts(ROOT, room)))


@cache
def named_parts(root: Path, room: str) -> dict[str, str]:
    """Digest -> module, for each part of a room below `root`."""
    found: dict[str, str] = {}
    for module, path in _files(root, room).items():
        tree = _tree(path)
        if path.name == "__init__.py":
            doing = [statement for statement in tree.body if not is_reexport(statement)]
            lines = [ast.ImportFrom(node.module, [name], node.level) for node in tree.body
                     if isinstance(node, ast.ImportFrom) for name in node.names]  # fmt: skip
            found |= {digest(line)[:PART]: module for line in lines}
            tree = ast.Module(doing, [])
        if any(not is_noop(statement) for statement in tree.body):
            found[digest(tree)[:PART]] = module
    return found


def _files(root: Path, room: str) -> dict[str, Path]:
    """Module -> file, for all that a room holds and imports of normexp."""
    todo = {path for name in ROOMS[room] for path in (root / OURS / name).rglob("*.py")}
    todo |= {root / OURS / f"{name}.py" for name in ROOMS[room]}
    seen, found = {root / OURS / "__init__.py"}, {}
    while todo:
        seen.add(path := todo.pop())
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        if path.is_file() and _counts(module, room):
            found[module] = path
            names = {name for name in _imported(path, module) if name.startswith(f"{OURS}.")}
            todo |= {file for name in names for file in _candidates(root, name)} - seen
    return found


def _counts(module: str, room: str) -> bool:
    left_out = any(f"{module}.".startswith(f"{part}.") for part in LEFT_OUT)
    if room == MONITORS:
        return not left_out or module.startswith("normexp.monitors")
    return not left_out or module in BUT


def is_reexport(statement: ast.stmt) -> bool:
    """Whether a statement of an `__init__` only imports names or describes the package (`__all__`, `__version__`)."""
    if isinstance(statement, ast.Assign):
        return all(isinstance(to, ast.Name) and to.id.startswith("__") for to in statement.targets)
    if isinstance(statement, ast.If):
        return getattr(statement.test, "id", None) == "TYPE_CHECKING" and not statement.orelse
    return isinstance(statement, (ast.Import, ast.ImportFrom)) or is_noop(statement)


def own_digest(name: str) -> str | None:
    """Digest of the file of a user's class and of the files of its package, and beside it, that it reaches; None if its
    package cannot be found."""
    top = name.split(".")[0]
    folder = _folder_of(top)
    if folder is None:
        return None
    follow_all = INSTALLED.isdisjoint(folder.parts)
    todo, found = [name], {}
    while todo:
        module = todo.pop()
        if not follow_all and module.split(".")[0] != top:
            continue
        for path in _candidates(folder, module):
            if path not in found and path.is_file():
                found[path] = digest(_tree(path))
                todo += _imported(path, ".".join(path.relative_to(folder).with_suffix("").parts))
    return short("\n".join(sorted(found.values()))) if found else None


def _folder_of(top: str) -> Path | None:
    """The folder that holds a top-level package or module."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    for package in (spec and spec.submodule_search_locations) or ():
        return Path(package).parent
    return Path(spec.origin).parent if spec and spec.origin and spec.origin.endswith(".py") else None


@cache
def _candidates(folder: Path, module: str) -> tuple[Path, ...]:
    """The files that importing a dotted name may run: of the packages around it, and its own."""
    above, _, name = module.rpartition(".")
    around = _candidates(folder, above) if above else ()
    path = folder.joinpath(*above.split(".")) if above else folder
    return (*around, path / name / "__init__.py", path / f"{name}.py")


@cache
def _tree(path: Path) -> ast.Module:
    content = path.read_bytes()
    try:
        return ast.parse(content)
    except (SyntaxError, ValueError):  # written for another version of Python: the whole text counts
        return ast.parse(f"content = {content!r}")


def _imported(path: Path, module: str) -> Iterator[str]:
    """Each dotted name that a file imports, inside functions too, as `module` and as `module.name`."""
    for node in _statements(_tree(path).body):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = module.removesuffix(".__init__").split(".")
            above = around[: len(around) - node.level + (path.name == "__init__.py")] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{source}.{alias.name}" for alias in node.names)


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Each statement, and those inside it."""
    for statement in body:
        yield statement
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):
            yield from _statements(getattr(statement, field, ()))


def targets(node: Any) -> set[str]:
    """Each `_target_` in a configuration."""
    if isinstance(node, dict):
        own = {node["_target_"]} if isinstance(node.get("_target_"), str) else set()
        return own.union(*(targets(child) for child in node.values()))
    return set().union(*(targets(child) for child in node)) if isinstance(node, list) else set()


def _is_own(name: str) -> bool:
    return name.split(".")[0] not in (OURS, *LIBRARIES)


def checkout(folder: Path | None = None) -> dict[str, Any] | None:
    """`{"commit": <40 digits>, "dirty": bool}` of the git repository in which a process works, its claims and its
    registry; of this project's checkout if it works in none. None if there is neither, or if git does not answer.

    A checkout is dirty if a Python or YAML file was changed, added or deleted since the commit.
    """
    here = Path.cwd() if folder is None else folder
    return _checkout(next((place for place in (here, *here.parents) if (place / ".git").exists()), ROOT))


@cache  # the process loaded its code when it started
def _checkout(root: Path) -> dict[str, Any] | None:
    if not (root / ".git").exists():
        return None
    options = ["--porcelain=v2", "--branch", "--no-renames", "--untracked-files=normal"]
    # Inside a git hook, these variables point to the hook's repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        found = subprocess.run(
            ["git", "status", *options, "--", "*.py", "*.yaml"],
            cwd=root, env={**environment, "GIT_OPTIONAL_LOCKS": "0"}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=SECONDS, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    lines = found.stdout.splitlines()
    commits = [line.split()[-1] for line in lines if line.startswith("# branch.oid ")]
    changes = [line for line in lines if not line.startswith("# ")]
    return {"commit": commits[0], "dirty": bool(changes)} if commits and commits[0] != "(initial)" else None


def digest(*statements: ast.AST) -> str:
    """First digits of the SHA-256 of the syntax trees. (`ast.unparse` quotes differently from version to version.)

    Of a module of normexp that is imported, only the last name counts, so a file can move to another folder.
    """
    words: list[str] = []
    for statement in statements:
        _write(statement, words)
    return short(" ".join(words))


def short(text: str) -> str:
    """First digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _write(node: ast.AST, words: list[str]) -> None:
    kind = type(node)  # of a hundred thousand nodes
    words.append(kind.__name__)
    for field in kind._fields:
        value: Any = getattr(node, field, None)
        if value is None:
            continue
        if field == "body" and isinstance(value, list):
            value = [statement for statement in value if not is_noop(statement)]
        elif kind is ast.JoinedStr:
            value = list(_joined(value))
        elif kind in (ast.ImportFrom, ast.alias) and str(value).startswith(f"{OURS}."):
            value = value.rpartition(".")[2]
        if value == []:  # a later Python may add fields that stay empty
            continue
        words.append(field)
        for item in value if isinstance(value, list) else (value,):
            if not isinstance(item, ast.AST):
                words.append(ascii(item))
            elif item._fields:
                _write(item, words)
            else:
                words.append(type(item).__name__)
        words.append(";")


def _joined(values: list[ast.expr]) -> Iterator[ast.expr]:
    """The parts of an f-string; some versions split the text around doubled braces."""
    text = ""
    for value in values:
        if isinstance(value, ast.Constant):
            text += str(value.value)
        else:
            yield ast.Constant(text)
            yield value
            text = ""
    yield ast.Constant(text)


def is_noop(statement: ast.stmt) -> bool:
    """Whether a statement does nothing: `pass`, a docstring, or any other text that stands alone."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return isinstance(statement.value.value, str)
    return isinstance(statement, ast.Pass)
