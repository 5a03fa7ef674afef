"""The names in the syntax of one file: those that it imports, and those that it defines."""

import ast
from collections.abc import Iterator, Sequence

from normexp.config.code.canonical import says_nothing


def bindings(tree: ast.Module, module: str, is_package: bool) -> list[tuple[str, str, str | None]]:
    """(name here, source module, name there) of each import, inside functions too.

    The name there is None if the module itself is imported, and "*" for all its names.
    """
    found: list[tuple[str, str, str | None]] = []
    for node in _statements(tree.body):
        if isinstance(node, ast.Import):
            found += [(alias.asname or alias.name.split(".")[0], alias.name, None) for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                parts = module.split(".")
                above = parts[: len(parts) - node.level + is_package]
                source = ".".join([*above, *([source] if source else [])])
            found += [(alias.asname or alias.name, source, alias.name) for alias in node.names]
    return found


def defined(tree: ast.Module) -> set[str]:
    """The names that a module defines at its top level, conditional ones too."""
    names: set[str] = set()
    for statement in _statements(tree.body, (ast.If, ast.Try, ast.With, ast.ExceptHandler)):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(statement.name)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names |= {
                node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
            }
    return names


def _statements(body: Sequence[ast.AST], within: tuple[type, ...] = (ast.AST,)) -> Iterator[ast.AST]:
    """Each statement, and the statements inside those of the kinds `within`."""
    for statement in body:
        yield statement
        if isinstance(statement, within):
            for field in ("body", "orelse", "handlers", "finalbody", "cases"):
                yield from _statements(getattr(statement, field, []), within)


def hands_on(statement: ast.stmt) -> bool:
    """Whether a statement of an `__init__` only imports names or describes the package (`__all__`)."""
    if isinstance(statement, ast.Assign):
        return all(
            isinstance(target, ast.Name) and target.id.startswith("__") for target in statement.targets
        )
    if isinstance(statement, ast.If):
        name = getattr(statement.test, "id", getattr(statement.test, "attr", None))
        return name == "TYPE_CHECKING" and not statement.orelse
    return isinstance(statement, (ast.Import, ast.ImportFrom)) or says_nothing(statement)
