"""A network under check: what the user gave, and what is measured on it when a finding asks."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from pytorch_lightning.utilities.seed import isolate_rng
from torch import Tensor, nn

from normexp.check.inputs import Step
from normexp.check.places import Place, norms_of
from normexp.check.trace import Trace, copied, trace
from normexp.monitors.batch_statistics import discrepancy
from normexp.monitors.batches import Batches
from normexp.monitors.guard import untouched
from normexp.monitors.sites import first_tensor


@dataclass(frozen=True)
class Asked:
    """What the user passed beside the module and its data; see `check`. None where nothing was said."""

    optimizer: Any = None
    precision: str | None = None
    accumulate: int | None = None
    devices: int | None = None
    averaged: Any = None
    state_dict: Any = None
    mask: Any = None
    converted_from: str | None = None
    steps: int | None = None


@dataclass
class Modes:
    """Losses of the held-out batch with dropout off, and the statistics of each norm that keeps some.

    Attributes:
        running, batch, precise: loss with the running statistics, with the batch's own, and with statistics that were
            estimated anew from the two batches.
        apart: path -> `tid_mean` and `tid_std` of the batch against the running statistics.
        estimated: path -> (mean, variance with correction 0) over the two batches.
        spread: path -> what eps is added to, (C,), on the held-out batch, without dropout.
    """

    running: float
    batch: float
    precise: float
    apart: dict[str, dict[str, float]] = field(default_factory=dict)
    estimated: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    spread: dict[str, Tensor] = field(default_factory=dict)


class Network:
    """A network and what a check may ask of it. Each measure is made once, when it is first asked for.

    Args:
        step: has a `training_step`.
        batches: of at most as many samples as the user allows.
        batch_size: samples of a batch that is not cut.
        loader: what the user passed as data.
    """

    def __init__(self, step: nn.Module, batches: Batches, batch_size: int, loader: Any, asked: Asked) -> None:
        self.step, self.batches, self.batch_size = step, batches, batch_size
        self.loader, self.asked = loader, asked

    @property
    def root(self) -> nn.Module:
        """The user's module."""
        return self.step.model if isinstance(self.step, Step) else self.step

    @property
    def samples(self) -> int:
        """Samples of the batch that the passes see."""
        from normexp.check.inputs import size_of

        return size_of(self.batches.training) or self.batch_size

    @cached_property
    def places(self) -> list[Place]:
        return norms_of(self.step)

    @property
    def tracked(self) -> list[Place]:
        """The norms that keep running statistics."""
        return [place for place in self.places if place.tracked]

    def values(self, call: Any) -> int:
        """How many values enter one statistic of a call when the batch is not cut."""
        if call.place.kind != "batch":
            return call.values
        virtual = getattr(call.place.module, "virtual_batch_size", None)
        return call.values // self.samples * (virtual or self.batch_size) if self.samples else call.values

    @property
    def has_loss(self) -> bool:
        """Whether the loss is one, and not a probe."""
        return not (isinstance(self.step, Step) and "random sum" in self.step.told.how)

    @contextlib.contextmanager
    def quiet(self, *, train: bool) -> Iterator[nn.Module]:
        """The module in a copy of its state, in training mode (layers that are frozen in eval mode stay so while the
        rest trains) or in eval mode. Nothing done inside is left."""
        with isolate_rng(), untouched(self.step):
            if not train:
                self.step.eval()
            elif not self.root.training:
                self.step.train()
            yield self.step

    @cached_property
    def trace(self) -> Trace:
        """One training pass, forward and backward."""
        with self.quiet(train=True) as step:
            return trace(step, self.batches.training, self.places)

    @cached_property
    def modes(self) -> Modes:
        """Four passes without gradients: running statistics, the batch's own on both batches, and estimated anew."""
        with self.quiet(train=False) as step, torch.no_grad():
            return modes(step, self.batches, self.tracked)

    @cached_property
    def modules(self) -> dict[str, nn.Module]:
        return dict(self.root.named_modules())

    def call(self, path: str) -> str:
        """The module at a path as code: `model.layer1[0].bn1`."""
        code = "model"
        for part in path.split(".") if path else []:
            code += f"[{part}]" if part.isdigit() else f".{part}"
        return code


def loss_in(step: nn.Module, batch: Any) -> float:
    """Loss of a batch on the module as it is; every call draws the same random numbers."""
    import inspect

    arguments = (copied(batch), 0)[: len(inspect.signature(step.training_step).parameters)]  # type: ignore[arg-type]
    with isolate_rng():
        output = step.training_step(*arguments)  # type: ignore[operator]
    return float(output["loss"] if isinstance(output, dict) else output)


def modes(step: nn.Module, batches: Batches, tracked: list[Place]) -> Modes:
    """See `Modes`. Call it on a copy in eval mode: it moves running statistics."""
    running = loss_in(step, batches.held_out)
    found = Modes(running, running, running)
    if not tracked:
        return found
    stored = {p.path: (p.module.running_mean.clone(), p.module.running_var.clone()) for p in tracked}
    sums: dict[str, list[tuple[Tensor, Tensor]]] = {}

    def record(place: Place, *, held_out: bool) -> Any:
        def hook(module: nn.Module, args: tuple, kwargs: dict) -> None:
            if (x := first_tensor(args, kwargs)) is None:
                return
            rows = place.groups(x)  # (C, n)
            mean = rows.mean(1)
            if mean.shape != stored[place.path][0].shape:
                return  # statistics of each sample, as InstanceNorm's
            sums.setdefault(place.path, []).append((mean, rows.var(1, correction=0)))
            if held_out:
                tid = discrepancy(rows.T, *stored[place.path])
                found.apart[place.path] = {name: float(value) for name, value in tid.items()}
                found.spread[place.path] = sums[place.path][-1][1]

        return hook

    for place in tracked:
        place.module.train()
    for batch, held_out in ((batches.training, False), (batches.held_out, True)):
        handles = [
            place.module.register_forward_pre_hook(record(place, held_out=held_out), with_kwargs=True)
            for place in tracked
        ]
        found.batch = loss_in(step, batch)
        for handle in handles:
            handle.remove()
    step.eval()
    for place in tracked:
        if place.path in sums:
            means, variances = (torch.stack(parts) for parts in zip(*sums[place.path], strict=True))
            # Of all batches together: the mean of their variances and the variance of their means.
            mean, var = means.mean(0), variances.mean(0) + means.var(0, correction=0)
            found.estimated[place.path] = mean, var
            place.module.running_mean.copy_(mean)
            place.module.running_var.copy_(var)
    found.precise = loss_in(step, batches.held_out)
    return found
