"""The command line around Hydra: help that explains, hints where people go wrong, errors of one line.

Imports nothing heavy: `--help` and most mistakes are answered before torch is loaded.
"""

import contextlib
import difflib
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

from normexp.config.folder import CONFIGS
from normexp.early_interrupt import noting_interrupts
from normexp.invocation import command, start

HYDRA_FLAGS = (
    "--hydra-help", "--version", "--cfg", "--resolve", "--package", "--run", "--multirun", "--shell-completion",
    "--config-path", "--config-name", "--config-dir", "--experimental-rerun", "--info",
)  # fmt: skip
BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


def run(main: Callable[[], None]) -> None:
    """Call a function decorated with `hydra.main`; print every error as one line unless HYDRA_FULL_ERROR=1."""
    arguments = sys.argv[1:]
    if "--help" in arguments or "-h" in arguments:
        print(help_text())
        return
    mistake = find_mistake(arguments)
    if mistake:
        fail(mistake, BAD_INPUT)
    # With this variable Hydra raises instead of printing several lines; the second one tells worker processes,
    # which inherit both, that the user did not ask for it.
    if not full_errors():
        os.environ["NORMEXP_ONE_LINE"] = "1"
        os.environ["HYDRA_FULL_ERROR"] = "1"
    with one_line_errors():
        main()


def full_errors() -> bool:
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
            # What is trained answers Ctrl-C itself: this one came while something was imported, composed or built.
            if interrupt.came or isinstance(error, KeyboardInterrupt):
                say_and_exit("interrupted before training; nothing was written", INTERRUPTED)
            fail(one_line(error), BAD_INPUT if is_bad_input(error) else FAILED)


def is_bad_input(error: Exception) -> bool:
    return isinstance(error, ValueError) or type(error).__module__.startswith(("hydra", "omegaconf"))


def fail(message: str, status: int) -> NoReturn:
    """One line on the error stream, and the end of the process."""
    say_and_exit(f"Error: {message}", status)


def say_and_exit(message: str, status: int) -> NoReturn:
    """The same for what is no error."""
    print(message, file=sys.stderr)
    sys.exit(status)


def choices(group: str) -> dict[str, str]:
    """The choices of a config group with the first comment of each file."""
    found = {}
    for path in sorted((CONFIGS / group).glob("*.yaml")):
        lines = [
            line for line in path.read_text().splitlines() if line.startswith("#") and "@package" not in line
        ]
        found[path.stem] = lines[0].lstrip("# ").strip() if lines else ""
    return found


def groups() -> list[str]:
    first = ["model", "norm", "data", "recipe", "optimizer", "schedule", "trainer", "monitor", "experiment"]
    return [name for name in first if (CONFIGS / name).is_dir()]


def keys() -> list[str]:
    """Every key that some choice has: `lr`, `norm.eps`, ..."""
    found = set(re.findall(r"^(\w+):", (CONFIGS / "train.yaml").read_text(), re.M)) | set(groups())
    for group in set(groups()) - {"recipe"}:  # it sets keys of others
        for path in (CONFIGS / group).glob("*.yaml"):
            found |= {f"{group}.{key}" for key in re.findall(r"^ {0,2}([a-z]\w*):", path.read_text(), re.M)}
    return sorted(name for name in found if not name.endswith("defaults"))


def find_mistake(arguments: list[str]) -> str | None:
    """Common slips, recognized before Hydra parses anything."""
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name.startswith("--") and name not in HYDRA_FLAGS:
            key = name.lstrip("-").replace("-", "_")
            following = arguments[index + 1] if index + 1 < len(arguments) else "VALUE"
            return f"{name}: keys are set without dashes; write {key}={value if equals else following}"
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
            preset = any(other.startswith("experiment=") for other in arguments)  # sweeps by itself
            if len(values) > 1 and not {"-m", "--multirun"} & set(arguments) and not preset:
                return f"{argument}: several values make a sweep; add -m: {start()} -m {' '.join(arguments)}"
            if "--config-dir" in arguments or any("searchpath" in a for a in arguments):
                continue  # the user brings choices of their own
            for choice in values:
                if known and choice not in known and choice != "null":
                    return f"{name}={choice}: no such choice; {suggest(choice, list(known))}"
    return None


def suggest(word: str, known: list[str]) -> str:
    """`did you mean ...? choose from: ...`"""
    folded = {re.sub(r"[^a-z0-9]", "", name): name for name in known}
    near = difflib.get_close_matches(re.sub(r"[^a-z0-9]", "", word.lower()), list(folded), n=1)
    hint = f"did you mean {folded[near[0]]}? " if near else ""
    return f"{hint}choose from: {', '.join(known)}"


def one_line(error: Exception) -> str:
    """What went wrong in one line: Hydra's and OmegaConf's messages shortened, others as they are."""
    text = str(error).strip()
    if match := re.search(r"Could not override '([^']+)'", text):
        near = difflib.get_close_matches(match[1], keys(), n=1)
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
    # An error inside a `_target_` comes wrapped by Hydra: the cause is what the user needs.
    cause = error.__cause__
    while cause is not None and type(error).__module__.startswith("hydra"):
        error, cause = cause, cause.__cause__
        text = str(error).strip() or text
    line = " ".join(part.strip() for part in text.splitlines() if part.strip())
    if is_bad_input(error):
        return line
    return f"{type(error).__name__}: {line} (HYDRA_FULL_ERROR=1 shows where)"


EXAMPLES = {
    "norm=layernorm": "train, show the result, leave a run folder",
    "norm=batchnorm model=cnn batch_size=16 lr=0.05 seed=1": "",
    "norm=none monitor=full": "measure everything while it trains",
    "model=gpt data=python_docs max_steps=300": "",
    "model=resnet optimizer=sgd lr=0.1": "keep the model's recipe but for these",
    "-m norm=batchnorm,layernorm batch_size=2,32 seed=0,1,2": "a sweep: the product of all",
    "--cfg job": "print the whole configuration and stop",
}


def help_text() -> str:
    """What `--help` prints."""
    examples = [(f"{command('train')} {arguments}", what) for arguments, what in EXAMPLES.items()]
    examples.append(("tensorboard --logdir outputs", "look at all runs"))
    parts = [
        "normexp: train a network with a norm of your choice and look at what happens.",
        "",
        *(f"  {line:<49}   {what}".rstrip() for line, what in examples),
        "",
        "Choices (group=choice; options of a choice as group.key=value, e.g. model.depth=8):",
    ]
    for group in groups():
        parts.append(f"\n{group}")
        known = choices(group)
        width = max((len(name) for name in known), default=0)
        parts += [f"  {name:<{width}}  {text}" for name, text in known.items()]
    parts.append("\nKeys (key=value):")
    for line in (CONFIGS / "train.yaml").read_text().splitlines():
        if match := re.match(r"(\w+): (.*?)\s*(?:#\s*(.*))?$", line):
            parts.append(f"  {match[1]}={match[2]:<8}  {match[3] or ''}".rstrip())
    return "\n".join(parts)
