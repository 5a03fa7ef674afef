"""The command `normexp`: `normexp train norm=layernorm`. Each command is one file with a function `main`."""

import contextlib
import importlib
import os
import sys

from normexp import __version__
from normexp.cli.help import suggest
from normexp.config.process import BAD_INPUT, hide_command, run_as_process

COMMANDS = {
    "train": "train a network with a norm of your choice, or sweep over many; leaves run folders",
    "check": "find what is wrong with the norms of your own network",
    "verify": "name a claim about normalization, get a verdict with its evidence",
    "register": "fix the protocol of a claim before its first run",
    "evidence": "the finished runs that verdicts rest on: check, keep and share them",
    "bank": "a norm of your own beside a bank of drawn networks: a row and a badge",
    "compare": "a fair comparison of norms in one setting of yours, as a page",
    "figure": "known figures of papers about normalization, by name",
    "advise": "what to expect of each norm in your own setting, before you train",
    "report": "figures, tables and one page about the runs of a study",
    "runs": "list what has been trained: studies, or the runs of one",
    "evaluate": "evaluate a saved run again, without training",
    "new": "begin a norm, model, monitor or claim of your own: the files and a test",
}


def main() -> int:
    """Run the command that the first argument names. Returns the exit status."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "--help"):
        print(help_text())
        return 0
    if "--version" in sys.argv[1:]:
        print(f"normexp {__version__}")
        return 0
    if name in ("-sc", "--shell-completion"):
        words = f"{os.environ.get('COMP_LINE', 'normexp train')} ".split(" ")
        if len(words) < 4 and words[1] != "train":
            print(*COMMANDS)
        if words[1] != "train":  # Hydra knows of no other command, and would print errors
            return 0
        complete_train()
        name = "train"
    if name not in COMMANDS:
        print(f"Error: {name}: no such command; {suggest(name, list(COMMANDS))}", file=sys.stderr)
        return BAD_INPUT
    if name == "train":
        hide_command()
        arguments = []
    else:
        arguments = [sys.argv[2:]]
    return importlib.import_module(f"normexp.cli.{name}").main(*arguments) or 0


def process() -> None:
    """The installed script `normexp`. It finds the user's packages in the present folder, as `python -m` does, but
    last, so that a file there replaces no library."""
    with contextlib.suppress(FileNotFoundError):  # the folder was deleted
        sys.path.append(os.getcwd())
    run_as_process(main)


def complete_train() -> None:
    """Complete `normexp train ...` for a shell. Hydra answers, and does not expect the word `train`."""
    sys.argv.insert(1, "train")
    if "COMP_LINE" in os.environ:
        os.environ["COMP_LINE"] = os.environ["COMP_LINE"].replace(" train ", " ", 1)


def help_text() -> str:
    """All commands, one line each."""
    width = max(map(len, COMMANDS))
    lines = [f"  normexp {name:<{width}}  {what}" for name, what in COMMANDS.items()]
    return "\n".join(
        [
            "normexp: a laboratory for claims about normalization.",
            "",
            *lines,
            "",
            "`normexp <command> --help` explains a command.",
        ]
    )
