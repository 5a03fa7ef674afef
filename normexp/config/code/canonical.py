"""Digests of Python code. They ignore comments, docstrings and layout, and are equal under every Python version."""

import ast
import hashlib
from collections.abc import Iterator
from typing import Any

DIGITS = 12  # of the SHA-256
OURS = "normexp"


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
    words.append(type(node).__name__)
    for field in node._fields:
        value: Any = getattr(node, field, None)
        if field == "body" and isinstance(value, list):
            value = [statement for statement in value if not is_noop(statement)]
        if isinstance(node, ast.JoinedStr):
            value = list(_joined(value))
        if isinstance(node, (ast.ImportFrom, ast.alias)) and str(value).startswith(f"{OURS}."):
            value = value.rpartition(".")[2]
        if value is None or value == []:  # a later Python may add fields that stay empty
            continue
        words.append(field)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                _write(item, words)
            else:
                words.append(ascii(item))
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
