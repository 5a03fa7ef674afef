"""One command: its words, as `commands.yaml` lists them, its help, and its errors in one line with an exit status."""

import functools
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from normexp.cli.help import columns, commands, terminal_width
from normexp.config.errors import is_bad_input, one_line_errors
from normexp.config.folder import allow_from, listed, long_flags, use_folder
from normexp.config.process import command as to_type
from normexp.config.process import cut_quietly, prepare

WIDTH = 118  # characters of a line where no terminal says it
Command = Callable[[Sequence[str]], int]
NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
OWN = {"allow_targets": "", "config_dir": ""}  # words of the commands that take a user's packages and folder


def command(name: str, more: Callable[[], str] = str) -> Callable[[Callable[[Any], int | None]], Command]:
    """Make a command of a function of its words, see `parse`; it takes arguments and returns the exit status. `more`
    gives what its help ends with."""

    def made(work: Callable[[Any], int | None]) -> Command:

        @functools.wraps(work)
        def main(arguments: Sequence[str]) -> int:
            prepare()
            entry = commands()[name]
            if {"-h", "--help"} & set(arguments) or (entry.get("help_alone") and not arguments):
                with cut_quietly():
                    print("\n\n".join(filter(None, (help_of(name), more()))))
                return 0
            goes_on = "; the same command goes on from there" if entry.get("sweeps") else ""
            try:
                with one_line_errors(f"interrupted{goes_on}"):
                    return _without_system_errors(work, parse(name, arguments)) or 0
            except SystemExit as stop:  # also of a training run that was interrupted: it keeps a checkpoint
                return stop.code  # type: ignore[return-value]

        return main

    return made


def _without_system_errors(work: Callable[[Any], int | None], args: SimpleNamespace) -> int | None:
    """Do the work. What the system refuses, such as a file, is the user's to mend."""
    try:
        return work(args)
    except OSError as error:
        if is_bad_input(error) or not error.strerror:
            raise
        raise ValueError(f"{error.filename or 'standard output'}: {error.strerror}") from error


def parse(name: str, arguments: Sequence[str]) -> SimpleNamespace:
    """The words of a command, each an attribute with its default; beside them `others`, the words that are no option,
    `typed`, all of them, and `engine`, the flags of sweeps. A user's packages and folder are used from then on, also in
    the processes that this one starts.

    Raises ValueError with one line for a word that the command does not take.
    """
    entry, words = commands()[name], _words(name)
    args = {key: spec.get("default", None if "kind" in spec else "") for key, spec in words.items()}
    args = {key: _value(key, words[key], v) if v and isinstance(v, str) else v for key, v in args.items()}
    others: list[str] = []
    rest = long_flags(arguments)
    if entry.get("sweeps"):
        from normexp.sweeps.options import options_of, take_flags

        rest = [f"--{word}" if word.startswith("workers=") else word for word in rest]
        rest, given = take_flags([word for word in rest if word != "--workers=auto"])
        args["engine"] = options_of(given)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        key = flag.removeprefix("--").replace("-", "_") if flag.startswith("--") else flag
        spec = words.get(key) if equals or flag.startswith("--") else None
        if spec is None:
            if key in entry.get("gone", {}):
                raise ValueError(f"{word}: {entry['gone'][key]}")
            if flag.startswith("-") or not entry.get("others") or (equals and entry["others"] == "plain"):
                raise ValueError(f"{word}: write key=value with a key of {', '.join(words)}; --help explains")
            others.append(word)
        elif spec.get("default") is False and not equals:
            args[key] = True
        else:
            if not equals:
                value = rest.pop(0) if rest else str(spec.get("alone", ""))
            if not value:
                raise ValueError(f"{word}: a value is missing; write {key}=VALUE")
            args[key] = _value(key, spec, value)
    if entry.get("own"):
        allow_from([f"allow_targets={args['allow_targets']}"])
        use_folder(args["config_dir"])
    return SimpleNamespace(**args, others=others, typed=list(arguments))


def _words(name: str) -> dict[str, dict[str, Any]]:
    """What each word of a command takes."""
    entry = commands()[name]
    words = entry.get("words", {}) | (OWN if entry.get("own") else {})
    return {key: spec if isinstance(spec, dict) else {"default": spec} for key, spec in words.items()}


def _value(key: str, spec: dict[str, Any], text: str) -> Any:
    """The value of a word. Raises ValueError for a text that is none."""
    if spec.get("several"):
        return [_value(key, spec | {"several": False}, part) for part in listed(text)]
    choices, least = spec.get("choices", [text]), spec.get("least", 1)
    if text not in choices:
        raise ValueError(f"{key}={text}: choose from {', '.join(choices)}")
    if spec.get("kind") == "path":
        return Path(text)
    if isinstance(spec.get("default"), bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{key}={text}: write true or false")
        return text.lower() == "true"
    if spec.get("kind") == "number" and text != spec.get("default"):
        if not (NUMBER.fullmatch(text) and 0 < float(text) < math.inf):
            raise ValueError(f"{key}={text}: must be a number above 0")
        return float(text)
    if isinstance(spec.get("default"), int) or spec.get("kind") == "whole":
        if not text.isdecimal() or int(text) < least:
            hint = "; put the others before it" if "alone" in spec else ""
            raise ValueError(f"{key}={text}: must be a whole number of at least {least}{hint}")
        return int(text)
    return text


def overview() -> str:
    """All commands, one line each."""
    lines = columns({f"normexp {name}": entry["about"] for name, entry in commands().items()})
    head = "normexp: a laboratory for claims about normalization."
    return "\n".join([head, "", *lines, "", "`normexp <command> --help` explains a command."])


def help_of(name: str) -> str:
    """What a command does, its examples, and its words."""
    entry, width = commands()[name], terminal_width() or WIDTH
    examples = {f"{to_type(name)} {words}".strip(): what for words, what in entry["examples"].items()}
    described = {
        f"--{key}" if spec.get("default") is False else f"{key}={spec.get('default', 'VALUE')}": spec["help"]
        for key, spec in _words(name).items()
        if "help" in spec
    }
    words = ["Options, as key=value or --key value:", *columns(described, width)] if described else []
    blocks = [entry["help"].rstrip(), "\n".join(columns(examples, width)), "\n".join(words)]
    blocks += [entry.get("closing", "").rstrip().replace("{train}", to_type("train"))]
    return "\n\n".join(filter(None, blocks))
