"""The base of all monitors: when they measure, on which batches, and how their values are logged.

A Monitor measures in passes of its own. A StepMonitor watches the training step. Lightning calls both in this order:

    on_train_batch_start        Monitor, if due: makes its passes and logs
                                StepMonitor, if due: attaches hooks to the layers
    forward and backward pass   StepMonitor: its hooks record, on the device
    on_before_optimizer_step    StepMonitor: reads the gradients (unscaled, accumulated, not yet clipped)
    on_train_batch_end          StepMonitor: detaches its hooks and logs
    on_train_end                both: measure the final weights, in passes of their own

A value's step is the number of optimizer steps before it was measured. Step 0 is the network at initialization."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.loggers import Logger
from torch import Tensor, nn

from normexp.format import require_at_least
from normexp.monitors.batches import Batches, batches_of, gathered_batch, held_out_batch, last_training_batch
from normexp.monitors.guard import guard_depth, passes_as_in, run_eagerly, to_module, untouched
from normexp.monitors.sites import wide

Recorded = Mapping[str, Sequence[tuple[int, float]]]  # tag -> (step, value)
USUAL = 100  # steps from one measurement to the next, in a run without an end


def a_twentieth(trainer: Trainer, module: LightningModule) -> int:
    """Steps from one measurement to the next, so that a run of any length has about twenty. At least 2, because some
    measures compare two steps."""
    total = getattr(module, "total_steps", None) or trainer.estimated_stepping_batches
    return max(2, round(total / 20)) if 0 < total < float("inf") else USUAL


class Monitor(Callback):
    """Measures every `every_n_steps` optimizer steps (None: twenty times in the run), at initialization and after the
    last step.

    Subclasses define `compute` and `keys`. If the data module has `probe_batch(n)`, the monitor takes `batch_size`
    held-out samples from it. Otherwise it takes the first validation batch.
    """

    measures_after_training = True
    remedy = "define `sites()` on the module"  # where it recorded nothing

    def __init__(self, *, every_n_steps: int | None, batch_size: int = 512) -> None:
        require_at_least("every_n_steps", every_n_steps, 1)
        require_at_least("batch_size", batch_size, 1)
        self.asked = every_n_steps
        self.every_n_steps = every_n_steps or USUAL  # without a trainer; with one, `setup` knows its length
        self.batch_size = batch_size
        self.recorded: dict[str, list[tuple[int, float]]] = {}  # tag -> (step, value), for charts
        self.started_at: int | None = None  # the last step at which a measurement began
        self._held_out: Any = None
        self.training_batch: Any = None  # the batch of the step
        self._warned = False

    def keys(self) -> set[str]:
        """Statistics that this monitor can emit. Tags are `<statistic>/<layer>`."""
        raise NotImplementedError

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        """Compute tag -> 0-dimensional tensor. Runs under `untouched`."""
        raise NotImplementedError

    def measure(self, module: LightningModule, data: Any, *, step: int = 0) -> dict[str, float]:
        """Measure now, without a trainer. `data` is a LightningDataModule, a batch or `Batches`.

        The module keeps its mode. A new module is in training mode.
        """
        batches = data if isinstance(data, Batches) else batches_of(data, self.batch_size)
        batches = Batches(*(to_module(batch, module) for batch in batches))
        with untouched(module):
            return to_floats(self.compute(module, batches, step))

    def record(self, loggers: Sequence[Logger], values: Mapping[str, float], step: int) -> None:
        if not values and not self._warned:
            self._warned = True
            text = f"recorded nothing; {self.remedy}, or leave it out"
            warnings.warn(f"monitor {type(self).__name__}: {text}", stacklevel=2)
        for tag, value in values.items():
            self.recorded.setdefault(tag, []).append((step, value))
        for logger in loggers:
            logger.log_metrics(values, step)

    @property
    def state_key(self) -> str:
        """Tells two monitors of one class apart."""
        return self._generate_state_key(every_n_steps=self.asked, keys=sorted(self.keys()))

    def state_dict(self) -> dict[str, Any]:
        """The recorded values, for charts, and the last step, so that a resumed run records each value once."""
        return {"recorded": self.recorded, "started_at": self.started_at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.recorded, self.started_at = state["recorded"], state["started_at"]

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        if stage == "fit":
            if not module.automatic_optimization:
                raise ValueError(
                    f"monitor {type(self).__name__}: training_step takes steps itself; leave it out"
                )
            self.every_n_steps = self.asked or a_twentieth(trainer, module)
            self.recorded, self.started_at, self._warned = {}, None, False
            self._held_out = self.training_batch = None  # an earlier fit that failed did no teardown

    def on_train_batch_start(
        self, trainer: Trainer, module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self.training_batch = batch
        if self._held_out is None:
            self._held_out = held_out_batch(trainer, batch, self.batch_size)
        step = trainer.global_step
        # Under gradient accumulation several batches share a step. The first one counts.
        if step % self.every_n_steps == 0 and step != self.started_at:
            self.started_at = step
            self.start(trainer, module, step)

    def start(self, trainer: Trainer, module: LightningModule, step: int) -> None:
        self._measure_and_record(trainer, module, step)

    def _measure_and_record(self, trainer: Trainer, module: LightningModule, step: int) -> None:
        with passes_as_in(trainer):
            values = self.measure(
                module, Batches(self._held_out, gathered_batch(self.training_batch)), step=step
            )
        self.record(trainer.loggers, values, step)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        step = trainer.global_step
        if not self.measures_after_training or step == self.started_at:
            return
        if self.training_batch is None and step:  # the run was resumed after its last step
            self.training_batch = last_training_batch(trainer)
        if self.training_batch is not None:
            if self._held_out is None:
                self._held_out = held_out_batch(trainer, self.training_batch, self.batch_size)
            self._measure_and_record(trainer, module, step)

    def teardown(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        self._held_out = self.training_batch = None


def to_floats(values: Mapping[str, Tensor]) -> dict[str, float]:
    """All values as floats, with one copy from the device."""
    if not values:
        return {}
    scalars = [value.detach() for value in values.values()]
    if len({scalar.dtype for scalar in scalars}) > 1:
        scalars = [wide(scalar) for scalar in scalars]
    return dict(zip(values, torch.stack(scalars).tolist(), strict=True))


class StepMonitor(Monitor):
    """Watches training steps through hooks, which exist only during the measured steps."""

    reads_gradients = False  # whether `before_update` is called

    def __init__(self, *, every_n_steps: int | None) -> None:
        super().__init__(every_n_steps=every_n_steps)
        self.handles: list[torch.utils.hooks.RemovableHandle] = []
        self.watching = False

    def watch(self, module: LightningModule, batch: Any, step: int) -> None:
        """Before the forward pass: attach hooks and append them to `handles`."""

    def hear(
        self, module: nn.Module, record: Callable[[tuple, dict, Any], None], *, before: bool = False
    ) -> None:
        """Call `record(inputs, named, output)` at the first pass of a layer in this step, or before it: an in-place
        activation overwrites its input. Passes that other monitors make do not count."""
        depth = guard_depth()

        def hook(layer: nn.Module, inputs: tuple, named: dict, output: Any = None) -> None:
            if guard_depth() == depth:
                handle.remove()
                record(inputs, named, output)

        attach = module.register_forward_pre_hook if before else module.register_forward_hook
        handle = attach(hook, with_kwargs=True)
        self.handles.append(handle)

    def before_update(self, gradients: dict[nn.Parameter, Tensor], backward_scale: float) -> None:
        """After the backward pass: read gradients. Gradients of activations are scaled by `backward_scale`."""

    def collect(self, module: LightningModule) -> Mapping[str, Tensor] | None:
        """After the update: return the values, or None to watch one more step."""
        raise NotImplementedError

    def start(self, trainer: Trainer, module: LightningModule, step: int) -> None:
        self.watching = True
        run_eagerly(module, True)
        self.watch(module, self.training_batch, step)

    def on_before_optimizer_step(self, trainer: Trainer, module: LightningModule, optimizer: Any) -> None:
        if not (self.watching and self.reads_gradients):
            return
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        loss_scale = scaler.get_scale() if scaler else 1.0
        # Fused optimizers unscale inside their step, so `.grad` is still scaled here.
        scale = loss_scale if getattr(optimizer, "_step_supports_amp_scaling", False) else 1.0
        gradients = {p: p.grad for p in module.parameters() if p.grad is not None}
        if scale != 1:
            gradients = {p: gradient / scale for p, gradient in gradients.items()}
        of_step = getattr(module, "batches_of_step", lambda trainer: trainer.accumulate_grad_batches)
        self.before_update(gradients, loss_scale / of_step(trainer))

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: Any) -> None:
        if not self.watching or trainer.global_step == self.started_at:
            return
        with passes_as_in(trainer):
            values = self.collect(module)
        if values is not None:
            self.release(module)
            self.record(trainer.loggers, to_floats(values), self.started_at)

    def release(self, module: nn.Module) -> None:
        if self.watching:
            run_eagerly(module, False)
        self.watching = False
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.release(module)
        super().on_train_end(trainer, module)

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        self.release(module)

    def teardown(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        self.release(module)
        super().teardown(trainer, module, stage)
