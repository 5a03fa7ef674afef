"""Errors in one line with an exit status, unless HYDRA_FULL_ERROR=1. Imports nothing heavy."""

import contextlib
import difflib
import os
import re
import shlex
import traceback
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from normexp.config.folder import brought_hint
from normexp.config.options import GROUPS, choices, keys, suggest
from normexp.config.process import (
    BAD_INPUT,
    FAILED,
    INTERRUPTED,
    command,
    fail,
    say_and_exit,
    was_interrupted,
)
from normexp.format import printable

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

# Hydra's own launchers that are packages, and the extras that bring them.
LAUNCHERS = {"joblib": "joblib", "submitit_local": "submitit", "submitit_slurm": "submitit"}
# Types of pydantic's errors -> what a value must be.
MUST = {
    "int_type": "a whole number", "int_from_float": "a whole number", "float_type": "a number",
    "bool_type": "true or false", "string_type": "text", "list_type": "a list such as [a,b]",
    "tuple_type": "a list such as [a,b]", "dict_type": "keys with values", "model_type": "keys with values",
    "model_attributes_type": "keys with values", "none_required": "null", "finite_number": "finite",
    "greater_than_equal": "at least {ge}", "less_than_equal": "at most {le}", "greater_than": "above {gt}",
    "less_than": "below {lt}", "too_short": "a list of at least {min_length}",
}  # fmt: skip
BRANCH = re.compile(
    r"(int|float|str|bool|none|dict|list|tuple|nullable)$|.*\[.*\]$|[A-Z]|function-"
)  # of a union


def full_errors() -> bool:
    """Whether the user asked for tracebacks with HYDRA_FULL_ERROR=1."""
    return os.environ.get("HYDRA_FULL_ERROR") == "1" and "NORMEXP_ONE_LINE" not in os.environ


@contextlib.contextmanager
def one_line_errors(interrupted: str = "interrupted before training; nothing was written") -> Iterator[None]:
    """Turn an exception into one line and an exit status, unless HYDRA_FULL_ERROR=1.
    `interrupted` is what it says of Ctrl-C."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if full_errors():
            raise
        if was_interrupted(error):  # during an import, composing or building; training handles Ctrl-C itself
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
    return printable(one_line(error))


def checked(model: "type[BaseModel]", values: Any, path: str = "") -> Any:
    """What pydantic makes of values. Raises ValueError with one line for the first mistake; `path` leads to them."""
    from pydantic import ValidationError

    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ValueError(of_validation(error, model, path)) from None


def of_validation(error: "ValidationError", model: "type[BaseModel] | None" = None, path: str = "") -> str:
    """The first mistake that pydantic found: key, value and remedy.

    Args:
        model: whose keys are suggested for one that is misspelt.
        path: of the validated values.
    """
    found = error.errors(include_url=False)
    where, told = _key(found[0]["loc"]), []
    for one in found:
        if _key(one["loc"]) == where:
            told.append(_remedy(one, model, path))
    key = f"{path}.{where}".strip(".")
    if found[0]["type"] in ("extra_forbidden", "missing"):
        remedy = told[0].replace("VALUE", f"{key}=VALUE")
        return f"{key}: {remedy}" if key else remedy
    if not key:  # of a check of all values together, which names its own
        return told[0]
    value = found[0]["input"]
    if isinstance(value, dict) and found[0]["type"] == "value_error":  # of keys that do not belong together
        return f"{key}: {told[0]}".removeprefix(": ")
    shown = str(value) if found[0]["type"] == "value_error" else repr(value)
    return f"{key}={shown:.80}: {' or '.join(dict.fromkeys(told))}"


def _key(place: Iterable[int | str]) -> str:
    """`norms[1].name` of a place, without the names that pydantic gives to the members of a union."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        elif not BRANCH.match(part):
            text += f".{part}"
    return text.strip(".")


def _remedy(one: Any, model: "type[BaseModel] | None", path: str) -> str:
    kind, context = one["type"], one.get("ctx", {})
    if kind == "missing":
        return "is missing; add VALUE"
    if kind == "extra_forbidden":
        *above, word = one["loc"]
        known = _keys_at(model, above)
        around = "".join(f"{part}." for part in (path, _key(above)) if part)
        near = difflib.get_close_matches(str(word), known, n=1)
        hint = f"did you mean {around}{near[0]}?" if near else f"the keys are: {', '.join(known)}"
        return f"no such key; {hint}"
    if kind == "literal_error":
        return f"choose from {context['expected'].replace(' or ', ', ').replace(chr(39), '')}"
    if kind in MUST:
        return f"must be {MUST[kind].format(**context).removesuffix('.0')}"
    return str(context.get("error", one["msg"]))


def _keys_at(model: Any, place: Iterable[int | str]) -> list[str]:
    """The keys that a model has at a place inside it."""
    from typing import get_args

    def models(kind: Any) -> list[Any]:
        return [kind] if hasattr(kind, "model_fields") else [m for own in get_args(kind) for m in models(own)]

    found = models(model) if model else []
    for part in place:
        fields = [(name, field) for own in found for name, field in own.model_fields.items()]
        inner = [field.annotation for name, field in fields if part == (field.alias or name)]
        found = [own for kind in inner for own in models(kind)] or found
    return [field.alias or name for own in found for name, field in own.model_fields.items()]


def one_line(error: BaseException) -> str:
    """An error in one line: messages of Hydra, OmegaConf and pydantic are shortened, others stay."""
    if hasattr(error, "errors") and type(error).__module__.startswith("pydantic"):
        return of_validation(error)  # type: ignore[arg-type]
    text = str(error).strip()
    if isinstance(error, MemoryError):
        return f"out of memory ({text or 'MemoryError'}): this process may take no more; raise its limit (ulimit -v)"
    if match := re.search(r"Could not override '([^']+)'", text):
        near = [key for key in difflib.get_close_matches(match[1], keys(), n=2) if key != match[1]]
        hint = f"did you mean {near[0]}? " if near else ""
        if match[1].startswith("trainer."):
            hint += f"other options of Lightning's Trainer take a plus, +{match[1]}=...; "
        return f"{match[1]}: no such key; {hint}`{command('train')} --cfg job` prints all keys"
    if match := re.search(r"Could not (?:find|load) '([^']+)/([^'/]*)'", text):
        group, choice = match[1], match[2]
        if group == "hydra/launcher" and choice in LAUNCHERS:
            return f'{group}={choice}: needs a package; pip install "normexp[{LAUNCHERS[choice]}]"'
        offered = re.search(r"Available options in .*?:\s+((?:\S+\s*)*?)Config s", text)
        names = offered[1].split() if offered else list(choices(group))
        hint = brought_hint(group, choice) or f"no such choice; {suggest(choice, names)}"
        return f"{group}={choice}: {hint}"
    if match := re.search(r"Ambiguous value for argument '([^']+)'", text):
        return f"{match[1]}: several values make a sweep; add -m: {command('train')} -m {match[1]}"
    if "missing EQUAL" in text:
        word = match[1] if (match := re.search(r"override '([^']*)'", text)) else text.splitlines()[0]
        if word in GROUPS:
            return f"{word}: a value is missing; write {word}=VALUE; {suggest('', list(choices(word)))}"
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
    if is_bad_input(error):
        return line
    return f"{type(error).__name__}: {line} (HYDRA_FULL_ERROR=1 shows where)"
