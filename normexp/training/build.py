"""The parts of a run, built from plain values: data, network, optimizer, trainer, monitors. Nothing is written."""

from dataclasses import dataclass
from typing import Any

import torch
from pytorch_lightning import Callback, Trainer

from normexp.config.checks import check_kinds, class_options, decay_of
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
    """Build data, model, optimizer and monitors of a run, and try the model without arithmetic.

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
    nodes = {f"monitor.{key}": node for key, node in config["monitor"].items() if node is not None}
    monitors = [construct(path, node, allowed) for path, node in nodes.items()]
    return Parts(spec=spec, data=data, module=module, monitors=monitors, command=command)
