"""A model with its initial weights, from a configuration. It does not import Lightning."""

from collections.abc import Iterable
from typing import Any, Protocol

import torch

from normexp.config.construct import construct, refused
from normexp.training.rehearsal import build_within_memory


class ModelSizes(Protocol):
    """The sizes that a model needs to know of the data."""

    @property
    def input_shape(self) -> tuple[int, ...]: ...

    @property
    def num_classes(self) -> int: ...


def build_model(
    config: dict[str, Any], data: ModelSizes, allowed: Iterable[str] | None = None
) -> torch.nn.Module:
    """The model with its initial weights. Outside the norms, the weights depend on the seed and not on the norm."""
    make, norm = (construct(group, config[group], allowed) for group in ("model", "norm"))

    def seeded() -> torch.nn.Module:
        torch.manual_seed(config["seed"])
        return make(input_shape=data.input_shape, num_classes=data.num_classes, norm=norm)

    with refused("model", make.func.__name__):
        return build_within_memory(seeded, config["model"])
