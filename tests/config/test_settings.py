"""The one table of settings, train.yaml, and the lists that others read from the table."""

import inspect
import re
import subprocess
import sys

import pytest
import yaml

from normexp.config.compose import compose
from normexp.config.construct import resolve_target
from normexp.config.folder import CONFIGS
from normexp.config.run_spec import resolved
from normexp.config.settings import GROUPS, NOT_IDENTITY, RECORDED, ROOT, SETTINGS, fits_type, shown

TRAIN = yaml.safe_load((CONFIGS / "train.yaml").read_text())


def test_train_yaml_holds_each_setting_of_the_root_in_one_sentence_and_no_other():
    assert TRAIN.keys() - {"defaults", "hydra"} == {setting.key for setting in ROOT}
    for setting in ROOT:
        assert re.search(rf"^{setting.key}: .*# \w", (CONFIGS / "train.yaml").read_text(), re.M), setting.key


def test_defaults_list_of_train_yaml_holds_each_group_and_no_other():
    chosen = [key for item in TRAIN["defaults"] if isinstance(item, dict) for key in item]
    assert {key for key in chosen if " " not in key} == {*GROUPS, "recipe"}
    assert "optional experiment" in chosen


def test_each_default_fits_its_setting():
    config = resolved(compose([])[0])
    for setting in ROOT:
        value = config[setting.key]
        assert fits_type(value, setting.kind), setting.key
        assert value is None or setting.least is None or setting.least <= value <= (setting.most or value)


def test_each_key_stands_once():
    keys = [setting.key for setting in SETTINGS]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("key", [setting.key for setting in SETTINGS if "." in setting.key])
def test_option_of_the_table_is_one_that_some_choice_of_its_group_takes(key):
    group, _, option = key.partition(".")
    nodes = [yaml.safe_load(path.read_text()) for path in (CONFIGS / group).glob("*.yaml")]
    targets = {node["_target_"] for node in nodes if "_target_" in node}
    assert any(option in inspect.signature(resolve_target(group, name)).parameters for name in targets)


def test_settings_outside_the_identity_are_no_columns():
    assert not [key for key in NOT_IDENTITY if shown(key)]


def test_settings_that_change_only_the_records_are_outside_the_identity():
    of_speed = {"channels_last", "compile"}
    assert set(RECORDED) == {"monitor", "logger", "accuracies", "log_every_n_steps", *of_speed}
    assert set(RECORDED) <= NOT_IDENTITY


def test_what_tables_show():
    for column in (
        "seed",
        "lr",
        "norm",
        "norm.correction",
        "data.val_size",
        "model.depth",
        "val_every_n_steps",
    ):
        assert shown(column), column
    for column in (
        "trainer",
        "trainer.precision",
        "data.root",
        "monitor",
        "threads",
        "experiment",
    ):
        assert not shown(column), column


def test_reading_runs_loads_neither_torch_nor_hydra():
    heavy = ("torch", "pytorch_lightning", "hydra", "omegaconf")
    code = f"import sys, normexp.runs; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
