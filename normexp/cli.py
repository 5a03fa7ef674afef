"""The command line around Hydra: hints for common mistakes, errors of one line.

Imports nothing heavy, so `--help` and most mistakes are answered before torch is loaded.
"""

import contextlib
import difflib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

from normexp.choices import choices, groups, keys, suggest
from normexp.config.allowed import allow_from
from normexp.early_interrupt import noting_interrupts
from normexp.invocation import command, start
from normexp.sweeps.options import take_flags

HYDRA_FLAGS = (
    "--hydra-help", "--version", "--cfg", "--resolve", "--package", "--run", "--multirun", "--shell-completion",
    "--config-path", "--config-name", "--config-dir", "--info",
)  # fmt: skip
BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
OTHERS = {"claim": "verify", "page": "verify", "budget": "verify"}  # keys of another command


def run(main: Callable[[], None]) -> None:
    """Call a function decorated with `hydra.main`; print every error as one line unless HYDRA_FULL_ERROR=1."""
    arguments = sys.argv[1:]
    if "--help" in arguments or "-h" in arguments:
        show_help(arguments)
        return
    with one_line_errors():
        sys.argv[1:] = arguments = launcher_flags(arguments)
    mistake = find_mistake(arguments)
    if mistake:
        fail(mistake, BAD_INPUT)
    # Hydra reads nan as a number, and a choice must be a word.
    sys.argv[1:] = ['debug="nan"' if argument == "debug=nan" else argument for argument in arguments]
    # The first variable makes Hydra raise instead of printing several lines. Worker processes inherit both; the second
    # tells them that the user did not ask for it.
    if not full_errors():
        os.environ["NORMEXP_ONE_LINE"] = "1"
        os.environ["HYDRA_FULL_ERROR"] = "1"
    with one_line_errors():
        from normexp.hydra_gate import guard

        allow_from(arguments)
        guard(arguments)
        main()


def show_help(arguments: list[str]) -> None:
    """`--help`, or the help of what stands beside it: `--help norm=batchnorm`, `--help norm`, `--help lr`."""
    from normexp.choice_help import help_for

    try:
        text = help_for([argument for argument in arguments if not argument.startswith("-")])
    except ValueError as error:
        fail(str(error), BAD_INPUT)
    with cut_quietly():
        print(text)


def launcher_flags(arguments: list[str]) -> list[str]:
    """`--place slurm` as Hydra takes it; raises ValueError where there is no sweep to run so."""
    rest, given = take_flags(arguments)
    if given and not is_sweep(rest):
        raise ValueError(f"--{given[0][0].replace('_', '-')}: is for sweeps; add -m")
    return rest + [f"{'++' * ('.' in name)}hydra.launcher.{name}={value}" for name, value in given]


def is_sweep(arguments: list[str]) -> bool:
    """Whether the arguments ask for many runs; presets do so by themselves."""
    return bool({"-m", "--multirun"} & set(arguments)) or any(
        argument.startswith(("experiment=", "hydra.mode=")) for argument in arguments
    )


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
    with noting_interrupts() as interrupt:
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:
            if full_errors():
                raise
            # Training handles Ctrl-C itself. This one came during an import, composing or building.
            if interrupt.came or isinstance(error, KeyboardInterrupt):
                say_and_exit("interrupted before training; nothing was written", INTERRUPTED)
            fail(one_line(error), BAD_INPUT if is_bad_input(error) else FAILED)


def is_bad_input(error: Exception) -> bool:
    """Whether the user's input caused the error, not the program."""
    return isinstance(error, ValueError) or type(error).__module__.startswith(("hydra", "omegaconf"))


def fail(message: str, status: int) -> NoReturn:
    """Print one line on the error stream and exit."""
    say_and_exit(f"Error: {message}", status)


def say_and_exit(message: str, status: int) -> NoReturn:
    """The same for a message that is no error."""
    print(message, file=sys.stderr)
    sys.exit(status)


def find_mistake(arguments: list[str]) -> str | None:
    """The message for a common mistake, found before Hydra parses anything."""
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == "--experimental-rerun":
            return f"{name}: a pickle runs what is in it; write --config-path RUN/.hydra --config-name config"
        if name.startswith("--") and name not in HYDRA_FLAGS:
            key = name.lstrip("-").replace("-", "_")
            following = arguments[index + 1] if index + 1 < len(arguments) else "VALUE"
            return f"{name}: keys are set without dashes; write {key}={value if equals else following}"
        if equals and name in OTHERS:
            other = f"{command(OTHERS[name])} {argument}"
            return f"{argument}: claims are verified, not trained by hand; write {other}"
        if ignored := _ignored(name.lstrip("+"), value, arguments):
            return f"{argument}: {ignored}"
        if (
            not argument.startswith("-")
            and not equals
            and name in groups()
            and not arguments[index - 1].startswith("--")
        ):
            return f"{name}: a value is missing; write {name}=VALUE, VALUE one of {', '.join(choices(name))}"
        if equals and name in groups() and "(" not in value and "[" not in value:
            known = choices(name)
            values = value.split(",")
            preset = any(other.startswith("experiment=") for other in arguments)  # a preset may be a sweep
            if len(values) > 1 and not {"-m", "--multirun"} & set(arguments) and not preset:
                return f"{argument}: several values make a sweep; add -m: {start()} -m {' '.join(arguments)}"
            if "--config-dir" in arguments or any("searchpath" in a for a in arguments):
                continue  # the user has choices of their own
            for choice in values:
                if known and choice not in known and choice != "null":
                    return f"{name}={choice}: no such choice; {suggest(choice, list(known))}"
    return None


def _ignored(key: str, value: str, arguments: list[str]) -> str | None:
    """The message for a key of Hydra's that would have no effect."""
    sweep = is_sweep(arguments)
    as_always = value.strip("\"'") == "."  # Lightning gives it to each process that it starts for trainer=ddp
    if (key == "hydra.run.dir" and not as_always) or (key == "hydra.sweep.dir" and not sweep):
        own = "outputs" if sweep else "run_dir"
        return f"is not read; write {own}={value}"
    return None


def one_line(error: Exception) -> str:
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
        return f"{match[1]}={match[2]}: no such choice; {suggest(match[2], match[3].split())}"
    if match := re.search(r"Ambiguous value for argument '([^']+)'", text):
        return f"{match[1]}: several values make a sweep; add -m in front: {start()} -m {match[1]}"
    if "missing EQUAL" in text:
        return f"{text.splitlines()[0]}: arguments have the form key=value, for example norm=layernorm"
    # Hydra wraps an error inside a `_target_`. The user needs its cause.
    cause = error.__cause__
    while cause is not None and type(error).__module__.startswith("hydra"):
        error, cause = cause, cause.__cause__
        text = str(error).strip() or text
    line = " ".join(part.strip() for part in text.splitlines() if part.strip())
    if is_bad_input(error):
        return line
    return f"{type(error).__name__}: {line} (HYDRA_FULL_ERROR=1 shows where)"
