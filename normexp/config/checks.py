"""Checks a composed configuration against what the code takes, before anything is built.

The yaml tree has no schema of its own: `normexp.config.settings` is the schema of the root, the signature of each
`_target_` that of its node. So a wrong key or a wrong type is found in one place, in one line.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import torch

from normexp.config.nodes import check_keys, check_node, check_type
from normexp.config.settings import GROUPS, ROOT
from normexp.invocation import command


def validate(config: dict[str, Any]) -> None:
    """Raise a ValueError of one line for the first thing that is wrong in a resolved configuration."""
    check_keys(config, [*(setting.key for setting in ROOT), *GROUPS], path="")
    for group in GROUPS:
        if group not in config:
            raise ValueError(
                f"{group}: none is chosen; use {group}=<name>, {command('train')} --help lists them"
            )
    for setting in ROOT:
        key, value = setting.key, config[setting.key]
        check_type(key, value, setting.kind)
        if value is None:
            continue
        if setting.least is not None and not value >= setting.least:  # `not >=` catches nan
            raise ValueError(f"{key}={value}: must be at least {setting.least}")
        if setting.most is not None and value > setting.most:
            raise ValueError(f"{key}={value}: must be at most {setting.most}")
    if Path(config["name"]).is_absolute() or ".." in Path(config["name"]).parts:
        raise ValueError(f"name={config['name']}: a study lies below outputs; set outputs for another place")
    for group in GROUPS:
        check_node(group, config[group], tuple(config["allow_targets"]))


def check_compiler(config: dict[str, Any]) -> None:
    """torch.compile generates C++ on the CPU (and calls it from C++ on a GPU); CUDA graphs are a GPU's."""
    on_cpu = config["trainer"].get("accelerator") == "cpu" or not torch.cuda.is_available()
    if config["compile"] == "reduce-overhead" and on_cpu:
        raise ValueError(
            "compile=reduce-overhead: CUDA graphs need a GPU and this run is on the CPU; use compile=true"
        )
    names = [name for name in (os.environ.get("CXX"), "g++", "clang++", "cl") if name]
    if not any(shutil.which(name) for name in names):
        raise ValueError(
            f"compile={config['compile']}: no C++ compiler found ({', '.join(names)}); install g++ or leave it out"
        )
