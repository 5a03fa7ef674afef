"""The command `normexp`: `normexp train norm=layernorm`. It finds the function of each command by `commands.yaml`."""

import contextlib
import os
import pkgutil
import sys
from collections.abc import Callable, Sequence

from normexp import __version__
from normexp.config.process import BAD_INPUT, fail, hide_command


def main() -> int:
    """Run the command that the first argument names. Returns the exit status."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if "--version" in sys.argv[1:]:
        print(f"normexp {__version__}")
        return 0
    completes = name in ("-sc", "--shell-completion")
    words = f"{os.environ.get('COMP_LINE', 'normexp train')} ".split(" ") if completes else []
    if name == "train" or words[1:2] == ["train"]:
        from normexp.cli import train

        if words:  # Hydra answers, and does not expect the word `train`
            sys.argv.insert(1, "train")
            os.environ["COMP_LINE"] = os.environ.get("COMP_LINE", "").replace(" train ", " ", 1)
        hide_command()
        train.main()
        return 0
    from normexp.cli.command import overview
    from normexp.cli.help import commands
    from normexp.config.options import suggest

    if words:  # Hydra knows of no other command, and would print errors
        print(*commands() if len(words) < 4 else ())
    elif name in ("-h", "--help"):
        print(overview())
    elif name in commands():
        return function_of(name)(sys.argv[2:])
    else:
        fail(f"{name}: no such command; {suggest(name, list(commands()))}", BAD_INPUT)
    return 0


def function_of(name: str) -> Callable[[Sequence[str]], int]:
    """The function of a command: `main` of the file with its name, or what its entry in the table says."""
    from normexp.cli.help import commands

    return pkgutil.resolve_name(f"normexp.cli.{commands()[name].get('at', f'{name}:main')}")


def process() -> int:
    """The installed script `normexp`. It finds the user's packages in the present folder, as `python -m` does, but
    last, so that a file there replaces no library."""
    with contextlib.suppress(FileNotFoundError):  # the folder was deleted
        sys.path.append(os.getcwd())
    return main()
