"""How this process was started, `normexp train ...` or `python train.py ...`: messages and records use that form."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

_sub_command: list[str] = []  # of `normexp train`; nothing where a script was started


def command(name: str) -> str:
    """What one types for `train`, `verify`, `report` or `evaluate`."""
    if _installed(sys.argv):
        return f"normexp {name}"
    return "python train.py" if name == "train" else f"python scripts/{name}.py"


def start() -> str:
    """What one types before the arguments to start training as this process was started."""
    return typed([sys.argv[0], *_sub_command])


def program(name: str) -> str:
    """The same without its interpreter and folder, for a usage line."""
    return command(name) if _installed(sys.argv) else f"{name}.py"


def typed(argv: Sequence[str]) -> str:
    """A command line with this process's `sys.argv[0]` as one types it, quoted for a shell."""
    return shlex.join(["normexp", *argv[1:]] if _installed(argv) else ["python", *argv])


def _installed(argv: Sequence[str]) -> bool:
    """Whether the program is the command that installing the package made; normexp.exe on Windows."""
    return Path(argv[0]).stem == "normexp"


def hide_command() -> None:
    """Take the word `train` of `normexp train ...` out of `sys.argv`: Hydra would read it as an override."""
    _sub_command[:] = [sys.argv.pop(1)]


def restore_command() -> None:
    """Undo it, for what records the command line or starts it again in other processes, as Lightning does."""
    if sys.argv[1:2] != _sub_command:
        sys.argv[1:1] = _sub_command
