"""A model with its initial weights, and a pass through it before anything is written: a mistake is one line. Imports no
Lightning: laws build models too."""

import copy
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from normexp.config.targets import construct, refused

if TYPE_CHECKING:
    from normexp.data.base import DataModule


def build_model(config: dict[str, Any], data: Any, allowed: Iterable[str] | None = None) -> nn.Module:
    """The model with its initial weights, for data of this `input_shape` and `num_classes`. Outside the norms, the
    weights depend on the seed and not on the norm.

    Raises ValueError with one line.
    """
    make, norm = (construct(group, config[group], allowed) for group in ("model", "norm"))
    with refused("model", make.func.__name__):
        torch.manual_seed(config["seed"])
        return make(input_shape=data.input_shape, num_classes=data.num_classes, norm=norm)


def rehearse(model: nn.Module, data: "DataModule", batch_size: int) -> None:
    """Run a forward pass, as in training, on the meta device. There is no arithmetic, but every layer
    checks the shape of its input. So a norm that cannot work at this batch size says so before training.

    Raises ValueError with one line.
    """
    x, y = data.probe_batch(1)
    shape = (batch_size, *data.input_shape)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            inputs = torch.empty(shape, device="meta", dtype=x.dtype)
            logits = copy.deepcopy(model).to("meta")(inputs)
        except RuntimeError as error:
            if "meta" not in str(error):
                raise
            # A layer reads a value. BatchNorm does so to see whether it is frozen.
            inputs = torch.zeros(shape, dtype=x.dtype)
            logits = copy.deepcopy(model)(inputs)
    if inputs._version:  # how often something was written into it
        raise ValueError(
            "model: writes into its inputs, so the next evaluation or measurement would see other data; let its first "
            "layer work on a copy, as `x = x - 0.5` does and `x -= 0.5` does not"
        )
    wanted = (batch_size, *y.shape[1:], data.num_classes)
    if not isinstance(logits, Tensor) or tuple(logits.shape) != wanted:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"model: gives {got} for a batch of {shape}; must give logits of {wanted}")
