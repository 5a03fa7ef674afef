"""The validator: the signature of a target is the schema of its node; each mistake is one line that names it."""

import contextlib
import copy
from collections.abc import Callable, Sequence
from typing import Literal

import pytest
import torch
from refusals import refused

from normexp.config.checks import validate
from normexp.config.errors import checked
from normexp.config.schema import options_of

CONFIG = {
    "seed": 0, "batch_size": 64, "recipe": "plain", "lr": 0.1, "max_epochs": 2, "max_steps": None, "eps": 1e-5,
    "val_every_n_steps": None, "log_every_n_steps": 20, "accuracies": [0.5], "channels_last": True, "compile": False,
    "early_stopping": None, "label_smoothing": 0.0, "flush_denormal": True,
    "name": "runs", "outputs": "outputs", "run_dir": None, "threads": None,
    "allow_targets": [], "logger": ["tensorboard"],
    "model": {"_target_": "normexp.models.MLP", "_partial_": True, "depth": 1, "width": 4, "norm_output": True},
    "norm": {"_target_": "normexp.norms.LayerNorm", "_partial_": True, "eps": 1e-5},
    "data": {"_target_": "normexp.data.Digits", "batch_size": 64, "eval_batch_size": 64},
    "optimizer": {"_target_": "torch.optim.SGD", "_partial_": True, "lr": 0.1},
    "schedule": {"_target_": "normexp.schedules.WarmupCosine", "warmup_steps": 5},
    "trainer": {"_target_": "pytorch_lightning.Trainer", "_partial_": True, "precision": "32-true", "devices": 1},
    "monitor": {},
}  # fmt: skip


def broken(path: str, value) -> dict:
    config = copy.deepcopy(CONFIG)
    *parents, last = path.split(".")
    node = config
    for key in parents:
        node = node[key]
    node[last] = value
    return config


def test_good_configuration_passes():
    before = copy.deepcopy(CONFIG)
    validate(CONFIG)
    assert before == CONFIG


GIVEN = "is given by normexp; leave it out"
MISTAKES = [
    ("bogus", 1, "bogus: no such key; the keys are"),
    ("batchsize", 1, "batchsize: no such key; did you mean batch_size?"),
    ("batch_size", "abc", "batch_size='abc': must be a whole number"),
    ("batch_size", True, "batch_size=True: must be a whole number"),
    ("batch_size", 0, "batch_size=0: must be at least 1"),
    ("lr", float("nan"), "lr=nan: must be finite"),
    ("seed", 10**20, "seed=1+0+: must be at most"),
    ("name", "../elsewhere", r"name=\.\./elsewhere: a study lies below outputs"),
    ("name", "/elsewhere", "name=/elsewhere: a study lies below outputs"),
    ("accuracies", ["a"], r"accuracies\[0\]=.a.: must be a number"),
    ("accuracies", [0.5, 95], r"accuracies=\[0\.5, 95\]: must be fractions above 0, at most 1, not percents"),
    ("accuracies", [0.0], "must be fractions above 0"),
    ("max_steps", 10**13, "max_steps=10000000000000: must be at most 1000000000000"),
    ("schedule.warmup_step", 1, "schedule.warmup_step: no such key; did you mean schedule.warmup_steps?"),
    ("schedule.final_fraction", 1.5, "schedule.final_fraction=1.5: must be at most 1"),
    ("schedule.warmup_steps", -1, "schedule.warmup_steps=-1: must be at least 0"),
    ("schedule.final_fraction", "low", "schedule.final_fraction='low': must be a number"),
    ("model", None, "model=None: must be keys with values"),
    ("model", {"depth": 1}, "model: names no class; choose model=<name>"),
    ("model._target_", "normexp.models.Nothing", "cannot be imported"),
    ("model.norm_output", 3, "model.norm_output=3: must be true or false"),
    ("model.input_shape", [1], rf"model.input_shape=\[1\]: {GIVEN}"),
    ("monitor", [1], r"monitor=\[1\]: must be keys with values"),
    ("monitor", {"a": {"every_n_steps": 5}}, r"monitor\.a: names no class"),
    ("monitor", {"a": {"_target_": "subprocess.Popen"}}, r"monitor\.a\._target_=subprocess\.Popen: not a class"),
    ("norm.eps", float("nan"), "norm.eps=nan: must be finite"),
    ("norm.num_features", 3, f"norm.num_features=3: {GIVEN}"),
    ("optimizer.fused", True, f"optimizer.fused=True: {GIVEN}"),
    ("optimizer.momentum", {"_target_": "normexp.schedules.Constant"}, "optimizer.momentum=.*: must be a number"),
    ("data.batch_size", 7, "data.batch_size=7: .* one of batch_size=64; write batch_size=7"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "message"), MISTAKES)
def test_mistake_is_refused_in_one_line(path, value, message):
    with refused(message):
        validate(broken(path, value))


@pytest.mark.parametrize("key", ["monitor", "seed"])
def test_what_is_missing_is_named(key):
    without = {name: value for name, value in CONFIG.items() if name != key}
    with refused(f"^{key}: (none is chosen; use {key}=<value>|is missing; give it a value)"):
        validate(without)


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        (1, float, True), (True, float, False), (1, int, True), (1.0, int, False), ("inside", Literal["inside"], True),
        ("in", Literal["inside", "outside"], False), (None, int | None, True), ([1, 2], Sequence[int], True),
        ([1, "a"], list[int], False), ("ab", list[str], False), ([0.9, 0.999], tuple[float, float], True),
        ({}, dict, True), ("text", float | torch.Tensor, False), ({"_target_": "x"}, Callable[[], int], True),
        ([0.9, "b"], tuple[float | torch.Tensor, float | torch.Tensor], False),
    ],
)  # fmt: skip
def test_a_value_fits_the_annotation_of_its_option(value, kind, fits):
    class Part:
        def __init__(self, option):
            pass

    Part.__init__.__annotations__ = {"option": kind}
    with contextlib.nullcontext() if fits else pytest.raises(ValueError, match=r"part\.option"):
        checked(options_of(Part), {"option": value}, "part")
