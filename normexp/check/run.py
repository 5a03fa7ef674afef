"""The check itself, `normexp.check(module, loader)`, and a Lightning callback that checks the norms once, before the
first batch of a fit."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.utilities.rank_zero import rank_zero_info
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from normexp.check.finding import declared
from normexp.check.inputs import (
    PRECISIONS,
    CheckOptions,
    as_step,
    require_whole,
    two_batches,
)
from normexp.check.network import Network
from normexp.check.result import SEVERITIES, NotChecked, Result


def check(
    module: nn.Module,
    loader: Any = None,
    *,
    loss: Callable[..., Tensor] | None = None,
    samples: int = 32,
    **options: Any,
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
        options: what is known of the training: optimizer, precision, accumulate, devices, averaged, state_dict, mask,
            converted_from, steps; see `normexp.check.inputs.CheckOptions`.

    Raises:
        ValueError: an unknown precision or library, no parameter or no norm in the network, a loss that cannot be
            called, no samples, or a module whose input is not known.
        TypeError: another option.
    """
    begun, given, name = time.perf_counter(), CheckOptions(**options), type(module).__name__
    require_whole("samples", samples)
    if why := unfit(module):
        raise ValueError(f"module={name}: {why}")
    if loss is not None and not callable(loss):
        raise ValueError(
            f"loss={type(loss).__name__}: cannot be called; pass a function loss(output, target)"
        )
    if loss is None and not getattr(module, "automatic_optimization", True):
        raise ValueError(
            "module: its training_step takes steps itself (automatic_optimization=False); pass its network, and loss="
        )
    step = as_step(module, loss)
    batches, batch_size, said = two_batches(loader, module, samples)
    network = Network(step, batches, batch_size, loader, given)
    if not network.places and not network.attempt.called:
        raise ValueError(f"module={name}: has no normalization layer; there is nothing to check")
    result = Result(name)
    for id, kind in declared().items():
        try:
            findings = kind.findings(network)
            result.findings += findings
            result.healthy += [] if findings else [id]
        except NotChecked as reason:
            result.not_checked[id] = str(reason)
    result.findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    counts = Counter(type(place.module).__name__ for place in network.places)
    counts |= Counter(f"called as {place.module.name}()" for place in network.attempt.called.values())
    norms = ", ".join(f"{count} {name}" for name, count in counts.items())
    result.facts = [f"{norms}; {network.samples} samples a pass; loss: {network.loss}", *said]
    result.seconds = time.perf_counter() - begun
    return result


def unfit(module: Any) -> str:
    """Why no pass through a module can be watched, in a few words; empty if one can."""
    if not isinstance(module, nn.Module):
        return "is no torch module; pass a network or a LightningModule"
    if any(isinstance(layer, torch.jit.ScriptModule) for layer in module.modules()):
        return "is compiled TorchScript; pass the network that it was made of"
    tensors = [*module.parameters(), *module.buffers()]
    if any(is_lazy(x) for x in tensors):
        return "has lazy layers without weights; run one batch through it first"
    if not any(p.is_floating_point() for p in module.parameters()):
        return "has no parameters; pass a network that trains"
    if any(x.is_meta for x in tensors):
        return "has weights without memory (meta); load or initialize them first"
    return ""


class CheckNorms(Callback):
    """Checks the network at the start of `fit` and says at most five lines. The training keeps its bits.

    Args:
        strict: stop with an error if there is an error or a warning.
        samples: batches are cut to this many samples.

    Attributes:
        result: of the last check.
    """

    def __init__(self, *, strict: bool = False, samples: int = 32) -> None:
        self.strict, self.samples = strict, samples
        self.result: Result | None = None

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        """A new fit is checked anew."""
        self.result = None

    def on_train_batch_start(
        self, trainer: Trainer, module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Check the module with its first batch, and the trainer's optimizer, precision, accumulation and processes.

        The loader is not asked for another batch: that would move one whose workers persist.
        """
        if self.result is not None:
            return
        precision, steps = str(trainer.precision), trainer.num_training_batches
        self.result = check(
            module,
            [batch],
            optimizer=next(iter(trainer.optimizers), None),
            precision=precision if precision in PRECISIONS else None,
            accumulate=trainer.accumulate_grad_batches,
            devices=trainer.world_size,
            steps=int(steps) if steps < float("inf") else None,
            samples=self.samples,
        )
        lines = self.result.lines()
        for line in lines:
            rank_zero_info(line)
        if self.strict and not self.result.ok:
            raise ValueError("\n".join(lines))
