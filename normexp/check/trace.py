"""One training pass, watched: what every norm gets, and which parameters get a gradient."""

from dataclasses import dataclass, field
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn

from normexp.check.calls import Call, Place
from normexp.check.inputs import root_of
from normexp.monitors.guard import gradients_or_none, step_output
from normexp.monitors.sites import first_tensor


@dataclass
class Trace:
    """What one training pass showed.

    Attributes:
        loss_by: how the loss was computed, in words.
        without_gradient: names of trained parameters that get no gradient.
        inside: path of the norm in which the pass failed.
    """

    loss: float = float("nan")
    loss_by: str = ""
    calls: list[Call] = field(default_factory=list)
    without_gradient: set[str] = field(default_factory=set)
    error: Exception | None = None
    inside: str = ""


def trace(step: nn.Module, batch: Any, places: list[Place]) -> Trace:
    """Run one training pass, forward and backward, on the module as it is: call it in `Network.quiet`.

    An error of the pass is part of the result, with the norm in which it came.
    """
    seen, of_module = Trace(), {place.module: place for place in places}

    def enter(module: nn.Module, args: tuple, kwargs: dict) -> None:
        x, seen.inside = first_tensor(args, kwargs), of_module[module].path
        if x is not None and x.numel() and of_module[module].kind != "none":
            seen.calls.append(measured(of_module[module], x, (*args, *kwargs.values())))

    def leave(*_: Any) -> None:
        seen.inside = ""

    handles = [module.register_forward_pre_hook(enter, with_kwargs=True) for module in of_module]
    handles += [module.register_forward_hook(leave) for module in of_module]
    try:
        loss = step_output(step, copied(batch))["loss"]
        seen.loss = float(loss.detach())
        for handle in handles:
            handle.remove()  # a checkpointed part is computed again, and not seen again
        trained = {name: p for name, p in root_of(step).named_parameters() if p.requires_grad}
        some = loss.requires_grad and trained
        gradients = gradients_or_none(loss, list(trained.values())) if some else [None] * len(trained)
        seen.without_gradient = {name for name, g in zip(trained, gradients, strict=True) if g is None}
    except Exception as error:  # any error of a user's network is what we report
        seen.error = error
    finally:
        for handle in handles:
            handle.remove()
    return seen


def measured(place: Place, x: Tensor, given: tuple) -> Call:
    """What a call of a norm with x shows."""
    rows = place.groups(x)  # without gradients
    mean, values = rows.mean(1), rows.shape[1]
    return Call(
        place, mean, rows.var(1, correction=0) if values > 1 else torch.zeros_like(mean), values,
        largest=float(x.detach().abs().amax()), x=x.detach(), training=place.module.training,
        masked=any(isinstance(mask, Tensor) and mask.dtype == torch.bool for mask in given),
        learns=torch.is_grad_enabled(),
    )  # fmt: skip


def copied(batch: Any) -> Any:
    """A batch that a network may write into."""
    return apply_to_collection(batch, Tensor, torch.clone)
