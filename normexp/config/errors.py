"""Errors in one line with an exit status, unless HYDRA_FULL_ERROR=1. Imports nothing heavy."""

import contextlib
import difflib
import os
import re
import shlex
import traceback
from collections.abc import Iterator

from normexp.config.folder import brought_hint
from normexp.config.options import GROUPS, choices, keys, suggest
from normexp.config.process import (
    BAD_INPUT,
    FAILED,
    INTERRUPTED,
    command,
    fail,
    note_interrupt,
    say_and_exit,
)

TAKE_SHAPE = (
    "than it gets: let the class take input_shape, which a run gives it, or choose data= with such images"
)
# What torch says where a network does not fit its images, and what to do then.
MISFITS = {
    r"utput size is too small|ernel size can't be greater than actual input|should be less than.*input dim":
        "the images are too small for this network: data=cifar10 has larger ones",
    r"nvalid channel dimensions|to have \d+ channels, but got":
        f"a convolution takes other channels (digits and MNIST have 1, CIFAR-10 3) {TAKE_SHAPE}",
    r"same reduction dim|shapes cannot be multiplied":
        f"a linear layer takes another number of features {TAKE_SHAPE}",
}  # fmt: skip
# Hydra's own launchers that are packages, and the extras that bring them.
LAUNCHERS = {"joblib": "joblib", "submitit_local": "submitit", "submitit_slurm": "submitit"}


def full_errors() -> bool:
    """Whether the user asked for tracebacks with HYDRA_FULL_ERROR=1."""
    return os.environ.get("HYDRA_FULL_ERROR") == "1" and "NORMEXP_ONE_LINE" not in os.environ


@contextlib.contextmanager
def one_line_errors(interrupted: str = "interrupted before training; nothing was written") -> Iterator[None]:
    """Turn an exception into one line and an exit status, unless HYDRA_FULL_ERROR=1.
    `interrupted` is what it says of Ctrl-C."""
    with note_interrupt() as interrupt:
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:
            if full_errors():
                raise
            # Training handles Ctrl-C itself. This one came during an import, composing or building.
            early = interrupt.came and not getattr(error, "in_training", False)
            if early or isinstance(error, KeyboardInterrupt):
                say_and_exit(interrupted, INTERRUPTED)
            fail(one_line(error), BAD_INPUT if is_bad_input(error) else FAILED)


def is_bad_input(error: BaseException) -> bool:
    """Whether the user's input caused the error, not the program."""
    return isinstance(error, ValueError) or type(error).__module__.startswith(("hydra", "omegaconf"))


def why(error: Exception) -> str:
    """An error in one line, after its traceback if the user asked for it: of one of several things, of which the others
    go on."""
    if full_errors():
        traceback.print_exc()
    return one_line(error)


def one_line(error: BaseException) -> str:
    """An error in one line: messages of Hydra and OmegaConf are shortened, others stay."""
    text = str(error).strip()
    if isinstance(error, MemoryError):
        return f"out of memory ({text or 'MemoryError'}): this process may take no more; raise its limit (ulimit -v)"
    if match := re.search(r"Could not override '([^']+)'", text):
        near = [key for key in difflib.get_close_matches(match[1], keys(), n=2) if key != match[1]]
        hint = f"did you mean {near[0]}? " if near else ""
        if match[1].startswith("trainer."):
            hint += f"other options of Lightning's Trainer take a plus, +{match[1]}=...; "
        return f"{match[1]}: no such key; {hint}`{command('train')} --cfg job` prints all keys"
    if match := re.search(
        r"Could not find '([^']+)/([^'/]+)'\s+Available options in '[^']+':\s+((?:\S+\s*)*?)Config search",
        text,
    ):
        if match[1] == "hydra/launcher" and match[2] in LAUNCHERS:
            return f'{match[1]}={match[2]}: needs a package; pip install "normexp[{LAUNCHERS[match[2]]}]"'
        hint = brought_hint(match[1], match[2]) or f"no such choice; {suggest(match[2], match[3].split())}"
        return f"{match[1]}={match[2]}: {hint}"
    if match := re.search(r"Ambiguous value for argument '([^']+)'", text):
        return f"{match[1]}: several values make a sweep; add -m: {command('train')} -m {match[1]}"
    if "missing EQUAL" in text:
        word = match[1] if (match := re.search(r"override '([^']*)'", text)) else text.splitlines()[0]
        if word in GROUPS:
            return f"{word}: a value is missing; write {word}=VALUE, VALUE one of {', '.join(choices(word))}"
        return f"{word}: arguments have the form key=value, for example norm=layernorm"
    override: str = getattr(error, "override", "")  # of Hydra's OverrideParseException
    if len(words := override.split()) > 1 and all("=" in word for word in words):
        return f"{override}: {len(words)} settings in one word; write each as its own: {shlex.join(words)}"
    if override and "override_grammar" in text:
        said = re.sub(r"\s*See https.*", "", text, flags=re.DOTALL)
        if match := re.search(r"while evaluating '.*?': (.*)", said, re.DOTALL):  # in a function of Hydra
            return f"{override}: {'; '.join(match[1].splitlines())}"
        return f"{override}: Hydra cannot read this; close its quotes and brackets, or quote the value: \"KEY='VALUE'\""
    # Hydra wraps an error inside a `_target_`. The user needs its cause.
    cause = error.__cause__
    while cause is not None and type(error).__module__.startswith("hydra"):
        error, cause = cause, cause.__cause__
        text = str(error).strip() or text
    line = " ".join(part.strip() for part in text.splitlines() if part.strip())
    if remedy := next((words for said, words in MISFITS.items() if re.search(said, line)), None):
        line = f"{line.replace('refuses its options', 'cannot take these images').rstrip('.')}; {remedy}"
    if is_bad_input(error):
        return line
    return f"{type(error).__name__}: {line} (HYDRA_FULL_ERROR=1 shows where)"
