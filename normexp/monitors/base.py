"""What every monitor shares: when it measures, on which batches, and how its values are logged.

    on_train_batch_start        if due: a Monitor makes passes of its own and logs, a StepMonitor attaches hooks
      forward, backward         a StepMonitor's hooks record on the device
    on_before_optimizer_step    it reads the gradients: unscaled, accumulated, not yet clipped
    on_train_batch_end          it detaches and logs
    on_train_end                both measure once more, with the last weights, by passes of their own

A value's step is the number of optimizer steps done before it was measured: 0 is the network at initialization.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.loggers import Logger
from torch import Tensor, nn

from normexp.monitors.activation_statistics import wide
from normexp.monitors.batches import Batches, batches_of, held_out_batch
from normexp.monitors.guard import eager_steps, passes_as_in, to_module, untouched


class Monitor(Callback):
    """Measures every `every_n_steps` optimizer steps, at initialization and after the last step.

    Subclasses write `compute` and `keys`. `batch_size` is the number of held-out samples, where the data module has
    `probe_batch(n)`; from other data comes the first validation batch.
    """

    measures_after_training = True

    def __init__(self, *, every_n_steps: int, batch_size: int = 512) -> None:
        for name, value in (("every_n_steps", every_n_steps), ("batch_size", batch_size)):
            if value < 1:
                raise ValueError(f"{name}={value}: must be at least 1")
        self.every_n_steps = every_n_steps
        self.batch_size = batch_size
        self.recorded: dict[str, list[tuple[int, float]]] = {}  # tag -> (step, value), for charts
        self._started_at: int | None = None  # the last step at which a measurement began
        self._held_out: Any = None
        self._training: Any = None  # the batch of the step

    def keys(self) -> set[str]:
        """Statistics this monitor can emit; the tags are `<statistic>/<layer>`."""
        raise NotImplementedError

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        """Tag -> 0-dimensional tensor. Runs under `untouched`."""
        raise NotImplementedError

    def measure(self, module: LightningModule, data: Any, *, step: int = 0) -> dict[str, float]:
        """Measure now, without a trainer. `data` is a LightningDataModule, a batch or `Batches`.

        The module is used in the mode that it is in; a new one is in training mode.
        """
        batches = data if isinstance(data, Batches) else batches_of(data, self.batch_size)
        with untouched(module):
            values = self.compute(module, Batches(*(to_module(batch, module) for batch in batches)), step)
        return to_floats(values)

    def record(self, loggers: Sequence[Logger], values: Mapping[str, float], step: int) -> None:
        if not values:
            raise ValueError(
                f"monitor {type(self).__name__}: recorded nothing at step {step}; the module has no site it "
                "measures: define `sites()` or leave this monitor out"
            )
        for tag, value in values.items():
            self.recorded.setdefault(tag, []).append((step, value))
        for logger in loggers:
            logger.log_metrics(values, step)

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        if stage == "fit":
            self.recorded, self._started_at = {}, None
            self._held_out = self._training = None  # an exception ends a fit without teardown

    def on_train_batch_start(
        self, trainer: Trainer, module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._training = batch
        if self._held_out is None:
            self._held_out = held_out_batch(trainer, batch, self.batch_size)
        step = trainer.global_step
        # Under gradient accumulation several batches share a step: its first one counts.
        if step % self.every_n_steps == 0 and step != self._started_at:
            self._started_at = step
            self.start(trainer, module, step)

    def start(self, trainer: Trainer, module: LightningModule, step: int) -> None:
        self._measure_and_record(trainer, module, step)

    def _measure_and_record(self, trainer: Trainer, module: LightningModule, step: int) -> None:
        with passes_as_in(trainer):
            values = self.measure(module, Batches(self._held_out, self._training), step=step)
        self.record(trainer.loggers, values, step)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        step = trainer.global_step
        if self.measures_after_training and self._training is not None and step != self._started_at:
            self._measure_and_record(trainer, module, step)

    def teardown(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        self._held_out = self._training = None


class StepMonitor(Monitor):
    """Watches training steps themselves, through hooks that exist during the measured steps alone."""

    reads_gradients = False  # whether `before_update` is called

    def __init__(self, *, every_n_steps: int) -> None:
        super().__init__(every_n_steps=every_n_steps)
        self.handles: list[torch.utils.hooks.RemovableHandle] = []
        self.watching = False

    def watch(self, module: LightningModule, batch: Any, step: int) -> None:
        """Before the forward pass: attach hooks, append them to `handles`."""

    def before_update(self, gradients: dict[nn.Parameter, Tensor], backward_scale: float) -> None:
        """After the backward pass. `backward_scale` multiplies the gradients of activations."""

    def collect(self, module: LightningModule) -> Mapping[str, Tensor] | None:
        """After the update: the values, or None to watch another step."""
        raise NotImplementedError

    def start(self, trainer: Trainer, module: LightningModule, step: int) -> None:
        self.watching = True
        eager_steps.enter(self, module)
        self.watch(module, self._training, step)

    def on_before_optimizer_step(self, trainer: Trainer, module: LightningModule, optimizer: Any) -> None:
        if not (self.watching and self.reads_gradients):
            return
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        loss_scale = scaler.get_scale() if scaler else 1.0
        # Fused optimizers unscale in their own step, so that `.grad` still is too large by the scale here.
        scale = loss_scale if getattr(optimizer, "_step_supports_amp_scaling", False) else 1.0
        gradients = {p: p.grad for p in module.parameters() if p.grad is not None}
        if scale != 1:
            gradients = {p: gradient / scale for p, gradient in gradients.items()}
        self.before_update(gradients, loss_scale / trainer.accumulate_grad_batches)

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: Any) -> None:
        if not self.watching or trainer.global_step == self._started_at:
            return
        with passes_as_in(trainer):
            values = self.collect(module)
        if values is not None:
            self.release()
            self.record(trainer.loggers, to_floats(values), self._started_at)

    def release(self) -> None:
        self.watching = False
        eager_steps.leave(self)
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.release()
        super().on_train_end(trainer, module)

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        self.release()

    def teardown(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        self.release()
        super().teardown(trainer, module, stage)


def to_floats(values: Mapping[str, Tensor]) -> dict[str, float]:
    """One copy from the device for all values together."""
    if not values:
        return {}
    scalars = [value.detach() for value in values.values()]
    if len({scalar.dtype for scalar in scalars}) > 1:
        scalars = [wide(scalar) for scalar in scalars]
    return dict(zip(values, torch.stack(scalars).tolist(), strict=True))
