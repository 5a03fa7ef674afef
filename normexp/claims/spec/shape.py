"""The form of what the files of claims and banks hold, as JSON schemas: checked here, and completed by editors.

Beside the keys of JSON schema, a shape may have `wanted`, the words behind a value that does not fit. A mapping without
it is checked key by key, so that the first mistake inside it is named. Texts are not empty, and numbers are finite.
"""

import math
from collections.abc import Callable
from typing import Any

Shape = dict[str, Any]
FITS: dict[str, Callable[[Any], bool]] = {
    "string": lambda x: isinstance(x, str) and bool(x.strip()),
    "boolean": lambda x: isinstance(x, bool),
    "integer": lambda x: isinstance(x, int) and not isinstance(x, bool),
    "number": lambda x: isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x),
    "array": lambda x: isinstance(x, list),
    "object": lambda x: isinstance(x, dict) and all(map(FITS["string"], x)),
    "null": lambda x: x is None,
}


def fits(x: Any, shape: Shape) -> bool:
    """Whether a value has a shape. {} allows anything."""
    if "anyOf" in shape:
        return any(fits(x, option) for option in shape["anyOf"])
    if "enum" in shape:
        return x in shape["enum"]
    kind = shape.get("type")
    if kind is None or not FITS[kind](x):
        return kind is None
    if kind == "object":
        properties, more = shape.get("properties", {}), shape.get("additionalProperties", {})
        parts = {key: properties.get(key, more) for key in x}
        keys_fit = parts.keys() >= set(shape.get("required", ())) and False not in parts.values()
        return keys_fit and len(x) >= shape.get("minProperties", 0) and all(fits(x[k], parts[k]) for k in x)
    if kind == "array":
        return len(x) >= shape.get("minItems", 0) and all(fits(item, shape.get("items", {})) for item in x)
    if kind in ("integer", "number"):
        return x >= shape.get("minimum", -math.inf) and x > shape.get("exclusiveMinimum", -math.inf)
    return True


def check(node: Any, shape: Shape, where: str, key: str = "") -> None:
    """Raise ValueError with one line, which begins with `where`, for the first mistake: a key that is missing or
    unknown, or a value that does not fit."""
    if "anyOf" in shape and "wanted" not in shape:
        parts = shape["anyOf"]
        shape = next((option for option in parts if FITS[option["type"]](node)), parts[0])
    value = f"{where}{key}{'=' * bool(key)}{shorten(node)}"
    if shape.get("type") != "object" or "wanted" in shape:
        if not fits(node, shape):
            names = ", ".join(filter(None, shape.get("enum", ())))
            raise ValueError(f"{value}: {shape.get('wanted') or f'choose from {names}'}")
        return
    properties, more = shape.get("properties", {}), shape.get("additionalProperties", {})
    if not FITS["object"](node) or len(node) < shape.get("minProperties", 0):
        keys = f"the keys {', '.join(properties)}" if properties else "names with values"
        raise ValueError(f"{value}: must be {shape.get('title', keys)}")
    inside = {name: f"{key}.{name}" if key else name for name in (*shape.get("required", ()), *node)}
    for name, place in inside.items():
        if name not in node:
            raise ValueError(f"{where}{place}: is missing; add it")
        if properties.get(name, more) is False:
            raise ValueError(f"{where}{place}: no such key; the keys are {', '.join(properties)}")
    for name, item in node.items():
        check(item, properties.get(name, more), where, inside[name])


def shorten(value: Any) -> str:
    """A value on one line, of at most 60 characters."""
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def optional(shape: Shape) -> Shape:
    """The same, or None."""
    wording = {"wanted": shape["wanted"]} if "wanted" in shape else {}
    return {"anyOf": [shape, {"type": "null"}], **wording}


def keyed(properties: dict[str, Shape], required: str = "", **more: Any) -> Shape:
    """A mapping with these keys and no others. `required`: the names of those that it must have, in one text."""
    mapping = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**mapping, **({"required": required.split()} if required else {}), **more}


def mapping_of(shape: Shape, **more: Any) -> Shape:
    """A mapping of names to values of one shape."""
    return {"type": "object", "additionalProperties": shape, **more}


def listed(shape: Shape, **more: Any) -> Shape:
    """A list of values of one shape."""
    return {"type": "array", "items": shape, **more}


ANY: Shape = {}
TEXT: Shape = {
    "type": "string",
    "wanted": "must be text; quote it if it looks like a number, a list or yes and no",
}
TEXTS = listed(TEXT, wanted="must be a list of texts")
SWITCH: Shape = {"type": "boolean", "wanted": "must be true or false"}
OBJECT: Shape = {"type": "object"}
POSITIVE: Shape = {"type": "number", "exclusiveMinimum": 0, "wanted": "must be a positive number"}
WHOLE: Shape = {"type": "integer", "minimum": 1, "wanted": "must be a whole number of at least 1"}
