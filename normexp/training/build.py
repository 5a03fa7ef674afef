"""The parts of a run, built from plain values: data, network, optimizer, trainer, monitors. Nothing is written."""

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from pytorch_lightning import Callback, Trainer
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from normexp.config.checks import check_kinds, class_options
from normexp.config.errors import one_line
from normexp.config.run_spec import RunSpec
from normexp.config.targets import build_model, construct, load_data, refused
from normexp.data.base import DataModule
from normexp.models.sites import sites_of
from normexp.monitors.guard import LAZY, is_lazy
from normexp.training.lightning import quiet_lightning, total_steps
from normexp.training.lit_model import LitModel

STARTED_BY = 5000  # training samples


@dataclass(kw_only=True)
class Parts:
    """Everything that a run needs."""

    spec: RunSpec
    data: DataModule
    module: LitModel
    monitors: list[Callback]  # of the configuration; others may be appended
    command: str  # the command line of this run, for its summary

    @property
    def config(self) -> dict[str, Any]:
        return self.spec.config

    @property
    def choices(self) -> dict[str, str]:
        return self.spec.choices

    def make_trainer(self, **arguments: Any) -> Trainer:
        """Lightning's trainer. Raises ValueError with one line for hardware that is absent or cannot share a batch."""
        make = construct("trainer", self.config["trainer"])
        try:
            trainer = make(**{"logger": False, "enable_progress_bar": False} | arguments)
        except Exception as error:  # Lightning and its plugins raise a dozen types
            message = f"trainer={self.choices['trainer']}: {one_line(error).rstrip('.')}"
            raise ValueError(f"{message}; choose trainer=auto or trainer=cpu") from None
        if self.config["batch_size"] % trainer.world_size:
            raise ValueError(
                f"batch_size={self.config['batch_size']}: cannot be shared equally by {trainer.world_size} devices; "
                f"choose a multiple of {trainer.world_size}"
            )
        return trainer


def build(spec: RunSpec, data: DataModule | None = None, *, command: str = "") -> Parts:
    """Build data (unless they were loaded before), model, optimizer and monitors of a run, and try the model without
    arithmetic. Raises ValueError with one line."""
    quiet_lightning()
    config = spec.config
    check_kinds(config, spec.choices)
    data = data or load_data(config)
    model = build_model(config, data)
    if start := getattr(model, "start_from", None):  # weights that depend on data
        start(data.rows("train", torch.device("cpu")).take(slice(STARTED_BY))[0])
    kind = type(getattr(model, "network", model)).__name__  # of a network from elsewhere its own
    if is_lazy(model):
        raise ValueError(f"model: {kind} {LAZY} in its constructor, or give them sizes")
    if config["max_steps"] != 0 and not any(p.requires_grad for p in model.parameters()):
        raise ValueError(f"model: {kind} has no parameter that trains; give it one, or set max_steps=0")
    with refused("model", kind, "in sites()"):
        sites_of(model)
    with refused("model", kind, f"on a batch of {(config['batch_size'], *data.input_shape)}"):
        rehearse(model, data, config["batch_size"])
    module = LitModel(
        model,
        construct("optimizer", class_options(config["optimizer"])),
        construct("schedule", config["schedule"]),
        total_steps=total_steps(config, data),
        channels_last=config["channels_last"] and getattr(model, "convolves", False),
        label_smoothing=config["label_smoothing"],
        decay=config["optimizer"].get("decay", "matrices"),
        tta=getattr(data, "tta", "none"),  # of images alone
    )
    with refused("optimizer", module.make_optimizer.func.__name__):
        module.make_optimizers(fused=False)
    nodes = {f"monitor.{key}": node for key, node in config["monitor"].items() if node}
    monitors = [construct(path, node) for path, node in nodes.items()]
    for path, monitor in zip(nodes, monitors, strict=True):
        name = type(monitor).__name__
        if not isinstance(monitor, Callback):
            raise ValueError(f"{path}: {name} is none; derive it from normexp.monitors.Monitor")
        with refused(path, name, "in keys()"):
            monitor.state_key  # noqa: B018
    return Parts(spec=spec, data=data, module=module, monitors=monitors, command=command)


def passed(network: nn.Module, inputs: Tensor) -> Any:
    """What a network gives. Raises ValueError with one line if its forward pass makes parameters."""
    known = {id(p) for p in network.parameters()}

    def refuse(owner: nn.Module, name: str, parameter: nn.Parameter) -> None:
        if id(parameter) not in known:
            raise ValueError(
                f"model: makes a parameter in its forward pass, {name} of {type(owner).__name__}, which no optimizer "
                "would train; make all layers in its constructor"
            )

    with register_module_parameter_registration_hook(refuse):
        return network(inputs)


def rehearse(model: nn.Module, data: DataModule, batch_size: int) -> None:
    """Run a forward pass, as in training, on the meta device. There is no arithmetic, but every layer checks the shape
    of its input. So a norm that cannot work at this batch size says so before training, by a ValueError of one line."""
    x, y = data.probe_batch(1)
    shape = (batch_size, *data.input_shape)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            inputs = torch.empty(shape, device="meta", dtype=x.dtype)
            logits = passed(copy.deepcopy(model).to("meta"), inputs)
        except RuntimeError as error:
            if "meta" not in str(error):
                raise
            # A layer reads a value. BatchNorm does so to see whether it is frozen.
            inputs = torch.zeros(shape, dtype=x.dtype)
            logits = passed(copy.deepcopy(model), inputs)
    if inputs._version:  # how often something was written into it
        raise ValueError(
            "model: writes into its inputs, so the next evaluation or measurement would see other data; let its first "
            "layer work on a copy, as `x = x - 0.5` does and `x -= 0.5` does not"
        )
    wanted = (batch_size, *y.shape[1:], data.num_classes)
    if not isinstance(logits, Tensor) or tuple(logits.shape) != wanted:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"model: gives {got} for a batch of {shape}; must give logits of {wanted}")
