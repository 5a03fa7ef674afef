"""Check a composed configuration against the code before anything is built.

The yaml tree has no schema of its own. `normexp.config.settings` is the schema of the root; the signature of each
`_target_` is the schema of its node. So one place finds a wrong key or type and says so in one line.
"""

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from normexp.config.allowed import allowed_packages
from normexp.config.invocation import command
from normexp.config.nodes import check_group, check_keys, check_plain, check_type
from normexp.config.settings import GROUPS, ROOT, Setting, check_loggers, early_stop

# Options that normexp gives the trainer itself -> the setting that decides each.
SET_ELSEWHERE = {
    "max_epochs": "max_epochs", "max_steps": "max_steps", "fast_dev_run": "fast_dev_run",
    "val_check_interval": "val_every_n_steps", "check_val_every_n_epoch": "val_every_n_steps",
    "log_every_n_steps": "log_every_n_steps", "default_root_dir": "outputs", "callbacks": "monitor",
    "logger": "log_every_n_steps", "num_sanity_val_steps": None, "enable_model_summary": None,
    "use_distributed_sampler": None, "enable_checkpointing": None, "enable_progress_bar": None,
}  # fmt: skip


def validate(
    config: dict[str, Any], allowed: Iterable[str] | None = None, groups: Sequence[str] = GROUPS
) -> None:
    """Raise a ValueError of one line for the first mistake in a resolved configuration.

    Args:
        allowed: the user's packages that `_target_` may name; by default those of the command line.
        groups: whose nodes are checked, if not all are used.
    """
    known = [*(setting.key for setting in ROOT), *GROUPS]
    check_keys(config, known, path="")
    for key in known:
        if key not in config:
            what = "none is chosen" if key in GROUPS else "is missing"
            raise ValueError(f"{key}: {what}; use {key}=<value>, {command('train')} --help lists them")
    for setting in ROOT:
        check_setting(setting, config[setting.key])
    for key, value in config.items():
        check_plain(key, value)
    early_stop(config)
    check_loggers(config["logger"])
    if Path(config["name"]).is_absolute() or ".." in Path(config["name"]).parts:
        raise ValueError(f"name={config['name']}: a study lies below outputs; set outputs for another place")
    for accuracy in config["accuracies"]:
        if not 0 < accuracy <= 1:
            raise ValueError(
                f"accuracies={config['accuracies']}: must be fractions above 0, at most 1, not percents"
            )
    if (threads := config["threads"] or 0) > (most := max(64, 4 * (os.cpu_count() or 1))):
        raise ValueError(f"threads={threads}: this machine has {os.cpu_count()} cores; choose at most {most}")
    packages = allowed_packages() if allowed is None else tuple(allowed)
    if foreign := [name for name in config["allow_targets"] if name not in packages]:
        raise ValueError(
            f"allow_targets={foreign}: no file can allow a package; if you trust it, add allow_targets="
            f"[{','.join(foreign)}] to the command line"
        )
    for group in groups:
        check_group(group, config[group], packages)
    if "trainer" in groups:
        check_options(config["trainer"])


def check_setting(setting: Setting, value: Any) -> None:
    """Check a value of the root against its row of the table."""
    check_type(setting.key, value, setting.kind)
    if value is None:
        return
    if setting.least is not None and not value >= setting.least:  # `not >=` catches nan
        raise ValueError(f"{setting.key}={value}: must be at least {setting.least}")
    if setting.most is not None and value > setting.most:
        raise ValueError(f"{setting.key}={value}: must be at most {setting.most}")


def check_compiler(config: dict[str, Any]) -> None:
    """torch.compile needs a C++ compiler on CPU and GPU; CUDA graphs need a GPU."""
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


def check_options(trainer: dict[str, Any]) -> None:
    """Raise a ValueError of one line for the first harmful option."""
    for key in trainer.keys() & SET_ELSEWHERE.keys():
        other = SET_ELSEWHERE[key]
        remedy = f"set {other} instead" if other else "leave it out"
        raise ValueError(f"trainer.{key}={trainer[key]}: is decided by normexp; {remedy}")
    clip, batches = trainer.get("gradient_clip_val"), trainer.get("accumulate_grad_batches", 1)
    if clip is not None and not clip > 0:
        raise ValueError(
            f"trainer.gradient_clip_val={clip}: must be above 0; use trainer.gradient_clip_val=null to clip nothing"
        )
    if not batches >= 1:
        raise ValueError(f"trainer.accumulate_grad_batches={batches}: must be at least 1")
