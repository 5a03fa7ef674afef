"""`--help`, and `--help norm=batchnorm`: choices, keys and options with the docstrings of the classes that they name.
Imports nothing heavy."""

import ast
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

from normexp.config.folder import config_file
from normexp.config.options import (
    GROUPS,
    all_options,
    choices,
    comments_above,
    installed,
    key_rows,
    suggest,
    text_of,
)
from normexp.config.process import command

PACKAGE = Path(__file__).parents[1]
WIDEST = 140  # characters of a line on a terminal; elsewhere lines are not broken
MOST = 50  # characters of the left column; the text of a longer name starts on the next line
EXAMPLES = {
    "norm=layernorm": "train, show the result, leave a run folder",
    "norm=batchnorm model=cnn batch_size=16 lr=0.05 seed=1": "",
    "norm=none monitor=full": "measure everything while it trains",
    "model=gpt data=python_docs max_steps=300": "",
    "model=resnet optimizer=sgd lr=0.1": "keep the model's recipe but for these",
    "-m norm=batchnorm,layernorm batch_size=2,32 seed=0,1,2": "a sweep; for a fair comparison: normexp compare",
    "--cfg job": "print the whole configuration and stop",
}


def columns(rows: Mapping[str, str], width: int | None = None) -> list[str]:
    """Two columns: names on the left, their texts on the right, wrapped if there is a width."""
    left = max((len(name) for name in rows if len(name) <= MOST), default=0)
    lines = []
    for name, text in rows.items():
        texts = (textwrap.wrap(text, max(width - left - 4, 24)) if width else [text]) or [""]
        if len(name) > left and text:
            texts = ["", *texts]
        heads = [name, *[""] * (len(texts) - 1)]
        lines += [f"  {head:<{left}}  {line}".rstrip() for head, line in zip(heads, texts, strict=True)]
    return lines


def terminal_width() -> int | None:
    """Characters of a line; None where lines are not broken."""
    return min(os.get_terminal_size().columns, WIDEST) if sys.stdout.isatty() else None


def help_for(words: list[str]) -> str:
    """The help of each word, or of everything, as wide as the terminal. Raises ValueError for an unknown word."""
    width = terminal_width()
    return "\n\n".join(explain(word, width) for word in words) if words else help_text(width)


def help_text(width: int | None = None) -> str:
    """The text of `--help`. Lines are broken at `width`, or not at all."""
    examples = {f"{command('train')} {words}": what for words, what in EXAMPLES.items()}
    examples["tensorboard --logdir outputs"] = "look at all runs"
    parts = [
        "normexp: train a network with a norm of your choice and look at what happens.",
        "",
        *columns(examples, width),
        "",
        "Choices (group=choice; options of a choice as group.key=value, e.g. model.depth=8;",
        f"`{command('train')} --help norm=batchnorm` explains a choice and its options):",
    ]
    for group in GROUPS:
        parts += [f"\n{group}", *columns(choices(group) | installed(group), width)]
    rows = {f"{name}={value}" if value else name: text for name, (value, text) in key_rows().items()}
    return "\n".join([*parts, "\nKeys (key=value):", *columns(rows, width)])


def explain(word: str, width: int | None = None) -> str:
    """The help of `norm=batchnorm`, `norm` or `lr`. Raises ValueError for an unknown word."""
    group, _, choice = word.partition("=")
    if group not in GROUPS:
        roots = key_rows()
        if group not in roots:
            raise ValueError(f"--help {word}: no such group or key; {suggest(group, [*GROUPS, *roots])}")
        default, text = roots[group]
        return f"{group}={default or 'VALUE'}\n\n{text}"
    offered = choices(group) | installed(group)
    if not choice:
        head = f"{group}: choose one, {command('train')} {group}=NAME"
        return "\n".join([head, "", *columns(offered, width)])
    if choice not in offered:
        raise ValueError(f"--help {word}: no such choice; {suggest(choice, list(offered))}")
    if choice in installed(group) and not config_file(group, choice):
        return f"{word}\n\n{offered[choice]}"
    text = text_of(group, choice)
    target = re.search(r"^ *_target_: *(\S+)", text, re.M)
    docs = [sections(doc) for doc in docstrings(target[1] if target else "")]
    described = {name: meaning for _, entries in reversed(docs) for name, meaning in entries.items()}
    rows = {
        f"{name}={value}": comment or described.get(name.rpartition(".")[2], "")
        for name, (value, comment) in all_options(group, choice).items()
    }
    parts = [f"{group}={choice}", "", *comments_above(text)]
    parts += ["", docs[0][0]] if docs else []
    parts += ["", "Options and their values here:", "", *columns(rows, width)] if rows else []
    return "\n".join(parts)


def docstrings(target: str) -> list[str]:
    """Docstrings of one of this project's classes and of its bases, nearest first, read without an import. Empty for
    classes of libraries."""
    package, _, name = target.rpartition(".")
    room = PACKAGE.parent.joinpath(*package.split("."))
    files = room.rglob("*.py") if room.is_dir() else [room.with_suffix(".py")]
    trees = [ast.parse(path.read_text()) for path in files] if package.startswith(f"{PACKAGE.name}.") else []
    classes = {node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}
    texts, waiting = [], [name]
    while waiting:
        if node := classes.get(waiting.pop(0)):
            texts.append(inspect.cleandoc(ast.get_docstring(node) or ""))
            waiting += [base.id for base in node.bases if isinstance(base, ast.Name)]
    return [text for text in texts if text]


def sections(docstring: str) -> tuple[str, dict[str, str]]:
    """A docstring without its sections, and option -> its text in the sections Args, Options and Attributes."""
    prose: list[str] = []
    entries: dict[str, str] = {}
    for block in re.split(r"^(?=\S)", docstring, flags=re.M):  # each begins at the margin
        head = re.match(r"(Args|Options|Attributes|Raises|Returns):\n", block)
        if not head:
            prose.append(block)
        elif head[1] not in ("Raises", "Returns"):
            for names, text in re.findall(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n+ {5}.*)*)", block, re.M):
                entries |= dict.fromkeys(names.split(", "), re.sub(r"\s*\n\s*", " ", text))
    return re.sub(r"\n{3,}", "\n\n", "".join(prose)).strip(), entries
