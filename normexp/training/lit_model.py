"""The LightningModule: loss, accuracy and optimizer of a classifier of images or of next characters."""

import inspect
from typing import Literal

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from normexp.optimizers import parameter_groups

# Samples on a CPU. The activations of more leave its caches, and convolutional networks take up to twice as long.
EVALUATED_AT_ONCE = 512


def loss_and_right(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor, int]:
    """(mean cross-entropy in nats, number of right answers, number of answers) of (N, [T,] K) and (N, [T]). Targets
    have 1 - smoothing on their class and smoothing / K on each class."""
    logits, targets = logits.flatten(0, -2), targets.flatten()  # (N, T, K) -> (N T, K)
    loss = F.cross_entropy(logits, targets, label_smoothing=smoothing)
    return loss, (logits.detach().argmax(-1) == targets).sum(), targets.numel()


def each_example(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """(whether each answer is right, cross-entropy of each example in nats) of (N, [T,] K) and (N, [T]).

    A window of a text is one example: its loss is the mean over its tokens, (N,); its answers are (N, T).
    """
    losses = F.cross_entropy(logits.float().flatten(0, -2), targets.flatten(), reduction="none")
    return logits.argmax(-1) == targets, losses.view(len(targets), -1).mean(1)


class LitModel(pl.LightningModule):
    """Trains `model` with cross-entropy. It knows no norm and no data set.

    Shapes: inputs (N, ...), logits (N, K) with targets (N,), or logits (N, T, K) with targets (N, T).
    The loss is the mean over targets, in nats. Evaluation sums over a split and divides once, so a short last batch has
    the right weight.

    Args:
        optimizer: makes a torch optimizer from parameter groups.
        schedule: `schedule(step, total_steps)` gives the factor on the learning rate.
        total_steps: optimizer steps of the whole run, for the schedule. (Lightning's `estimated_stepping_batches` would
            start the loaders before a resumed run has restored their place.)
        channels_last: memory format of four-dimensional inputs.
        label_smoothing: of the targets in training; see `loss_and_right`.
        decay: which parameters get weight decay, see `optimizers.parameter_groups`.
        tta: `flip`: evaluation takes the mean logits of an image and its mirror image.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer,
        schedule,
        *,
        total_steps: int,
        channels_last: bool = False,
        label_smoothing: float = 0.0,
        decay: Literal["matrices", "all"] = "matrices",
        tta: Literal["none", "flip"] = "none",
    ):
        super().__init__()
        self.model = model
        self.make_optimizer = optimizer
        self.schedule = schedule
        self.total_steps = total_steps
        self.channels_last = channels_last
        self.label_smoothing = label_smoothing
        self.decay = decay
        self.tta = tta
        # if a list, evaluation appends each batch to it
        self.examples: list[tuple[Tensor, Tensor]] | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        # Evaluation does not use the compiled forward: its few batches have other shapes, and each would be compiled.
        # The model's hooks run in both.
        return self.model(inputs) if self.training else self.model._call_impl(inputs)

    def logits_of(self, inputs: Tensor) -> Tensor:
        if self.channels_last and inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        return self(inputs)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> dict[str, Tensor]:
        inputs, targets = batch
        loss, right, count = loss_and_right(self.logits_of(inputs), targets, self.label_smoothing)
        # The callbacks get tensors, so that a step never waits for the device. Lightning divides `loss` under gradient
        # accumulation, hence the second name.
        return {"loss": loss, "batch_loss": loss.detach(), "batch_accuracy": right / count}

    @staticmethod
    def batches_of_step(trainer: pl.Trainer) -> int:
        """Batches whose mean gradient this step takes. Under accumulation an epoch's last step has those left."""
        most = trainer.accumulate_grad_batches
        return min(most, int(trainer.num_training_batches) - trainer.fit_loop.batch_idx // most * most)

    def backward(self, loss: Tensor, *args, **kwargs) -> None:
        """The backward pass in Lightning's own loop, which divides each loss as if every step had all its batches."""
        batches, most = self.batches_of_step(self.trainer), self.trainer.accumulate_grad_batches
        super().backward(loss if batches == most else loss * (most / batches), *args, **kwargs)

    def evaluated(self, inputs: Tensor) -> Tensor:
        """Logits of an evaluated batch, each sample by itself. A CPU takes the batch in parts."""
        if self.tta == "flip":
            return (self.evaluated_once(inputs).float() + self.evaluated_once(inputs.flip(-1)).float()) / 2
        return self.evaluated_once(inputs)

    def evaluated_once(self, inputs: Tensor) -> Tensor:
        if inputs.device.type != "cpu":
            return self.logits_of(inputs)
        return torch.cat([self.logits_of(part) for part in inputs.split(EVALUATED_AT_ONCE)])

    def on_validation_epoch_start(self) -> None:
        self.totals: list[Tensor] = []

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        inputs, targets = batch
        logits = self.evaluated(inputs)
        if logits.element_size() < 4:  # a mean loss in bfloat16 has three digits
            logits = logits.float()
        loss, right, count = loss_and_right(logits, targets)
        if self.examples is not None:
            self.examples.append(each_example(logits, targets))
        # In float64 if the device has it. Then sums over a split do not depend on its batches.
        wide = torch.float32 if loss.device.type == "mps" else torch.float64
        self.totals.append(
            torch.stack([loss.to(wide) * count, right.to(wide), torch.full_like(loss, count, dtype=wide)])
        )

    def evaluation_result(self) -> dict[str, float]:
        """Loss and accuracy over the split just evaluated. It synchronizes with the device, once per evaluation."""
        loss, right, count = torch.stack(self.totals).sum(0).tolist()
        return {"loss": loss / count, "accuracy": right / count}

    def on_validation_epoch_end(self) -> None:
        self.validation_result = self.evaluation_result()
        # For the callbacks of Lightning that look at it. The recorder writes to the loggers.
        self.log_dict({f"val/{name}": value for name, value in self.validation_result.items()}, logger=False)

    def configure_optimizers(self):
        # Fused kernels take a quarter of the time. With a gradient scaler, they hide the true gradients.
        return self.make_optimizers(fused=not self.trainer.precision.startswith("16"))

    def make_optimizers(self, *, fused: bool):
        """The optimizer, with its schedule if the rate varies."""
        groups = parameter_groups(
            self.model,
            weight_decay=self.make_optimizer.keywords.get("weight_decay") or 0.0,
            decay=self.decay,
            matrices_apart=getattr(self.make_optimizer.func, "takes_matrices_apart", False),
            layers_apart=getattr(self.make_optimizer.func, "takes_layers_apart", False),
        )
        # Not every optimizer has a fused kernel.
        kernel = {"fused": fused} if "fused" in inspect.signature(self.make_optimizer).parameters else {}
        optimizer = self.make_optimizer(groups, **kernel)
        if not self.schedule.varies:
            return optimizer
        factor = LambdaLR(optimizer, lambda step: self.schedule(step, self.total_steps))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": factor, "interval": "step"}}
