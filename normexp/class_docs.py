"""Docstrings of this project's classes, read from the source without importing it."""

import ast
import inspect
import re
from pathlib import Path

PACKAGE = Path(__file__).parent


def docstrings(target: str) -> list[str]:
    """Docstrings of one of this project's classes and of its bases, nearest first. Empty for classes of libraries."""
    found: list[str] = []
    waiting = [target]
    while waiting:
        place = definition(waiting.pop(0))
        if place is None:
            continue
        node, names = place
        found.append(inspect.cleandoc(ast.get_docstring(node) or ""))
        waiting += [names.get(base.id, "") for base in node.bases if isinstance(base, ast.Name)]
    return [text for text in found if text]


def definition(name: str) -> tuple[ast.ClassDef, dict[str, str]] | None:
    """The class of a dotted name, and the imports of its file: name -> dotted name."""
    module, _, wanted = name.rpartition(".")
    if not module.startswith("normexp"):
        return None
    path = PACKAGE.parent.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not file.is_file():
        return None
    tree = ast.parse(file.read_text())
    names = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    own = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    names |= {each: f"{module}.{each}" for each in own}
    if wanted in own:
        return own[wanted], names
    return definition(names[wanted]) if wanted in names else None


def documented(docs: list[str]) -> dict[str, str]:
    """Option -> its text in the sections Args, Options and Attributes of the docstrings. The nearest class counts."""
    found: dict[str, str] = {}
    for text in docs:
        for section in re.findall(r"^(?:Args|Options|Attributes):\n((?:[ ]{4}.*\n?|\n)+)", text, re.M):
            for entry in re.split(r"\n(?=    \S)", section.rstrip()):
                if match := re.match(r" *(\w+(?:, \w+)*): (.*)", " ".join(entry.split())):
                    for name in match[1].split(", "):
                        found.setdefault(name, match[2])
    return found


def prose(docstring: str) -> str:
    """A docstring without its sections, which are shown as options or are for programmers."""
    whole = re.split(r"^(?:Args|Options|Attributes|Raises|Returns):$", docstring, flags=re.M)
    return "\n\n".join([whole[0].strip(), *(tail_of(section) for section in whole[1:] if tail_of(section))])


def tail_of(section: str) -> str:
    """The text behind a section's entries, at the margin again."""
    match = re.search(r"^\S.*\Z", section, re.M | re.S)
    return match[0].strip() if match else ""
