"""Errors in one line with an exit status, unless HYDRA_FULL_ERROR=1. Imports nothing heavy."""

import contextlib
import difflib
import errno
import os
import re
import shlex
import traceback
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, get_args

from normexp.config import process
from normexp.config.folder import brought_hint
from normexp.config.options import OF_TRAINER, keys, no_such_choice
from normexp.format import not_installed, printable

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

# What normexp cannot begin without.
NEEDED = ("hydra", "omegaconf", "torch", "torchvision", "pytorch_lightning", "pydantic", "pandas")
NOTHING_YET = "interrupted before training; nothing was written, and the same command begins again"
# What to do about an error of the system. The name of a folder or file stands before it.
REMEDIES = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "name another, or change who may use it"),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "a file is in the way; name another folder"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room, or name another folder"),
    errno.EISDIR: "is a folder; name a file", errno.ENOENT: "check its spelling",
    errno.ENAMETOOLONG: "choose a shorter name",
}  # fmt: skip
# Types of pydantic's errors -> what a value must be.
MUST = {
    "int_type": "a whole number", "int_parsing": "a whole number", "float_parsing": "a number",
    "bool_parsing": "true or false", "int_from_float": "a whole number", "float_type": "a number",
    "bool_type": "true or false", "string_type": "text", "list_type": "a list such as [a,b]",
    "tuple_type": "a list such as [a,b]", "dict_type": "keys with values", "model_type": "keys with values",
    "model_attributes_type": "keys with values", "none_required": "null", "finite_number": "finite",
    "greater_than_equal": "at least {ge}", "less_than_equal": "at most {le}", "greater_than": "above {gt}",
    "time_delta_parsing": "a time, 02:00:00", "less_than": "below {lt}", "too_short": "a list of at least {min_length}",
    "string_too_short": "a name, not empty", "string_pattern_mismatch": "text, not empty",
}  # fmt: skip
# The names of a union's members in the locations of pydantic's errors.
UNION_MEMBER = re.compile(
    r"(int|float|str|bool|none|dict|list|tuple|nullable)$|.*\[.*\]$|[A-Z]|function-|constrained-"
)


def full_errors() -> bool:
    """Whether the user asked for tracebacks with HYDRA_FULL_ERROR=1."""
    return os.environ.get("HYDRA_FULL_ERROR") == "1"


@contextlib.contextmanager
def one_line_errors(interrupted: str = NOTHING_YET) -> Iterator[None]:
    """Turn an exception into one line and an exit status, unless HYDRA_FULL_ERROR=1.
    `interrupted` is what it says of Ctrl-C."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if full_errors():
            raise
        # During an import, composing or building; training handles Ctrl-C itself.
        if process.was_interrupted(error):
            process.say_and_exit(interrupted, process.INTERRUPTED)
        process.fail(one_line(error), status_of(error))


def status_of(error: BaseException) -> int:
    """The exit status for an error."""
    return process.BAD_INPUT if is_bad_input(error) else process.FAILED


def is_bad_input(error: BaseException) -> bool:
    """Whether the user's input caused the error, not the program."""
    of_hydra = type(error).__module__.startswith(("hydra", "omegaconf"))
    return of_hydra or isinstance(error, ValueError | OSError)


def why(error: Exception) -> str:
    """An error in one line, for work that goes on without what failed; before it the traceback, if the user asked."""
    if full_errors():
        traceback.print_exc()
    return printable(one_line(error))


def checked(model: "type[BaseModel]", values: Any, path: str = "") -> Any:
    """What pydantic makes of values. Raises ValueError with one line for the first mistake; `path` leads to them."""
    from pydantic import ValidationError

    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ValueError(first_mistake(error, model, path)) from None


def first_mistake(error: "ValidationError", model: "type[BaseModel]", path: str = "") -> str:
    """The first mistake that pydantic found: key, value and remedy."""
    mistakes = error.errors(include_url=False)
    first, where = mistakes[0], _key(mistakes[0]["loc"])
    remedies = [_remedy(one, model, path) for one in mistakes if _key(one["loc"]) == where]
    key = f"{path}.{where}".strip(".")
    if not key:  # of a check of all values together, which names its own
        return remedies[0]
    raised = first["type"] == "value_error"  # of a validator
    # A key that is absent or unknown has no value to show; nor have keys that do not fit together.
    if first["type"] in ("extra_forbidden", "missing") or (raised and isinstance(first["input"], dict)):
        return f"{key}: {remedies[0]}"
    shown = str(first["input"]) if raised else repr(first["input"])
    return f"{key}={shown:.80}: {' or '.join(dict.fromkeys(remedies))}"


def _key(location: Iterable[int | str]) -> str:
    """`norms[1].name` of a location, without the names that pydantic gives to the members of a union."""
    parts = [f"[{p}]" if isinstance(p, int) else f".{p}" for p in location if not UNION_MEMBER.match(str(p))]
    return "".join(parts).strip(".")


def _remedy(one: Any, model: "type[BaseModel]", path: str) -> str:
    kind, context = one["type"], one.get("ctx", {})
    if kind == "missing":
        return "is missing; give it a value"
    if kind == "extra_forbidden":
        *above, word = one["loc"]
        known = _keys_at(model, above)
        around = "".join(f"{part}." for part in (path, _key(above)) if part)
        near = difflib.get_close_matches(str(word), known, n=1)
        some = ", ".join([*known[:8], "..."] if len(known) > 8 else known)
        hint = f"did you mean {around}{near[0]}?" if near else f"the keys are: {some}"
        return f"no such key; {hint}"
    if kind == "literal_error":
        return f"choose from {context['expected'].replace(' or ', ', ').replace(chr(39), '')}"
    if kind in MUST:
        return f"must be {MUST[kind].format(**context).removesuffix('.0')}"
    return str(context.get("error", one["msg"]))


def _keys_at(model: Any, location: Iterable[int | str]) -> list[str]:
    """The keys that a model has at a location inside it."""

    def models(kind: Any) -> list[Any]:
        return [kind] if hasattr(kind, "model_fields") else [m for k in get_args(kind) for m in models(k)]

    owners = models(model)
    for part in location:
        fields = [(field.alias or name, field) for m in owners for name, field in m.model_fields.items()]
        owners = [m for name, field in fields if part == name for m in models(field.annotation)] or owners
    return [field.alias or name for owner in owners for name, field in owner.model_fields.items()]


def one_line(error: BaseException) -> str:
    """An error in one line: messages of Hydra and OmegaConf are shortened, others stay."""
    text = str(error).strip()
    if match := re.search(r"Could not override '([^']+)'", text):
        if instead := OF_TRAINER.get(match[1].removeprefix("trainer.")):
            return f"{match[1]}: is given by normexp; write {instead}=VALUE instead"
        near = [key for key in difflib.get_close_matches(match[1], keys(), n=2) if key != match[1]]
        hint = f"did you mean {near[0]}? " if near else ""
        return f"{match[1]}: no such key; {hint}`{process.command('train')} --cfg job` prints all keys"
    if match := re.search(r"Could not (?:find|load) '([^']+)/([^'/]*)'", text):
        group, choice = match[1], match[2]
        hint = brought_hint(group, choice) or no_such_choice(group, choice)
        return f"{group}={choice}: {hint}"
    if match := re.search(r"(?:Ambiguous value for argument|Sweep parameters) '([^']+)'", text):
        command = f"{process.command('train')} -m {shlex.quote(match[1])}"
        return f"{match[1]}: several values make a sweep; add -m: {command}"
    if "does not support sweep type" in text:
        return "a sweep takes values: several with commas, lr=0.001,0.01, or range(...); no interval"
    if "missing EQUAL" in text:
        word = match[1] if (match := re.search(r"override '([^']*)'", text)) else text.splitlines()[0]
        return f"{word}: arguments have the form key=value, for example norm=layernorm"
    override: str = getattr(error, "override", "")  # of Hydra's OverrideParseException
    if override and "override_grammar" in text:
        return (
            f"{override}: cannot be read; write each setting as a word of its own, close quotes and brackets, or quote "
            "the value: \"KEY='VALUE'\""
        )
    # Hydra wraps an error inside a `_target_`. The user needs its cause.
    cause = error.__cause__
    while cause is not None and type(error).__module__.startswith("hydra"):
        error, cause = cause, cause.__cause__
        text = str(error).strip() or text
    line = " ".join(part.strip() for part in text.splitlines() if part.strip())
    if isinstance(error, OSError) and error.strerror:
        remedy = f"; {REMEDIES[error.errno]}" if error.errno in REMEDIES else ""
        return f"{error.filename or 'standard output'}: {error.strerror}{remedy}"
    if is_bad_input(error):
        return line
    if isinstance(error, ModuleNotFoundError) and error.name in NEEDED:
        return not_installed(error.name)
    return f"{type(error).__name__}: {line} (HYDRA_FULL_ERROR=1 shows where)"
