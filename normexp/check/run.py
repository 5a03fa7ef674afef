"""The check itself: `normexp.check(module, loader)`."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from normexp.check.finding import declared
from normexp.check.inputs import Asked, Step, as_step, at_least_one, two_batches
from normexp.check.network import Network
from normexp.check.result import SEVERITIES, NotChecked, Result


def check(
    module: nn.Module,
    loader: Any = None,
    *,
    loss: Callable[..., Tensor] | None = None,
    samples: int = 32,
    **asked: Any,
) -> Result:
    """Find what is wrong with the norms of a network, by a few passes on a copy of its state. The network, its buffers,
    its gradients and all random states stay as they are.

    Args:
        module: a network, or a LightningModule, whose `training_step` is used.
        loader: a loader, a data module, or one batch: a tensor, (inputs, targets), or a mapping that the network takes
            by name. Without it, random images, rows or tokens are made up.
        loss: `loss(output, target)`. Without it: the loss that the network returns, cross-entropy for targets of whole
            numbers, squared error for targets in the output's shape.
        samples: batches are cut to this many samples.
        asked: what is known of the training: optimizer, precision, accumulate, devices, averaged, state_dict, mask,
            converted_from, steps; see `normexp.check.inputs.Asked`.

    Raises:
        ValueError: an unknown precision or library, no norm in the network, or a module whose input is not known.
        TypeError: another option.
    """
    begun = time.perf_counter()
    given = Asked(**asked)
    at_least_one("samples", samples)
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
    network = Network(step, batches, batch_size, loader, given)
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
    result.layers = list(network.attempt.layers.values())
    counts = Counter(type(place.module).__name__ for place in network.places)
    norms = ", ".join(f"{count} {name}" for name, count in counts.items())
    how = step.told.how if isinstance(step, Step) else "its training_step"
    result.facts = [f"{norms}; {network.samples} samples a pass; loss: {how}", *said]
    result.seconds = time.perf_counter() - begun
    return result
