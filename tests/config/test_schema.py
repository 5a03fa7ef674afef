"""The schema of the root, train.yaml, and the lists that others read from the schema."""

import inspect
import re

import pytest
import yaml

from normexp.config.compose import compose, plain_values
from normexp.config.folder import CONFIGS
from normexp.config.schema import GROUPS, NOT_IDENTITY, Root
from normexp.config.targets import resolve_target

TRAIN = yaml.safe_load((CONFIGS / "train.yaml").read_text())


def test_train_yaml_holds_each_key_of_the_root_in_one_sentence_and_no_other():
    keys = Root.model_fields.keys() - GROUPS
    assert TRAIN.keys() - {"defaults", "hydra"} == keys
    for key in keys:
        assert re.search(rf"^{key}: .*# \w", (CONFIGS / "train.yaml").read_text(), re.M), key


def test_defaults_list_of_train_yaml_holds_each_group_and_no_other():
    chosen = [key for item in TRAIN["defaults"] if isinstance(item, dict) for key in item]
    assert {key for key in chosen if " " not in key} == {*GROUPS, "recipe"}


def test_a_default_of_the_schema_is_that_of_train_yaml():
    config = plain_values(compose([])[0])
    for key, field in Root.model_fields.items():
        assert field.is_required() or config[key] == field.default, key


def test_the_schema_serves_editors():
    schema = Root.model_json_schema()
    assert schema["properties"]["batch_size"] == {"minimum": 1, "title": "Batch Size", "type": "integer"}
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("key", sorted(key for key in NOT_IDENTITY if "." in key))
def test_option_outside_the_identity_is_one_that_some_choice_of_its_group_takes(key):
    group, _, option = key.partition(".")
    nodes = [yaml.safe_load(path.read_text()) for path in (CONFIGS / group).glob("*.yaml")]
    targets = {node["_target_"] for node in nodes if "_target_" in node}
    assert any(option in inspect.signature(resolve_target(group, name)).parameters for name in targets)
