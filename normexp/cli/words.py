"""The words of a command: cyclopts reads them by the signature of its function, whose keywords are options. `key=value`
and `--key value` are the same, and every mistake is one line."""

import inspect
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from cyclopts import App, Group, Parameter, validators
from cyclopts import exceptions as mistakes
from cyclopts.config import Dict
from pydantic import ValidationError

from normexp.check.table import table
from normexp.config.errors import first_mistake
from normexp.config.folder import allow_from, listed, use_folder
from normexp.config.options import TWICE, suggest
from normexp.format import uncapitalized
from normexp.sweeps.options import Options

TYPES = {int: "a whole number", float: "a number", bool: "true or false"}


def _parts(kind: Any, tokens: Any) -> tuple[Any, ...]:
    convert = next(iter(get_args(kind)), str)
    return tuple(convert(part) for part in listed(tokens[0].value))


def _whole(_: Any, tokens: Any) -> int:
    """cyclopts would round 2.5."""
    if not re.fullmatch(r"[+-]?\d+", tokens[0].value):
        raise ValueError("must be a whole number")
    return int(tokens[0].value)


HERE = Options()


def within(**bounds: float) -> Parameter:
    """A finite number, or several, between bounds; a word beside numbers, such as `practical`, has none."""
    number = validators.Number(lt=math.inf, **bounds)
    return Parameter(validator=lambda kind, value: None if isinstance(value, str) else number(kind, value))


def at_least(least: int) -> Parameter:
    """A whole number, or with `SEVERAL` behind it several, of at least so much."""
    return Parameter(converter=_whole, validator=validators.Number(gte=least))


POSITIVE, AT_LEAST_0, FINITE = within(gt=0), within(gte=0), within(gt=-math.inf)
SEVERAL = Parameter(converter=_parts, n_tokens=1, json_list=False)  # of a list with commas
Count = Annotated[int, at_least(1)]
Engine = Annotated[Options, Parameter(name="*", group="Where runs are computed")]
Folder = Annotated[str, Parameter(help="your own configurations: norm/mine.yaml, claims/mine.yaml, ...")]
Packages = Annotated[str, Parameter(help="packages of yours whose classes may be built, [mine,other]")]


def _shown(default: Any) -> str | None:
    if isinstance(default, float):
        return f"{default:g}"
    return (",".join(default) if isinstance(default, tuple) else str(default or "")) or None


def app_of(name: str, function: Callable[..., int | None]) -> App:
    """The reader of a command's words, which also prints its help."""
    return App(
        name=f"normexp {name}", default_command=function, help_flags=(), version_flags=(), help_format="markdown",
        group_parameters=Group("Options, as key=value or --key value"),
        default_parameter=Parameter(negative=(), allow_repeating=False, show_default=_shown),
    )  # fmt: skip


def call(name: str, function: Callable[..., int | None], arguments: Sequence[str]) -> int | None:
    """Call a command's function as its words say. A user's packages and folder are used from then on, also in the
    processes that this one starts.

    Raises ValueError with one line for a word that the command does not take.
    """
    parameters = inspect.signature(function).parameters
    keys = [key for key, p in parameters.items() if p.kind is p.KEYWORD_ONLY and key != "engine"]
    if "engine" in parameters:
        keys += Options.model_fields
    waiting, flags = iter(arguments), []
    for word in waiting:
        if word == "--slurm":
            word += f"={next(waiting, '')}"
        flags.append(_as_flag(word, keys))
    app = app_of(name, function)
    if name == "check":
        app.config = _project
    try:
        _, bound, _ = app.parse_args(flags, print_error=False, exit_on_error=False)
    except mistakes.CycloptsError as mistake:
        raise ValueError(_line(mistake, keys)) from None
    if "allow_targets" in keys:
        allow_from([f"allow_targets={bound.arguments.get('allow_targets', '')}"])
    if "config_dir" in keys:
        use_folder(bound.arguments.get("config_dir"))
    return function(*bound.args, **bound.kwargs)


def _project(app: App, commands: tuple[str, ...], arguments: Any) -> None:
    """What the command line does not say, as the project's pyproject.toml says it."""
    rows = {
        key: ",".join(value) if isinstance(value, list) else value for key, value in table(Path.cwd()).items()
    }
    Dict(rows, source="pyproject.toml")(app, commands, arguments)


def _as_flag(word: str, keys: Sequence[str]) -> str:
    key, equals, value = word.partition("=")
    key = key.removeprefix("--").replace("-", "_")
    if not equals or key not in keys:
        return word
    if not value:
        raise ValueError(f"{word}: a value is missing; write {key}=VALUE")
    if key == "slurm":  # a key of it and its value
        return f"--slurm.{value}"
    return f"--{key.replace('_', '-')}={value}"


def _line(mistake: mistakes.CycloptsError, keys: Sequence[str]) -> str:
    """A mistake that cyclopts found: word, value and remedy."""
    if isinstance(mistake.__cause__, ValidationError):
        return first_mistake(mistake.__cause__, Options)
    argument, token = mistake.argument, getattr(mistake, "token", None)
    key = argument.name.removeprefix("--").replace("-", "_") if argument else ""
    if isinstance(mistake, mistakes.UnknownOptionError):
        word = mistake.token.keyword or mistake.token.value
        known = f"{suggest(word, list(keys))}; " if keys else ""
        return f"{word}: no such option; {known}--help explains"
    if isinstance(mistake, mistakes.UnusedCliTokensError):
        word = (mistake.unused_tokens or [""])[0]
        if (key := word.partition("=")[0]) != word:
            return f"{word}: no such key; {suggest(key, list(keys))}; --help explains"
        if "claim" in keys and word not in keys:
            return f"{word}: is a word too many; write claim={word}; --help explains"
        known = f"write key=value with a key of {', '.join(keys)}; " if keys else ""
        return f"{word}: is a word too many; {known}--help explains"
    if isinstance(mistake, mistakes.MissingArgumentError):
        return f"{key}: a value is missing; --help explains"
    if isinstance(mistake, mistakes.RepeatArgumentError):
        word = (mistake.token.keyword or "").removeprefix("--")
        return f"{word}={mistake.token.value}: {TWICE}"
    if argument and (token or argument.tokens):
        value = token.value if token else argument.tokens[-1].value
        message = getattr(mistake, "exception_message", "") or _wanted(argument.hint)
        return f"{key}={value}: {uncapitalized(message).rstrip('.')}"
    return str(mistake)


def _wanted(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"choose from {', '.join(map(str, get_args(kind)))}"
    if kind in TYPES:
        return f"must be {TYPES[kind]}"
    inner = [member for member in get_args(kind) if member not in (type(None), Ellipsis)]
    return " or ".join(map(_wanted, inner)) or "is no value of this key"
