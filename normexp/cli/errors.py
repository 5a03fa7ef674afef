"""What commands share: options, key=value, where Hydra reads none; errors in one line, with their exit status. Imports
nothing heavy."""

import contextlib
import difflib
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import NoReturn

from normexp.cli.help import GROUPS, choices, keys, suggest
from normexp.config.folder import allow_from, as_option, brought_hint, use_folder
from normexp.config.process import command, note_interrupt, start

# What torch says where a network shrinks its images to nothing.
TOO_SMALL = (
    r"utput size is too small|ernel size can't be greater than actual input|should be less than.*input dim"
)
BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


def prepare() -> None:
    """Begin a command: text that the terminal cannot encode is replaced, and there must be a present folder."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # absent where a program put something else in its place
            stream.reconfigure(errors="replace")
    try:
        os.getcwd()
    except FileNotFoundError:
        fail("the present folder was deleted; change to one that exists", BAD_INPUT)


def read_options(arguments: list[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The defaults, changed by the arguments. The user's packages and own folder, if a command takes them, are used
    from then on, also in the processes that this one starts.

    Raises ValueError for anything but key=value with a known key.
    """
    options = dict(defaults)
    for argument in as_option(arguments):
        key, equals, value = argument.partition("=")
        if key not in options or not equals or not value:
            raise ValueError(
                f"{argument}: write key=value with a key of {', '.join(options)}; --help explains"
            )
        options[key] = value
    if "config_dir" in options:
        allow_from([f"allow_targets={options['allow_targets']}"])
        use_folder(options["config_dir"])
    return options


@contextlib.contextmanager
def cut_quietly() -> Iterator[None]:
    """Inside this context, `| head` ends this process without an error."""
    if not hasattr(signal, "SIGPIPE"):  # on Windows
        yield
        return
    previous = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    yield
    sys.stdout.flush()
    signal.signal(signal.SIGPIPE, previous)


def full_errors() -> bool:
    """Whether the user asked for tracebacks with HYDRA_FULL_ERROR=1."""
    return os.environ.get("HYDRA_FULL_ERROR") == "1" and "NORMEXP_ONE_LINE" not in os.environ


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn an exception into one line and an exit status, unless HYDRA_FULL_ERROR=1."""
    with note_interrupt() as interrupt:
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:
            if full_errors():
                raise
            # Training handles Ctrl-C itself. This one came during an import, composing or building.
            early = interrupt.came and not getattr(error, "in_training", False)
            if early or isinstance(error, KeyboardInterrupt):
                say_and_exit("interrupted before training; nothing was written", INTERRUPTED)
            fail(one_line(error), BAD_INPUT if is_bad_input(error) else FAILED)


def say_error(error: Exception) -> int:
    """Print an error as one line. Returns the exit status; raises the error if the user asked for tracebacks."""
    # The text of an OSError is one line, but not that of Hydra's for a missing choice.
    system = isinstance(error, OSError) and not is_bad_input(error)
    if full_errors() and not system:
        raise error
    print(f"Error: {error if system else one_line(error)}", file=sys.stderr)
    return BAD_INPUT if system or is_bad_input(error) else FAILED


def is_bad_input(error: BaseException) -> bool:
    """Whether the user's input caused the error, not the program."""
    return isinstance(error, ValueError) or type(error).__module__.startswith(("hydra", "omegaconf"))


def fail(message: str, status: int) -> NoReturn:
    """Print one line on the error stream and exit."""
    say_and_exit(f"Error: {message}", status)


def say_and_exit(message: str, status: int) -> NoReturn:
    """The same for a message that is no error."""
    # What the user typed may hold signs that move the cursor.
    print("".join(c if c.isprintable() else repr(c)[1:-1] for c in message), file=sys.stderr)
    sys.exit(status)


def one_line(error: BaseException) -> str:
    """An error in one line: messages of Hydra and OmegaConf are shortened, others stay."""
    text = str(error).strip()
    if match := re.search(r"Could not override '([^']+)'", text):
        near = [key for key in difflib.get_close_matches(match[1], keys(), n=2) if key != match[1]]
        hint = f"did you mean {near[0]}? " if near else ""
        return f"{match[1]}: no such key; {hint}`{command('train')} --cfg job` prints all keys"
    if match := re.search(
        r"Could not find '([^']+)/([^'/]+)'\s+Available options in '[^']+':\s+((?:\S+\s*)*?)Config search",
        text,
    ):
        hint = brought_hint(match[1], match[2]) or f"no such choice; {suggest(match[2], match[3].split())}"
        return f"{match[1]}={match[2]}: {hint}"
    if match := re.search(r"Ambiguous value for argument '([^']+)'", text):
        return f"{match[1]}: several values make a sweep; add -m in front: {start()} -m {match[1]}"
    if "missing EQUAL" in text:
        word = match[1] if (match := re.search(r"override '([^']*)'", text)) else text.splitlines()[0]
        if word in GROUPS:
            return f"{word}: a value is missing; write {word}=VALUE, VALUE one of {', '.join(choices(word))}"
        return f"{word}: arguments have the form key=value, for example norm=layernorm"
    # Hydra wraps an error inside a `_target_`. The user needs its cause.
    cause = error.__cause__
    while cause is not None and type(error).__module__.startswith("hydra"):
        error, cause = cause, cause.__cause__
        text = str(error).strip() or text
    line = " ".join(part.strip() for part in text.splitlines() if part.strip())
    if re.search(TOO_SMALL, line):
        line += "; the images are too small for this network: data=cifar10 has larger ones"
    if is_bad_input(error):
        return line
    return f"{type(error).__name__}: {line} (HYDRA_FULL_ERROR=1 shows where)"
