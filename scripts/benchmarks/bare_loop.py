"""The shortest loop that trains a network on the data of a run: what runs and recipes are compared with."""

import contextlib
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normexp.config.run_spec import specs
from normexp.data.base import BatchLoader
from normexp.data.rows import Rows
from normexp.training.parts import build

MOST_EVALUATED, EVALUATED_AT_ONCE = 10_000, 512  # examples
# Network, optimizers and label smoothing.
Peer = tuple[nn.Module, list[torch.optim.Optimizer], float]


class BareLoop:
    """Steps and evaluations on the CPU, without logging and monitors.

    Args:
        overrides: of the run whose data, network and optimizer these are.
        peer: makes another network with its optimizers from the training images.
        bfloat16: multiply in it.
    """

    def __init__(
        self, overrides: list[str], peer: Callable[[Tensor], Peer] | None = None, *, bfloat16: bool = False
    ) -> None:
        parts, cpu = build(*specs(["recipe=plain", *overrides])), torch.device("cpu")
        self.splits, self.is_text = parts.data.splits, parts.data.kind == "text"
        split = self.splits["train"]
        # windows of one stream, or rows
        self.train = parts.data.rows("train", cpu, training=True) if self.is_text else Rows(*split)
        self.augmentation = parts.data.augmentation(cpu)
        order = parts.data.training_order(split)
        self.loader, self.epoch = BatchLoader(self.train, order, augmentation=self.augmentation), -1
        model = parts.module.model.train()
        own: Peer = model, [parts.module.make_optimizer(model.parameters(), fused=True)], 0.0
        self.network, self.optimizers, self.smoothing = peer(self.train.x) if peer else own
        groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        self.rates = [(group, group["lr"]) for group in groups]
        self.channels_last = parts.module.channels_last and not self.is_text
        self.mirrors = parts.module.tta == "flip"
        self.precision = torch.autocast("cpu", torch.bfloat16) if bfloat16 else contextlib.nullcontext()

    def step(self, i: int, factor: float | None = None) -> None:
        """Train on batch i, counted over all epochs, at this part of the first rates if it is given."""
        inputs, targets = self.batch(i)
        for group, rate in self.rates if factor is not None else ():
            group["lr"] = rate * factor
        loss = F.cross_entropy(*self.forward(inputs, targets), label_smoothing=self.smoothing)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()

    def batch(self, i: int) -> tuple[Tensor, Tensor]:
        """Batch i, in the order of the run, augmented as there."""
        epoch, number = divmod(i, len(self.loader))
        if epoch != self.epoch:
            self.epoch, (self.rows, self.draws) = epoch, self.loader.plan_epoch(epoch)
        inputs, targets = self.train.take(self.rows[number])
        if self.augmentation is not None and self.draws is not None:
            inputs = self.augmentation(inputs, self.draws[number])
        return inputs, targets

    def forward(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (N, K) in float32 and their targets (N,)."""
        if self.channels_last and inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        with self.precision:
            logits = self.network(inputs)
        if self.is_text:
            logits, targets = logits.flatten(0, -2), targets.flatten()
        return logits.float(), targets

    @torch.no_grad()
    def evaluate(self, split: str) -> float:
        """Loss and accuracy of at most 10,000 examples of a split, seen as the run's options say. Returns the
        accuracy."""
        examples = Rows(*self.splits[split])
        count = min(len(examples), MOST_EVALUATED)
        right = torch.zeros((), dtype=torch.long)
        self.network.eval()
        for part in torch.arange(count).split(EVALUATED_AT_ONCE):
            inputs, targets = examples.take(part)
            logits, targets = self.forward(inputs, targets)
            if self.mirrors:
                logits = (logits + self.forward(inputs.flip(-1), targets)[0]) / 2
            F.cross_entropy(logits, targets)
            right += (logits.argmax(-1) == targets).sum()
        self.network.train()
        return right.item() / count
