"""A network, and what is measured on it when a finding asks."""

import contextlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from normexp.check.inputs import (
    HALF,
    PRECISIONS,
    PROBE,
    CheckOptions,
    Step,
    called_with,
    root_of,
    seeded,
    size_of,
    split,
    tensor_of,
)
from normexp.check.result import NotChecked
from normexp.check.trace import Call, Place, Trace, copied, norms_of, trace
from normexp.monitors.batches import Batches
from normexp.monitors.guard import loss_of, untouched, weights


@dataclass
class Modes:
    """Losses of the held-out batch with dropout off, and what arrives at each norm with running statistics.

    Attributes:
        running, batch, precise: loss with the running statistics, with the batch's own, and with statistics that were
            estimated anew from the two batches.
        apart: path -> distance of the held-out batch's mean or deviation from the running one, in deviations.
        var: path -> variance of each channel in the training batch, (C,).
    """

    running: float
    batch: float
    precise: float
    apart: dict[str, float] = field(default_factory=dict)
    var: dict[str, Tensor] = field(default_factory=dict)


class Network:
    """A network and what a check may ask of it. Each measure is made once, when it is first asked for.

    Args:
        step: has a `training_step`.
        batches: that the passes see.
        batch_size: samples of a batch that is not cut; None if they cannot be counted.
        data: what the user passed as data.

    Attributes:
        samples: of the batches that the passes see; None if they cannot be counted.
    """

    def __init__(
        self, step: nn.Module, batches: Batches, batch_size: int | None, data: Any, options: CheckOptions
    ) -> None:
        self.step, self.batches, self.batch_size = step, batches, batch_size
        self.data, self.options, self.root = data, options, root_of(step)
        self.samples = size_of(batches.training)
        self.modules = dict(self.root.named_modules())
        self.places = norms_of(step)
        self.tracked = [place for place in self.places if place.tracked]

    @cached_property
    def training_loader(self) -> Any:
        """The loader of the training, alone or of a data module; None if the user passed batches."""
        if hasattr(self.data, "train_dataloader"):
            return self.data.train_dataloader()
        return self.data if isinstance(self.data, DataLoader) else None

    def values(self, call: Call) -> int:
        """How many values enter one statistic of a call when the batch is not cut."""
        if call.place.kind != "batch" or self.samples is None or self.batch_size is None:
            return call.values
        return call.values // self.samples * (call.place.virtual_batch or self.batch_size)

    @property
    def counted(self) -> int:
        """Samples of a batch that is not cut. Raises NotChecked if they cannot be counted."""
        if self.batch_size is None:
            raise NotChecked("the samples of a batch cannot be counted; pass tensors, (inputs, targets)")
        return self.batch_size

    @contextlib.contextmanager
    def quiet(
        self, *, train: bool, without: Iterable[Place] = (), wide: bool = False
    ) -> Iterator[nn.Module]:
        """The module in a copy of its state, in training mode (layers that are frozen in eval mode stay so while the
        rest trains) or in eval mode; some norms may be made the identity, and `wide` leaves autocast out. Afterwards
        everything is put back."""
        error: Exception | None = None
        with seeded(self.options.seed), untouched(self.step), self.autocast(not wide):
            if not train:
                self.step.eval()
            elif not self.root.training:
                self.step.train()
            for place in without:
                place.module.register_forward_hook(keep_input)
            try:
                yield self.step
            except Exception as raised:  # seeded puts nothing back behind an error
                error = raised
        if error is not None:
            raise error

    def autocast(self, enabled: bool = True) -> contextlib.AbstractContextManager:
        """The precision of the training, where autocast makes it. Nothing is cached: passes take other weights."""
        kind = PRECISIONS.get(self.options.precision or "")
        if not enabled or kind not in HALF or "mixed" not in str(self.options.precision):
            return contextlib.nullcontext()
        device = next(p.device.type for p in self.step.parameters())
        return torch.autocast(device, dtype=kind, cache_enabled=False)

    @cached_property
    def attempt(self) -> Trace:
        """One training pass, forward and backward, or as far as it came."""
        with self.quiet(train=True) as step:
            seen = trace(step, self.batches.training, self.places)
        seen.loss_by = self.step.origin.how if isinstance(self.step, Step) else "its training_step"
        return seen

    @property
    def trace(self) -> Trace:
        """The training pass. Raises NotChecked if it fails."""
        if self.attempt.error is not None:
            raise NotChecked("the training pass fails; see pass_fails")
        if self.attempt.skipped:
            raise NotChecked("the training step gives no loss for this batch; pass another one")
        return self.attempt

    @property
    def calls(self) -> list[Call]:
        """The calls of norms in the training pass."""
        return self.trace.calls

    @cached_property
    def arriving(self) -> list[Call]:
        """The calls as far as the training pass came; without autocast if something is not finite in it, so that what
        the precision does is told from what the network does."""
        calls = self.attempt.calls
        if all(math.isfinite(call.largest) for call in calls):
            return calls
        with self.quiet(train=True, wide=True) as step:
            wide = trace(step, self.batches.training, self.places)
        return calls if wide.error is not None else wide.calls

    @property
    def loss(self) -> str:
        """How the training pass computes the loss, in words; PROBE if it is none."""
        return self.attempt.loss_by

    @property
    def guessed(self) -> bool:
        """Whether the loss is a guess or a probe, and not the user's or the network's own."""
        return self.loss == PROBE or "guessed" in self.loss

    @cached_property
    def modes(self) -> Modes:
        """Four passes without gradients: running statistics, the batch's own on both batches, and estimated anew."""
        _ = self.trace  # where training fails, nothing is compared with it
        with self.quiet(train=False) as step, torch.no_grad():
            return modes(step, self.batches, self.tracked)

    def forward(self, batch: Any) -> Tensor:
        """The tensor that the network itself gives for a batch, from copies of the weights. Call it in `quiet`."""
        with weights({p: p.data.clone() for p in self.root.parameters()}):
            return tensor_of(called_with(self.root, split(batch, self.root)[0]))

    def output(self, batch: Any) -> Tensor:
        """The output in float64, a row for each sample.

        Raises NotChecked if the network takes something else, or gives none.
        """
        try:
            y = self.forward(copied(batch))
        except Exception as error:  # of a user's network; the pass of the whole step is judged elsewhere
            raise NotChecked("the network alone cannot be called with a batch; pass it, and loss=") from error
        if y.dim() < 2 or len(y) != self.samples or len(y) < 2:
            raise NotChecked("no output for each sample of a batch of two and more")
        return y.detach().double()

    def parameters(self) -> dict[nn.Parameter, str]:
        """The parameters of the norms themselves -> their names."""
        return {
            p: f"{place.path}.{name}"
            for place in self.places
            for name, p in place.module.named_parameters(recurse=False)
        }

    def code(self, path: str) -> str:
        """The module at a path as code: `model.layer1[0].bn1`."""
        parts = path.split(".") if path else []
        return "model" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in parts)


def keep_input(module: nn.Module, args: tuple, output: Any) -> Any:
    """A hook that makes a norm the identity."""
    return args[0] if args and isinstance(args[0], Tensor) else output


def modes(step: nn.Module, batches: Batches, tracked: list[Place]) -> Modes:
    """See `Modes`. Call it on a copy in eval mode, where it overwrites running statistics."""
    running = float(loss_of(step, copied(batches.held_out)))
    result = Modes(running, running, running)
    for place in tracked:
        place.module.train()
    moments: dict[Place, list[tuple[Tensor, Tensor]]] = {}
    for batch in (batches.training, batches.held_out):
        passed = trace(step, batch, tracked)
        result.batch = passed.loss  # the held-out batch comes last, and its loss stays
        for call in passed.calls:
            # not those of each sample, as InstanceNorm's
            if call.mean.shape == call.place.module.running_mean.shape:
                moments.setdefault(call.place, []).append((call.mean, call.var))
        del passed  # and what it keeps of the activations
    step.eval()
    for place, batch_moments in moments.items():
        means, variances = (torch.stack(parts) for parts in zip(*batch_moments, strict=True))
        mean, var = place.module.running_mean, place.module.running_var
        off = torch.stack([means[-1] - mean, variances[-1].sqrt() - var.sqrt()]).norm(dim=1)
        result.apart[place.path] = float(off.amax() / var.sqrt().norm())
        result.var[place.path] = variances[0]
        # Of all batches together: the mean of their variances and the variance of their means.
        mean.copy_(means.mean(0))
        var.copy_(variances.mean(0) + means.var(0, correction=0))
    result.precise = float(loss_of(step, copied(batches.held_out)))
    return result
