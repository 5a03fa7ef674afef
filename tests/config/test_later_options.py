"""Options that classes got after their first runs: at their old values they change no identity and no table."""

import copy
import inspect
import json
from pathlib import Path

import pytest

from normexp.config.compose import compose
from normexp.config.construct import resolve_target
from normexp.config.identity import (
    LATER_OPTIONS,
    choice_of,
    config_hash,
    with_later_options,
    without_later_options,
)
from normexp.config.run_spec import resolved
from normexp.config.settings import decay_of
from normexp.runs.columns import flatten

IDENTITIES = json.loads(Path(__file__).with_name("identities.json").read_text())
WITH_LATER = [row for row in IDENTITIES if row["config"]["model"]["_target_"] in LATER_OPTIONS]


@pytest.mark.parametrize("target", [name for name in LATER_OPTIONS if name.startswith("normexp.")])
def test_old_value_of_a_later_option_is_the_default_of_its_class(target):
    """A run from before there was the option was computed with the default."""
    parameters = inspect.signature(resolve_target(target.split(".")[1].rstrip("s"), target)).parameters
    assert {name: parameters[name].default for name in LATER_OPTIONS[target]} == LATER_OPTIONS[target]


def test_old_optimizers_decay_what_a_missing_key_decays():
    """The key is normexp's own; no class of torch takes it."""
    asked = [options for name, options in LATER_OPTIONS.items() if name.startswith("torch.optim.")]
    assert asked == [{"decay": decay_of({})}] * len(asked)


@pytest.mark.parametrize("row", WITH_LATER, ids=lambda row: " ".join(row["overrides"]))
def test_old_configuration_has_its_identity_with_and_without_later_options(row):
    config = copy.deepcopy(row["config"])
    assert config_hash(config, row["fingerprint"]) == row["hash"]
    config["model"] = with_later_options(config["model"])
    assert config_hash(config, row["fingerprint"]) == row["hash"]


def test_there_are_old_configurations_of_classes_with_later_options():
    assert WITH_LATER


@pytest.mark.parametrize("option", LATER_OPTIONS["normexp.models.GPT"])
def test_another_value_is_another_run(option):
    config = resolved(compose(["model=gpt", "data=python_docs"])[0])
    other = copy.deepcopy(config)
    other["model"][option] = "another"
    assert config_hash(other) != config_hash(config)


def test_table_reads_an_old_run_as_one_with_the_old_values():
    (model,) = {
        json.dumps(row["config"]["model"]) for row in WITH_LATER if "GPT" in str(row["config"]["model"])
    }
    summary = {
        "choices": {}, "config": {"model": json.loads(model)}, "status": "completed", "hash": "", "metrics": {},
        "convergence": {}, "execution": {}, "versions": {}, "fingerprint": "", "steps": 0, "epochs": 0, "seconds": 0,
        "parameters": 0, "command": "", "finished": "",
    }  # fmt: skip
    row = flatten(summary, "run")
    assert {name: row[f"model.{name}"] for name in LATER_OPTIONS["normexp.models.GPT"]} == LATER_OPTIONS[
        "normexp.models.GPT"
    ]


def test_node_of_an_old_run_comes_from_the_choice_that_has_the_later_options():
    node = resolved(compose(["model=gpt", "data=python_docs"])[0])["model"]
    assert choice_of("model", node) == choice_of("model", without_later_options(node)) == "gpt"
    assert choice_of("model", {**node, "position": "rope"}) == "own"
