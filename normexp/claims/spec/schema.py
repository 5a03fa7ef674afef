"""JSON schemas of the files of claims and banks, so that editors complete them: the shapes by which the files are
checked, with the text of each key from the dataclass that they become.

`python -m normexp.claims.spec.schema` writes them beside this file; a test holds them to it.
"""

import inspect
import json
import re
from pathlib import Path
from typing import Any

from normexp.claims.spec.bank import BANK
from normexp.claims.spec.cell import CELL, BankCell
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_checks import CLAIM, COMPARISON
from normexp.claims.spec.shape import Shape, listed

FOLDER = Path(__file__).parent
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def described(of: type) -> dict[str, str]:
    """The text of each attribute in a class's docstring."""
    text = inspect.cleandoc(of.__doc__ or "").partition("Attributes:")[2]
    texts: dict[str, str] = {}
    for names, words in re.findall(r"^    (\w[\w, ]*): (.*(?:\n {8,}.*)*)", text, re.MULTILINE):
        texts |= dict.fromkeys(names.split(", "), " ".join(words.split()))
    return texts


def explained(shape: Shape, of: type) -> Shape:
    """The shape of a mapping, each key with its text in the docstring of a class, or else what it wants."""
    words = described(of)
    properties = {}
    for key, property_shape in shape["properties"].items():
        text = words.get(key) or property_shape.get("wanted")
        properties[key] = {**property_shape, **({"description": text} if text else {})}
    return {**shape, "properties": properties}


def plain(node: Any) -> Any:
    """A shape in the words of JSON schema alone."""
    if isinstance(node, dict):
        return {key: plain(value) for key, value in node.items() if key != "wanted"}
    return [plain(item) for item in node] if isinstance(node, list) else node


def claim_schema() -> dict[str, Any]:
    """The schema of a claim's yaml."""
    comparison = {**COMPARISON, "required": ["kind"]}
    properties = {
        **CLAIM["properties"],
        "comparison": {"anyOf": [comparison, listed(comparison)], "wanted": "see `kind`"},
    }
    shape = explained({**CLAIM, "properties": properties}, Claim)
    return plain({"$schema": DIALECT, "title": "A claim of normexp", **shape})


def bank_schema() -> dict[str, Any]:
    """The schema of a bank's yaml: cells by name, or strata from which settings are drawn."""
    cells = {**BANK["properties"]["cells"]}
    cells["additionalProperties"] = {
        "anyOf": [*cells["additionalProperties"]["anyOf"][1:], explained(CELL, BankCell)]
    }
    return plain({
        "$schema": DIALECT, "title": "A bank of normexp", "type": "object",
        "properties": {**BANK["properties"], "cells": cells, "strata": {"type": "object"}},
        "anyOf": [{"required": ["cells"]}, {"required": ["strata"]}],
    })  # fmt: skip


SCHEMAS = {"claim.schema.json": claim_schema, "bank.schema.json": bank_schema}

if __name__ == "__main__":
    for name, make in SCHEMAS.items():
        (FOLDER / name).write_text(json.dumps(make(), indent=1) + "\n")
