"""How this process was started: `normexp train ...` or `python train.py ...`. Messages and records use that form."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from normexp.config.types import UNPRINTABLE

_sub_command: list[str] = []  # of `normexp train`; empty if a script was started


def command(name: str) -> str:
    """What a user types for `train`, `verify`, `report` or `evaluate`."""
    if _installed(sys.argv):
        return f"normexp {name}"
    return "python train.py" if name == "train" else f"python scripts/{name}.py"


def start() -> str:
    """What a user types before the arguments to train, in the form in which this process was started."""
    return typed([sys.argv[0], *_sub_command])


def program(name: str) -> str:
    """The same without its interpreter and folder, for a usage line."""
    return command(name) if _installed(sys.argv) else f"{name}.py"


def typed(argv: Sequence[str]) -> str:
    """A command line as a user types it, quoted for a shell, on one line. `sys.argv[0]` is replaced by the command."""
    return " ".join(map(_quoted, ["normexp", *argv[1:]] if _installed(argv) else ["python", *argv]))


def _quoted(argument: str) -> str:
    if not UNPRINTABLE.search(argument):
        return shlex.quote(argument)
    text = argument.replace("\\", r"\\").replace("'", r"\'")
    return "$'" + UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "'"


def _installed(argv: Sequence[str]) -> bool:
    """Whether the program is the installed command: `normexp`, or normexp.exe on Windows."""
    return Path(argv[0]).stem == "normexp"


def hide_command() -> None:
    """Take the word `train` of `normexp train ...` out of `sys.argv`: Hydra would read it as an override."""
    _sub_command[:] = [sys.argv.pop(1)]


def restore_command() -> None:
    """Put the word back, for code that records the command line or runs it in other processes, as Lightning does."""
    if sys.argv[1:2] != _sub_command:
        sys.argv[1:1] = _sub_command
