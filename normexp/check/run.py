"""The check itself: `normexp.check(module, loader)`."""

import time
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from normexp.check.finding import declared
from normexp.check.inputs import Step, as_step, two_batches
from normexp.check.network import Asked, Network
from normexp.check.result import SEVERITIES, NotChecked, Result

PRECISIONS = {
    "16": "float16", "16-mixed": "float16", "16-true": "float16", "fp16": "float16", "float16": "float16",
    "bf16": "bfloat16", "bf16-mixed": "bfloat16", "bf16-true": "bfloat16", "bfloat16": "bfloat16",
    "32": "float32", "32-true": "float32", "float32": "float32", "64-true": "float64", "64": "float64",
}  # fmt: skip
LIBRARIES = ("keras", "tensorflow", "jax", "flax")


def check(
    module: nn.Module,
    loader: Any = None,
    *,
    loss: Callable[..., Tensor] | None = None,
    optimizer: Any = None,
    precision: str | int | None = None,
    accumulate: int | None = None,
    devices: int | None = None,
    averaged: Any = None,
    state_dict: Any = None,
    mask: Any = None,
    converted_from: str | None = None,
    steps: int | None = None,
    samples: int = 32,
) -> Result:
    """Find what is wrong with the norms of a network, by a few passes on a copy of its state. The network, its buffers,
    its gradients and all random states stay as they are.

    Args:
        module: a network, or a LightningModule, whose `training_step` is used.
        loader: a loader, a data module, or one batch: a tensor, (inputs, targets), or a mapping that the network takes
            by name. Without it, random images, rows or tokens are made up.
        loss: `loss(output, target)`. Without it: the loss that the network returns, cross-entropy for targets of whole
            numbers, squared error for targets in the output's shape.
        optimizer: of the training; its groups tell which norms decay.
        precision: of the training, as Lightning names it: 16-mixed, bf16-mixed, 16-true, ...
        accumulate: batches per step of the optimizer.
        devices: processes that train together, each with a batch of the loader's size.
        averaged: averaged weights (EMA, SWA): a module such as `AveragedModel`, or a state dict.
        state_dict: what is saved, such as an adapter's state dict.
        mask: True at real tokens, (N, T); or `mask(batch)`. Guessed from rows of zeros otherwise.
        converted_from: the library whose weights these are: keras, tensorflow, jax or flax.
        steps: batches before the first validation. Known of a DataLoader.
        samples: batches are cut to this many samples.

    Raises:
        ValueError: an unknown precision or library, no norm in the network, or a module whose input is not known.
    """
    begun = time.perf_counter()
    if precision is not None and str(precision) not in PRECISIONS:
        raise ValueError(f"precision={precision}: unknown; choose from {', '.join(PRECISIONS)}")
    if converted_from is not None and converted_from not in LIBRARIES:
        raise ValueError(f"converted_from={converted_from}: unknown; choose from {', '.join(LIBRARIES)}")
    for name, value in (
        ("accumulate", accumulate),
        ("devices", devices),
        ("steps", steps),
        ("samples", samples),
    ):
        if value is not None and value < 1:
            raise ValueError(f"{name}={value}: must be at least 1")
    if not isinstance(module, nn.Module):
        raise ValueError(
            f"module={type(module).__name__}: is no torch module; pass a network or a LightningModule"
        )
    if loss is None and not getattr(module, "automatic_optimization", True):
        raise ValueError(
            "module: its training_step takes steps itself (automatic_optimization=False); pass its network, and loss="
        )
    step = as_step(module, loss)
    batches, batch_size, said = two_batches(loader, module, samples)
    asked = Asked(
        optimizer, None if precision is None else str(precision), accumulate, devices, averaged, state_dict, mask,
        converted_from, steps,
    )  # fmt: skip
    network = Network(step, batches, batch_size, loader, asked)
    if not network.places:
        raise ValueError(
            f"module={type(module).__name__}: has no normalization layer; there is nothing to check"
        )
    result = Result(type(module).__name__)
    for name, kind in declared().items():
        try:
            found = kind.findings(network)
        except NotChecked as reason:
            result.not_checked[name] = str(reason)
            continue
        result.findings += found
        if not found:
            result.healthy.append(name)
    result.findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    result.layers = network.trace.layers
    result.facts = [facts(network), *said]
    result.seconds = time.perf_counter() - begun
    return result


def facts(network: Network) -> str:
    """On what was measured, in a line."""
    names: dict[str, int] = {}
    for place in network.places:
        names[place.name] = names.get(place.name, 0) + 1
    norms = ", ".join(f"{count} {name}" for name, count in names.items())
    how = network.step.told.how if isinstance(network.step, Step) else "its training_step"
    return f"{norms}; {network.samples} samples a pass; loss: {how}"
