"""Words for numbers, times and refused arguments: argument, value, remedy; and what a line can show."""

import difflib
import re
import shutil
import sys
import textwrap
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

# Of a checkout. After a release ("pip install", "normexp"), and tests/test_package.py names the pages that say it.
INSTALL = ("pip install -e", ".")
COLUMN = re.compile(r" *(?:\S+(?: \S+)*?  +)?")  # the start of a line up to its second column
# They move the cursor, end the line or turn what stands behind them around, where names are shown.
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """A stranger's text as a terminal may show it: what would move the cursor, color or clear the screen becomes what
    it is written as. Line ends stay."""
    return UNPRINTABLE.sub(lambda found: found[0] if found[0] in "\n\t" else ascii(found[0])[1:-1], text)


def folded(text: str, width: int) -> str:
    """A text in lines of at most `width` letters, broken between words: a longer path or command word stays whole, so
    that it can be copied. A line goes on below its second column, if it has one, or further left where only so its
    longest word fits."""

    def fold(line: str) -> str:
        column = len(COLUMN.match(line)[0])  # type: ignore[index]
        indent = column if column <= width // 2 else len(line) - len(line.lstrip()) + 4
        longest = max(map(len, line.split()), default=0)
        if longest <= width:  # else no indent helps
            indent = min(indent, width - longest)
        return textwrap.fill(
            line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False,
            replace_whitespace=False, expand_tabs=False,
        )  # fmt: skip

    return "\n".join(fold(line) if len(line) > width else line for line in text.split("\n"))


def tell(*texts: str, file: TextIO | None = None) -> None:
    """Print texts, each on a line of its own; on a terminal, folded to its width."""
    stream = file or sys.stdout
    on_screen = getattr(stream, "isatty", bool)()
    width = shutil.get_terminal_size().columns
    for text in texts:
        print(folded(text, width) if on_screen else text, file=stream, flush=True)


def say(console: "Console", *lines: str) -> None:
    """Print lines of a run on a rich console, with what moves the cursor written out; on a terminal, folded."""
    for line in map(printable, lines):
        text = folded(line, console.width) if console.is_terminal else line
        console.print(text, highlight=False, markup=False, soft_wrap=True)


def require_plain(path: str, value: Any) -> None:
    """Raise a ValueError for the first text of a stranger's file that would move the cursor, color or clear a screen.

    Args:
        path: key of the value, for the message; empty for a whole file.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, bool):
                spellings = "on, yes or true" if key else "off, no or false"
                raise ValueError(
                    f"{path or 'a key'}: YAML reads {spellings} as no text; quote it: '{spellings.split(',')[0]}'"
                )
            require_plain(path or "a key", key)
            require_plain(f"{path}.{key}".lstrip("."), item)
    elif isinstance(value, list):
        for item in value:
            require_plain(path, item)
    elif isinstance(value, str) and printable(value) != value:
        raise ValueError(f"{path}={value!r:.60}: has a character that no line can show; leave it out")


def require_object(argument: str, value: Any) -> None:
    """Raise a ValueError with one line if a value is a class, where an object of it is meant."""
    if isinstance(value, type):
        name = value.__name__
        raise ValueError(f"{argument}={name}: is a class; pass an object, {name}(...)")


def duration(seconds: float) -> str:
    """4 s, 3:20 min, 2:05 h"""
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 1 or not seconds else f"{seconds:.1f} s"
    minutes = seconds / 60
    if minutes < 60:
        return f"{int(minutes)}:{int(seconds % 60):02d} min"
    return f"{int(minutes // 60)}:{int(minutes % 60):02d} h"


def uncapitalized(text: str) -> str:
    """A sentence as it goes on behind a colon: `Other networks` -> `other networks`; `ResNets`, `MLPs` stay."""
    word = text.split()[0] if text.strip() else ""
    return text[:1].lower() + text[1:] if word[1:].lower() == word[1:] else text


def pluralize(number: float, word: str) -> str:
    """1 seed, 3 batches, 20 epochs, 2 batch sizes, 1,149 images, 0.5 minutes"""
    ending = "" if number == 1 else "es" if word.endswith(("s", "tch")) else "s"
    return f"{f'{number:,g}' if isinstance(number, float) else f'{number:,}'} {word}{ending}"


MOST_LAYERS = 20_000


def installs(extra: str = "") -> str:
    """The command that installs the package, or it with an extra."""
    command, package = INSTALL
    return f'{command} "{package}[{extra}]"' if extra else f"{command} {package}"


def not_installed(module: str) -> str:
    """What to say of a module that this Python lacks."""
    return f"{module} is not installed in this Python ({sys.prefix}): {installs()}"


def require_at_least(argument: str, value: float | None, least: float) -> None:
    """Raise a ValueError that names the argument if its value is below `least`. None is allowed."""
    if value is not None and not value >= least:
        raise ValueError(f"{argument}={value}: too small; use {least} or more")


def require_depth(depth: int) -> None:
    """Raise a ValueError unless a number of layers is at least 1 and small enough to be built within minutes."""
    require_at_least("depth", depth, 1)
    if depth > MOST_LAYERS:
        raise ValueError(f"depth={depth}: would take minutes to build; choose at most {MOST_LAYERS}")


def require_choice(argument: str, value: str, choices: Collection[str]) -> None:
    """Raise a ValueError that names the choices if the value is none of them."""
    if value not in choices:
        near = difflib.get_close_matches(str(value), choices, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"{argument}={value}: unknown; {meant}use one of {', '.join(choices)}")
