"""The command `normexp`: it finds the function of each command, and makes every error one line and an exit status."""

import pkgutil
import sys
from collections.abc import Sequence

from normexp import __version__
from normexp.config.process import BAD_INPUT, fail
from normexp.format import not_installed, tell

# name -> function, and a line about it
COMMANDS = {
    "train": ("train:main", "train a network with a norm of your choice, or sweep over many; leaves run folders"),
    "check": ("check:check", "find what is wrong with the norms of your own network"),
    "verify": ("verify:verify", "name a claim about normalization, get a verdict with its evidence"),
    "register": ("verify:register", "fix the protocol of a claim before its first run"),
    "compare": ("compare:compare", "decide between norms, by results that exist or by a fair training, as a page"),
    "figure": ("report:figure", "known figures of papers about normalization, by name"),
    "advise": ("compare:advise", "what was measured nearest to your own setting, before you train"),
    "report": ("report:report", "figures, tables and one page about the runs of a study"),
    "runs": ("report:runs", "list what has been trained"),
    "new": ("new:new", "begin a norm, model, monitor or claim of your own: the files and a test"),
}  # fmt: skip
NAMES = {"verify": "verify:claims_in_lines", "figure": "report:figures_in_lines"}  # for the help
HELP_ALONE = ("compare", "new")  # without words they print their help


def main(argv: Sequence[str]) -> int:
    """Run the command that the first word names. Returns the exit status."""
    name, *arguments = argv or ["--help"]
    if name in ("-h", "--help"):
        tell(overview())
        return 0
    if name not in (*COMMANDS, "--version"):
        from normexp.config.options import suggest

        fail(f"{name}: no such command; {suggest(name, list(COMMANDS))}", BAD_INPUT)
    return run(name, arguments)


def run(name: str, arguments: Sequence[str]) -> int:
    """Run a command with its words. Returns the exit status."""
    if "--version" in (name, *arguments):
        print(f"normexp {__version__}")
        return 0
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # absent where a program put something else in its place
            stream.reconfigure(errors="replace")  # of what the terminal cannot encode
    try:
        function = pkgutil.resolve_name(f"normexp.cli.{COMMANDS[name][0]}")
    except ModuleNotFoundError as missing:
        fail(not_installed(missing.name or "a module"), BAD_INPUT)
    if name == "train":
        return function(arguments)
    from normexp.cli.words import app_of, call
    from normexp.config.errors import one_line_errors

    if {"-h", "--help"} & set(arguments) or (name in HELP_ALONE and not arguments):
        app_of(name, function).help_print([])
        if name in NAMES:
            tell(pkgutil.resolve_name(f"normexp.cli.{NAMES[name]}")())
        return 0
    try:
        with one_line_errors("interrupted; what was trained stays, and the same command goes on from there"):
            return call(name, function, arguments) or 0
    except SystemExit as stop:  # also of a training run that was interrupted: it keeps a checkpoint
        return stop.code  # type: ignore[return-value]


def overview() -> str:
    """All commands, one line each."""
    from normexp.cli.help import columns

    lines = columns({f"normexp {name}": about for name, (_, about) in COMMANDS.items()})
    head = "normexp: a laboratory for claims about normalization."
    return "\n".join([head, "", *lines, "", "`normexp <command> --help` explains a command."])
