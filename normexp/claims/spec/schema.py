"""JSON schemas of the files of claims and banks, from the dataclasses that they become, so that editors complete them.

`python -m normexp.claims.spec.schema` writes them beside this file; a test holds them to it.
"""

import inspect
import json
import re
import types
import typing
from dataclasses import fields
from pathlib import Path
from typing import Any

from normexp.claims.judge.comparison import Comparison
from normexp.claims.spec.bank import CELL_KEYS, FACTS, BankCell
from normexp.claims.spec.claim import EVIDENCE, Claim
from normexp.claims.spec.claim_checks import CLAIM, COMPARISON, KINDS, RATES
from normexp.claims.spec.claim_files import NEEDED

FOLDER = Path(__file__).parent
DIALECT = "https://json-schema.org/draft/2020-12/schema"
PLAIN = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    tuple: "array",
    dict: "object",
}
TEXTS = {"type": "array", "items": {"type": "string"}}
# What a file may hold where the dataclass holds what was made of it.
WIDER: dict[str, dict[str, Any]] = {
    "evidence": {"enum": list(EVIDENCE)},
    "kind": {"enum": list(KINDS)},
    "rate": {"enum": list(RATES)},
    "better": {"enum": ["lower", "higher", None]},
    "settings": {"type": ["array", "object", "null"]},
    "manipulation": {"type": ["object", "null"]},
    "comparison": {
        "anyOf": [{"$ref": "#/$defs/comparison"}, {"type": "array", "items": {"$ref": "#/$defs/comparison"}}]
    },
}


def typed(hint: Any) -> dict[str, Any]:
    """The schema of a type: plain types, their containers, Literal and unions. {} allows anything."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"enum": list(inner)}
    if origin in (typing.Union, types.UnionType):
        parts = [{"type": "null"} if part is type(None) else typed(part) for part in inner]
        return {} if {} in parts else {"anyOf": parts}
    if (origin or hint) in (list, tuple):
        items = typed(inner[0]) if inner else {}
        return {"type": "array", **({"items": items} if items else {})}
    if isinstance(origin or hint, type) and issubclass(origin or hint, typing.Mapping):
        return {"type": "object"}
    return {"type": PLAIN[hint]} if hint in PLAIN else {}


def described(of: type) -> dict[str, str]:
    """The text of each attribute in a class's docstring."""
    text = inspect.cleandoc(of.__doc__ or "").partition("Attributes:")[2]
    found: dict[str, str] = {}
    for names, words in re.findall(r"^    (\w[\w, ]*): (.*(?:\n {8,}.*)*)", text, re.MULTILINE):
        found |= dict.fromkeys(names.split(", "), " ".join(words.split()))
    return found


def properties(of: type, keys: typing.Iterable[str], more: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The keys of a file as properties, with the type and the text of the dataclass's field of that name."""
    hints, words = typing.get_type_hints(of), described(of)
    known = {field.name for field in fields(of)}  # type: ignore[arg-type]
    found: dict[str, Any] = {}
    for key in keys:
        shape = more[key] if key in more else typed(hints[key]) if key in known else {}
        found[key] = {**shape, **({"description": words[key]} if key in words else {})}
    return found


def claim_schema() -> dict[str, Any]:
    """The schema of a claim's yaml."""
    own = properties(Claim, CLAIM, WIDER)
    for key, (_, wanted) in CLAIM.items():
        own[key].setdefault("description", f"must be {wanted}")
    comparison = {
        "type": "object",
        "properties": properties(Comparison, COMPARISON, {}),
        "required": ["kind"],
        "additionalProperties": False,
    }
    return {
        "$schema": DIALECT, "title": "A claim of normexp", "type": "object", "properties": own,
        "required": list(NEEDED), "additionalProperties": False, "$defs": {"comparison": comparison},
    }  # fmt: skip


def bank_schema() -> dict[str, Any]:
    """The schema of a bank's yaml: cells by name, or strata from which settings are drawn."""
    facts = {"type": "object", "properties": {name: {"type": "number"} for name in FACTS}}
    rates = {"type": "array", "items": {"type": "number"}, "minItems": 3}
    keyed = {
        "type": "object",
        "properties": properties(BankCell, CELL_KEYS, {"overrides": TEXTS, "facts": facts, "rates": rates}),
        "required": ["overrides"],
        "additionalProperties": False,
    }
    cells = {"type": "object", "minProperties": 1, "additionalProperties": {"anyOf": [TEXTS, keyed]}}
    grid = {"type": "object", "properties": {"norms": TEXTS, "seeds": {"type": "integer"}, "cells": TEXTS}}
    return {
        "$schema": DIALECT, "title": "A bank of normexp", "type": "object",
        "properties": {"shared": TEXTS, "cells": cells, "grid": grid, "strata": {"type": "object"}},
        "anyOf": [{"required": ["cells"]}, {"required": ["strata"]}],
    }  # fmt: skip


SCHEMAS = {"claim.schema.json": claim_schema, "bank.schema.json": bank_schema}

if __name__ == "__main__":
    for name, make in SCHEMAS.items():
        (FOLDER / name).write_text(json.dumps(make(), indent=1) + "\n")
