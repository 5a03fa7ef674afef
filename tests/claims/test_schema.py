"""The JSON schemas in the package: made from the dataclasses, and true of every file of the project."""

import json

import pytest
import yaml

from normexp.claims.spec import shape
from normexp.claims.spec.claim_checks import CLAIM
from normexp.claims.spec.schema import FOLDER, SCHEMAS
from normexp.config.folder import CONFIGS

KINDS = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "array": list,
    "object": dict,
    "null": type(None),
}


def fits(value, schema, root):
    """Whether a value fits a schema: the few words of JSON schema that these use."""
    if "$ref" in schema:
        return fits(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "anyOf" in schema and not any(fits(value, part, root) for part in schema["anyOf"]):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    names = schema.get("type", [])
    names = [names] if isinstance(names, str) else names
    wrong = [
        (isinstance(value, bool) and name != "boolean") or not isinstance(value, KINDS[name])
        for name in names
    ]
    if names and all(wrong):
        return False
    if isinstance(value, list) and "items" in schema:
        return all(fits(item, schema["items"], root) for item in value)
    if not isinstance(value, dict):
        return True
    own, more = schema.get("properties", {}), schema.get("additionalProperties", True)
    if not set(schema.get("required", [])) <= set(value):
        return False
    rest = [item for key, item in value.items() if key not in own]
    if (more is False and rest) or (
        isinstance(more, dict) and not all(fits(item, more, root) for item in rest)
    ):
        return False
    return all(fits(value[key], shape, root) for key, shape in own.items() if key in value)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_file_in_the_package_is_what_the_dataclasses_say(name):
    assert json.loads((FOLDER / name).read_text()) == SCHEMAS[name](), "python -m normexp.claims.spec.schema"


@pytest.mark.parametrize(("name", "group"), [("claim.schema.json", "claims"), ("bank.schema.json", "banks")])
def test_every_file_of_the_project_fits(name, group):
    schema = SCHEMAS[name]()
    paths = sorted((CONFIGS / group).glob("*.yaml"))
    assert len(paths) > 2
    for path in paths:
        for node in yaml.safe_load_all(path.read_text()):
            assert fits(node, schema, schema), path


@pytest.mark.parametrize(
    "wrong", [{"seed": 3}, {"seeds": "five"}, {"rate": "best"}, {"comparison": {"kind": "bigger"}}]
)
def test_a_mistake_does_not_fit(wrong):
    schema = SCHEMAS["claim.schema.json"]()
    node = {"name": "a", "sentence": "b", "source": "c", "covers": ["d"], "evidence": "training"}
    assert fits(node, schema, schema)
    assert not fits(node | wrong, schema, schema)


@pytest.mark.parametrize("key", CLAIM["properties"])
def test_what_is_checked_is_what_editors_are_told(key):
    """Two readers of one shape: the check of a file, and the plain reading of the schema above."""
    schema = SCHEMAS["claim.schema.json"]()
    values = [
        None,
        3,
        0.5,
        True,
        "x",
        [1],
        ["a"],
        {"a": 1},
        {"a": ["b"]},
        [{"a": ["b=c"]}],
        {"low": 1, "high": 2},
    ]
    for value in values:
        told = fits(value, schema["properties"][key], schema)
        assert told == shape.fits(value, CLAIM["properties"][key]) or key == "comparison", value


def test_keys_explain_themselves():
    own = SCHEMAS["claim.schema.json"]()["properties"]
    assert all(one["description"] for one in own.values())
    assert "falls" not in own["first_seed"]["description"]
    assert own["seeds"]["type"] == "integer"
