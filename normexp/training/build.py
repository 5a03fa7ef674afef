"""The parts of a run, built from plain values: data, network, optimizer, trainer, monitors. Nothing is written."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from pytorch_lightning import Callback, Trainer
from torch import nn

from normexp.config.checks import check_compiler, check_kinds, class_options, decay_of
from normexp.config.errors import one_line
from normexp.config.run_spec import RunSpec
from normexp.config.targets import construct, load_data, refused
from normexp.data.base import DataModule
from normexp.training.build_model import build_model, rehearse
from normexp.training.lightning import quiet_lightning, total_steps
from normexp.training.lit_model import LitModel

WHITENED_BY = 5000  # training images


@dataclass(kw_only=True)
class Parts:
    """Everything that a run needs.

    Attributes:
        spec: the run.
        monitors: the callbacks of the configuration; others may be appended.
        command: the command line of this run, for its summary.
    """

    spec: RunSpec
    data: DataModule
    module: LitModel
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

    def make_trainer(self, **arguments: Any) -> Trainer:
        """Lightning's trainer. Lightning looks for the hardware.

        Raises ValueError with one line for hardware that is absent, or that cannot share a batch.
        """
        make = construct("trainer", self.config["trainer"], self.spec.allowed)
        try:
            trainer = make(**{"logger": False, "enable_progress_bar": False} | arguments)
        except Exception as error:  # Lightning and its plugins raise a dozen types
            said = f"trainer={self.choices['trainer']}: {one_line(error).rstrip('.')}"
            raise ValueError(f"{said}; choose trainer=auto or trainer=cpu") from None
        if self.config["batch_size"] % trainer.world_size:
            raise ValueError(
                f"batch_size={self.config['batch_size']}: cannot be shared equally by {trainer.world_size} devices; "
                f"choose a multiple of {trainer.world_size}"
            )
        return trainer


def build(spec: RunSpec, *, command: str = "") -> Parts:
    """Build data, model, optimizer and monitors of a run, and try them without arithmetic.

    Raises ValueError with one line.
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
    if config["compile"]:
        check_compiler(config)
    nodes = {f"monitor.{key}": node for key, node in config["monitor"].items() if node is not None}
    monitors = [construct(path, node, allowed) for path, node in nodes.items()]
    return Parts(spec=spec, data=data, module=module, monitors=monitors, command=command)


def rehearse_optimizer(module: LitModel, *, fused: bool) -> None:
    """Make the optimizer, take a step of one weight, and call the schedule. Raises ValueError with one line."""
    name = module.make_optimizer.func.__name__
    try:
        module.make_optimizers(fused=fused)
        weight = nn.Parameter(torch.zeros(2, 2))
        weight.grad = torch.zeros(2, 2)
        module.make_optimizer([weight]).step()  # fails where gradients must be sparse, or losses several
    except Exception as error:  # torch's messages name no option
        said = f"optimizer: {name} cannot be used here ({one_line(error)})"
        raise ValueError(f"{said}; change its options") from error
    for step in (0, max(0, module.total_steps - 1)) if module.schedule.varies else ():
        factor = module.schedule(step, module.total_steps)
        if not isinstance(factor, (int, float)) or not math.isfinite(factor):
            raise ValueError(f"schedule: gives {factor} at step {step}; must give a number")
