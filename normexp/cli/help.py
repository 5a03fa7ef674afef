"""`--help norm=batchnorm`: explain one choice, group or key from its yaml and its class. Imports nothing heavy."""

import ast
import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from normexp.cli.choices import CONFIGS, choices, columns, groups, help_text, key_rows, suggest
from normexp.config.invocation import command

PACKAGE = Path(__file__).parents[1]
WIDEST = 140  # characters of a line on a terminal; elsewhere lines are not broken


def help_for(words: list[str]) -> str:
    """The help of each word, or of everything, as wide as the terminal. Raises ValueError for an unknown word."""
    width = min(os.get_terminal_size().columns, WIDEST) if sys.stdout.isatty() else None
    return "\n\n".join(explain(word, width) for word in words) if words else help_text(width)


def explain(word: str, width: int | None = None) -> str:
    """The help of `norm=batchnorm`, `norm` or `lr`. Raises ValueError for an unknown word."""
    group, _, choice = word.partition("=")
    if group not in groups():
        rows = {name: (default, text) for name, default, text in key_rows()}
        if group not in rows:
            raise ValueError(f"--help {word}: no such group or key; {suggest(group, [*groups(), *rows])}")
        default, text = rows[group]
        return f"{group}={default or 'VALUE'}\n\n{text}"
    known = choices(group)
    if not choice:
        return "\n".join(
            [f"{group}: choose one, {command('train')} {group}=NAME", "", *columns(known, width)]
        )
    if choice not in known:
        raise ValueError(f"--help {word}: no such choice; {suggest(choice, list(known))}")
    return explain_choice(group, choice, width)


def explain_choice(group: str, choice: str, width: int | None) -> str:
    """The comment of a choice, its options with their values, and the docstring of its class."""
    lines = (CONFIGS / group / f"{choice}.yaml").read_text().splitlines()
    comments = [line.lstrip("# ") for line in lines if line.startswith("#") and "@package" not in line]
    options = all_options(group, choice)
    docs = docstrings(target_of(lines) or "")
    described = documented(docs)
    rows = {}
    for name, (value, comment) in options.items():
        rows[f"{name}={value}"] = comment or described.get(name.rpartition(".")[2], "")
    parts = [f"{group}={choice}", "", *comments]
    if docs:
        parts += ["", prose(docs[0])]
    if rows:
        parts += ["", "Options and their values here:", "", *columns(rows, width)]
    return "\n".join(parts)


def all_options(group: str, choice: str) -> dict[str, tuple[str, str]]:
    """The options of a choice, with the options of the choices that it builds on."""
    lines = (CONFIGS / group / f"{choice}.yaml").read_text().splitlines()
    text = "\n".join(lines)
    named = re.search(r"^defaults:(?: *\[(.*?)\]|((?:\n +- \w+$)+))", text, re.M)
    found: dict[str, tuple[str, str]] = {}
    for parent in re.findall(r"\w+", named[1] or named[2]) if named else []:
        if parent != "_self_":
            found |= all_options(group, parent)
    for name, (value, comment) in options_of(group, lines).items():
        found[name] = (value, comment or found.get(name, ("", ""))[1])
    roots = {f"${{{name}}}": default for name, default, _ in key_rows() if default}
    roots |= {f"${{{name}}}": value for name, (value, _) in found.items() if "." not in name}
    return {name: (roots.get(value, value), comment) for name, (value, comment) in found.items()}


def options_of(group: str, lines: list[str]) -> dict[str, tuple[str, str]]:
    """`norm.eps` -> (its value, its comment), from the lines of one file."""
    prefix = "" if any("@package _global_" in line for line in lines) else f"{group}."
    content = yaml.safe_load("\n".join(lines)) or {}
    found = {}
    for name, value in leaves({key: value for key, value in content.items() if key != "defaults"}):
        found[prefix + name] = (in_one_line(value), comment_of(name, lines))
    return found


def leaves(node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every value with its dotted name, without Hydra's names, which begin with an underscore."""
    for key, value in node.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{name}", own) for name, own in leaves(value))
        elif not key.startswith("_"):
            yield key, value


def in_one_line(value: Any) -> str:
    """A value as it is written on the command line."""
    if isinstance(value, list):
        return f"[{', '.join(map(in_one_line, value))}]"
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def comment_of(name: str, lines: list[str]) -> str:
    """The comment behind a key, with the comment lines right below it."""
    above, _, key = name.rpartition(".")
    within = not above
    found: list[str] = []
    for line in lines:
        match = re.match(r"( *)(\w+):(?:.*?\s#\s*(.*))?", line)
        if found and (more := re.match(r"\s+#\s*(.*)$", line)):
            found.append(more[1])
        elif found:
            break
        elif match and not match[1] and above:
            within = match[2] == above
        elif match and within and match[2] == key and match[3]:
            found.append(match[3])
    return " ".join(found)


def target_of(lines: list[str]) -> str | None:
    """The class that a file names."""
    return next((match[1] for line in lines if (match := re.match(r" *_target_: *(\S+)", line))), None)


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
