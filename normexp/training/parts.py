"""The parts of a run, built from plain values: data, network, trainer, monitors. Nothing is written."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, Trainer

from normexp.config.checks import check_compiler, check_kinds
from normexp.config.construct import construct, load_data, refused
from normexp.config.identity import saved_identity
from normexp.config.run_spec import RunSpec, saved_spec
from normexp.config.settings import class_options, decay_of
from normexp.data.base import DataModule
from normexp.lit_model import LitModel
from normexp.training.build_model import build_model, check_trainer, rehearse, rehearse_optimizer
from normexp.training.checkpoint import load_checkpoint
from normexp.training.lightning import quiet_lightning, total_steps

WHITENED_BY = 5000  # training images


@dataclass(kw_only=True)
class Parts:
    """Everything that `launch` needs to train a run.

    Attributes:
        spec: the run.
        make_trainer: makes the trainer from the arguments of this run.
        command: the command line of this run, for its summary.
    """

    spec: RunSpec
    data: DataModule
    module: LitModel
    make_trainer: Callable[..., Trainer]
    monitors: list[Callback]
    command: str

    @property
    def config(self) -> dict[str, Any]:
        return self.spec.config

    @property
    def choices(self) -> dict[str, str]:
        return self.spec.choices

    @property
    def digest(self) -> str:
        return self.spec.digest


def build(spec: RunSpec, *, command: str = "") -> Parts:
    """Build data, model and trainer of one run. Raises ValueError with one line before anything is written.

    Args:
        command: the command line of the run.
    """
    quiet_lightning()
    config, allowed = spec.config, spec.allowed
    check_kinds(config, spec.choices, allowed)
    data = load_data(config, allowed)
    model = build_model(config, data, allowed)
    if whitening := getattr(model, "whitening", None):
        whitening.fit(data.rows("train", torch.device("cpu")).take(slice(WHITENED_BY))[0])
    with refused("model", type(model).__name__):
        rehearse(model, data, config["batch_size"])
    module = LitModel(
        model,
        construct("optimizer", class_options(config["optimizer"]), allowed),
        construct("schedule", config["schedule"], allowed),
        total_steps=total_steps(config, data),
        channels_last=config["channels_last"] and getattr(model, "convolves", False),
        label_smoothing=config["label_smoothing"],
        decay=decay_of(config["optimizer"]),
        tta=getattr(data, "tta", "none"),  # of images alone
    )
    with refused("schedule", type(module.schedule).__name__):
        rehearse_optimizer(module, fused=not str(config["trainer"].get("precision")).startswith("16"))
    make_trainer = construct("trainer", config["trainer"], allowed)
    check_trainer(make_trainer, config, spec.choices)
    if config["compile"]:
        check_compiler(config)
    nodes = {f"monitor.{key}": node for key, node in config["monitor"].items() if node is not None}
    monitors = [construct(path, node, allowed) for path, node in nodes.items()]
    return Parts(
        spec=spec, data=data, module=module, make_trainer=make_trainer, monitors=monitors, command=command
    )


def trained(folder: Path, summary: dict[str, Any]) -> Parts:
    """The parts of a finished run with its last weights."""
    parts = build(saved_spec(folder, summary, []))
    state = load_checkpoint(folder / "checkpoints" / "last.ckpt", saved_identity(folder))
    parts.module.load_state_dict(state["state_dict"])
    return parts
