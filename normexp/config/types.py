"""Whether a value of a configuration fits a Python annotation, and how messages describe the annotation."""

import re
import types
from collections.abc import Sequence
from typing import Any, Literal, Union, get_args, get_origin

# They move the cursor or end the line, where names are shown on screens and in tables.
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def is_union(kind: Any) -> bool:
    """Whether a type is written `X | Y`, `Union[X, Y]` or `Optional[X]`."""
    return get_origin(kind) in (Union, types.UnionType)


def fits_type(value: Any, kind: Any) -> bool:
    """Whether a yaml value fits the annotation `kind`. A class that yaml cannot express accepts only its instances; an
    unknown annotation accepts everything."""
    origin = get_origin(kind)
    if is_union(kind):
        return any(fits_type(value, option) for option in get_args(kind))
    if origin is Literal:
        # True == 1 in Python, but not in a configuration
        return any(value == option and type(value) is type(option) for option in get_args(kind))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        options = [option for option in get_args(kind) if option is not Ellipsis]
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        return is_list and all(any(fits_type(v, o) for o in options) for v in value)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind in (bool, str):
        return isinstance(value, kind)
    if kind in (None, type(None)):
        return value is None
    return True if not isinstance(kind, type) else isinstance(value, kind) or kind is object


def describe(kind: Any) -> str:
    """How a message describes the values that fit: `must be a whole number or null`."""
    origin = get_origin(kind)
    if is_union(kind):
        literals = [a for k in get_args(kind) for a in (get_args(k) if get_origin(k) is Literal else ())]
        names = [str(a) for a in literals] + [
            _name(k) for k in get_args(kind) if get_origin(k) is not Literal
        ]
        return f"choose from {', '.join(names)}" if literals else f"must be {' or '.join(names)}"
    if origin is Literal:
        return f"choose from {', '.join(map(str, get_args(kind)))}"
    return f"must be {_name(kind)}"


def _name(kind: Any) -> str:
    if get_origin(kind) is not None:
        examples = {float: "0.5", int: "1", str: "name"}
        return "a list such as [" + ", ".join(examples.get(a, "...") for a in get_args(kind)) + "]"
    names = {
        float: "a number", int: "a whole number", bool: "true or false", str: "text", type(None): "null",
        dict: "a mapping",
    }  # fmt: skip
    return names.get(kind, getattr(kind, "__name__", str(kind)))
