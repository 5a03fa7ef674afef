"""Monitors that watch the steps of training themselves."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from pytorch_lightning import LightningModule, Trainer
from torch import Tensor, nn

from normexp.monitors.base import Monitor, WritesIntoInputs, to_floats
from normexp.monitors.guard import eager_steps, passes_as_in


class StepMonitor(Monitor):
    """Watches training steps through hooks, which exist only during the measured steps."""

    reads_gradients = False  # whether `before_update` is called

    def __init__(self, *, every_n_steps: int) -> None:
        super().__init__(every_n_steps=every_n_steps)
        self.handles: list[torch.utils.hooks.RemovableHandle] = []
        self.watching = False

    def watch(self, module: LightningModule, batch: Any, step: int) -> None:
        """Before the forward pass: attach hooks and append them to `handles`."""

    def before_update(self, gradients: dict[nn.Parameter, Tensor], backward_scale: float) -> None:
        """After the backward pass: read gradients. Gradients of activations are scaled by `backward_scale`."""

    def collect(self, module: LightningModule) -> Mapping[str, Tensor] | None:
        """After the update: return the values, or None to watch one more step."""
        raise NotImplementedError

    def start(self, trainer: Trainer, module: LightningModule, step: int) -> None:
        self.watching = True
        eager_steps.enter(self, module)
        self.watch(module, self.training_batch, step)

    def on_before_optimizer_step(self, trainer: Trainer, module: LightningModule, optimizer: Any) -> None:
        if not (self.watching and self.reads_gradients):
            return
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        loss_scale = scaler.get_scale() if scaler else 1.0
        # Fused optimizers unscale inside their step, so `.grad` is still scaled here.
        scale = loss_scale if getattr(optimizer, "_step_supports_amp_scaling", False) else 1.0
        gradients = {p: p.grad for p in module.parameters() if p.grad is not None}
        if len(trainer.optimizers) > 1:  # others' gradients are from another loss, or from before
            own = {p for group in optimizer.param_groups for p in group["params"]}
            gradients = {p: gradient for p, gradient in gradients.items() if p in own}
        if not gradients:
            return
        if scale != 1:
            gradients = {p: gradient / scale for p, gradient in gradients.items()}
        self.before_update(gradients, loss_scale / trainer.accumulate_grad_batches)

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: Any) -> None:
        if not self.watching or trainer.global_step == self.started_at:
            return
        with passes_as_in(trainer):
            values = self.collect(module)
        if values is not None:
            self.release()
            self.record(trainer.loggers, to_floats(values), self.started_at)

    def release(self) -> None:
        self.watching = False
        eager_steps.leave(self)
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.release()
        try:
            super().on_train_end(trainer, module)
        except WritesIntoInputs as error:  # the last step changed its batch, which cannot be measured again
            warnings.warn(f"{error}. There is no value after the last step.", stacklevel=2)

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        self.release()

    def teardown(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        self.release()
        super().teardown(trainer, module, stage)
