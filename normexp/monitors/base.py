"""The base of all monitors: when they measure, on which batches, and how their values are logged.

A Monitor measures in passes of its own. A StepMonitor watches the training step. Lightning calls both in this order:

    on_train_batch_start        Monitor, if due: makes its passes and logs
                                StepMonitor, if due: attaches hooks to the layers
    forward and backward pass   StepMonitor: its hooks record, on the device
    on_before_optimizer_step    StepMonitor: reads the gradients (unscaled, accumulated, not yet clipped)
    on_train_batch_end          StepMonitor: detaches its hooks and logs
    on_train_end                both: measure the final weights, in passes of their own

A value's step is the number of optimizer steps before it was measured. Step 0 is the network at initialization.

No monitor ends a training. Where one fails, it says so once, is put away, and training goes on with the same bits; only
`monitor.strict = True` lets the error through."""

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.loggers import Logger
from torch import Tensor, nn

from normexp.format import require_at_least, require_object
from normexp.monitors.batches import (
    Batches,
    as_step,
    batches_of,
    gathered_batch,
    held_out_batch,
    last_training_batch,
    size_of,
)
from normexp.monitors.guard import (
    LAZY,
    NoLoss,
    guard_depth,
    is_lazy,
    passes_as_in,
    require_whole_tensors,
    run_eagerly,
    to_module,
    untouched,
)
from normexp.monitors.sites import first_tensor, in_vmap, number_of, wide

Recorded = Mapping[str, Sequence[tuple[int, float]]]  # tag -> (step, value)
USUAL = 100  # steps from one measurement to the next, in a run without an end


def a_twentieth(trainer: Trainer, module: LightningModule) -> int:
    """Steps from one measurement to the next, so that a run of any length has about twenty. At least 2, because some
    measures compare two steps."""
    total = getattr(module, "total_steps", None) or trainer.estimated_stepping_batches
    return max(2, round(total / 20)) if 0 < total < float("inf") else USUAL


WATCHED = {
    "setup", "on_train_start", "on_train_batch_start", "on_before_optimizer_step", "on_train_batch_end", "on_train_end",
    "on_exception", "teardown", "load_state_dict",
}  # fmt: skip


def _never_ends(name: str, call: Callable) -> Callable:
    """A hook of Lightning that does not raise, and does nothing once its monitor has stopped."""
    always = name in ("setup", "on_exception", "teardown")

    @functools.wraps(call)
    def safe(self: "Monitor", *args: Any, **named: Any) -> None:
        try:
            if always or not self.stopped:
                call(self, *args, **named)
            elif self.handles and len(args) > 1:
                self.release(args[1])  # it stopped in the forward pass, where no hook can be removed
        except Exception as error:  # no context here: each step calls some six of these
            self.failed(error)

    return safe


def _make_safe(cls: type) -> None:
    for name in WATCHED & vars(cls).keys():
        setattr(cls, name, _never_ends(name, vars(cls)[name]))


class Monitor(Callback):
    """Measures every `every_n_steps` optimizer steps (None: twenty times in the run), at initialization and after the
    last step.

    Subclasses define `compute` and `keys`. If the data module has `probe_batch(n)`, the monitor takes `batch_size`
    held-out samples from it, None as many as a training batch has. Otherwise it takes the first validation batch.

    Attributes:
        strict: whether an error of the monitor ends the training.
        only: globs of the tags to record.
        stopped: why it measures no more; empty while it does.
        recorded: tag -> (step, value), for charts.
        started_at: the last step at which a measurement began.
        training_batch: the batch of the step.
    """

    recorded: dict[str, list[tuple[int, float]]]
    started_at: int | None
    training_batch: Any

    strict = False
    only: Sequence[str] = ("*",)
    stopped = ""
    measures_after_training = True
    remedy = "no layer that it measures ran; define `sites()` on the module"  # where it recorded nothing

    def __init__(self, *, every_n_steps: int | None, batch_size: int | None = 512) -> None:
        require_at_least("every_n_steps", every_n_steps, 1)
        require_at_least("batch_size", batch_size, 1)
        self.asked = every_n_steps
        self.every_n_steps = every_n_steps or USUAL  # without a trainer; with one, `setup` knows its length
        self.batch_size = batch_size
        self.handles: list[Any] = []  # of hooks and listeners, for `release`
        self.forget()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _make_safe(cls)

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """In this context an error stops the monitor and nothing else. A batch without a loss is passed over."""
        try:
            yield
        except Exception as error:
            self.failed(error)

    def failed(self, error: Exception) -> None:
        """Stop after an error, and say so; raise it if the monitor is strict."""
        if self.strict:
            raise error
        reason = " ".join(f"{error}".split())[:300] or type(error).__name__
        if isinstance(error, NoLoss):
            self.say(reason)
        else:
            self.stopped = reason
            self.say(f"measures no more, training goes on: {reason}")

    def say(self, text: str) -> None:
        """Warn, once in a training."""
        if text not in self._said:
            self._said.add(text)
            warnings.warn(f"monitor {type(self).__name__}: {text}", stacklevel=3)

    def keys(self) -> set[str]:
        """Statistics that this monitor can emit. Tags are `<statistic>/<layer>`."""
        raise NotImplementedError

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        """Compute tag -> 0-dimensional tensor. Runs under `untouched`, which drops the hooks that it adds to layers."""
        raise NotImplementedError

    def measure(
        self, module: nn.Module, data: Any, *, step: int = 0, loss: Callable[..., Tensor] | None = None
    ) -> dict[str, float]:
        """Measure now, without a trainer. `module` is a LightningModule, or any network with `loss(output, target)`,
        see `batches.Step`. `data` is a LightningDataModule, a batch or `Batches`. An error is raised.

        The module keeps its mode. A new module is in training mode.
        """
        require_object("data", data)
        module = as_step(module, loss)
        batches = data if isinstance(data, Batches) else batches_of(data, self.batch_size)
        if size_of(batches.training) == 0:
            raise ValueError("data: the batch has no samples; pass one that has some")
        batches = Batches(*(to_module(batch, module) for batch in batches))
        strict, self.strict, self.stopped = self.strict, True, ""
        try:
            with untouched(module):
                values = to_floats(self.compute(module, batches, step))
            if not values and self.training_batch is None:  # of no trainer, which asks at its end
                self._found_nothing = True
                self.say_if_nothing()
            return values
        finally:
            self.strict = strict
            self.release(module)

    def release(self, module: nn.Module) -> None:
        """Remove all hooks and listeners."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def record(self, loggers: Sequence[Logger], values: Mapping[str, float], step: int) -> None:
        self._found_nothing |= not values
        values = {tag: x for tag, x in values.items() if any(fnmatchcase(tag, glob) for glob in self.only)}
        # The last weights of a finished run are the first ones where it is trained on.
        done = {tag for tag, (*_, last) in self.recorded.items() if last[0] == step}
        values = {tag: x for tag, x in values.items() if tag not in done}
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
            earlier = self.state_dict() if trainer.global_step else None
            self.forget()
            if earlier is not None:  # the trainer goes on behind an earlier fit
                self.load_state_dict(earlier)
            if not module.automatic_optimization:
                raise ValueError("training_step takes steps itself; leave the monitor out")

    def forget(self) -> None:
        """Begin anew: a fit of another trainer left its values, and a failed one did no teardown. A resumed run loads
        its state later."""
        self.recorded, self.started_at, self.stopped = {}, None, ""
        self.training_batch = self._held_out = None
        self._said: set[str] = set()
        self._found_nothing = False  # a measurement did

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        # Not in `setup`: the length is asked of loaders, which the module may make later.
        self.every_n_steps = self.asked or a_twentieth(trainer, module)

    def on_train_batch_start(
        self, trainer: Trainer, module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self.training_batch = batch
        step = trainer.global_step
        # Under gradient accumulation several batches share a step. The first one counts.
        if step % self.every_n_steps == 0 and step != self.started_at:
            if size_of(batch) == 0:
                self.say("leaves a batch without samples out")
                return
            if is_lazy(module):
                raise ValueError(f"the network {LAZY}")
            self.started_at = step
            self.start(trainer, module, step)

    def start(self, trainer: Trainer, module: LightningModule, step: int) -> None:
        self._measure_and_record(trainer, module, step)

    def _measure_and_record(self, trainer: Trainer, module: LightningModule, step: int) -> None:
        if self._held_out is None:
            self._held_out = held_out_batch(trainer, self.training_batch, self.batch_size)
        batches = Batches(self._held_out, gathered_batch(self.training_batch))
        with passes_as_in(trainer):
            values = self.measure(module, batches, step=step)
        self.record(trainer.loggers, values, step)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        step = trainer.global_step
        if not self.measures_after_training or step == self.started_at:
            return
        if self.training_batch is None and step:  # the run was resumed after its last step
            self.training_batch = last_training_batch(trainer)
        if self.training_batch is not None:
            self._measure_and_record(trainer, module, step)

    def teardown(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        self._held_out = self.training_batch = None
        self.say_if_nothing()

    def say_if_nothing(self) -> None:
        """Say it if no measurement found anything. A later one may, where a pass leaves layers out."""
        if self._found_nothing and not self.recorded:
            self.say(f"recorded nothing; {self.remedy}, or leave it out")
        self._found_nothing = False


_make_safe(Monitor)


def to_floats(values: Mapping[str, Tensor]) -> dict[str, float]:
    """All values as floats, with one copy from the device. Raises ValueError for what is no number or a DTensor."""
    if not values:
        return {}
    if not isinstance(values, Mapping):
        raise ValueError(f"compute gave {type(values).__name__}; give a dict of tags and numbers")
    scalars = [number_of(tag, value) for tag, value in values.items()]
    require_whole_tensors(scalars)
    if len({scalar.dtype for scalar in scalars}) > 1:
        scalars = [wide(scalar) for scalar in scalars]
    return dict(zip(values, torch.stack(scalars).tolist(), strict=True))


class StepMonitor(Monitor):
    """Watches training steps through hooks, which exist only during the measured steps."""

    reads_gradients = False  # whether `before_update` is called

    def __init__(self, *, every_n_steps: int | None) -> None:
        super().__init__(every_n_steps=every_n_steps)

    def forget(self) -> None:
        super().forget()
        self.watching = False
        self._read_at: int | None = None  # the step whose gradients were read

    def watch(self, module: LightningModule, batch: Any, step: int) -> None:
        """Before the forward pass: attach hooks and append them to `handles`."""

    def hear(self, module: nn.Module, record: Callable[[Any], None], *, before: bool = False) -> None:
        """Call `record(output)` at the first pass of a layer in this step, or `record(input)` before it: an in-place
        activation overwrites its input. Passes that other monitors make do not count."""
        depth = guard_depth()

        def hook(layer: nn.Module, inputs: tuple, named: dict, output: Any = None) -> None:
            x = first_tensor(inputs, named)
            empty = x is not None and not x.numel()  # of an expert to which nothing was sent
            if guard_depth() == depth and not self.stopped and not empty:
                handle.remove()
                if any(map(in_vmap, (*inputs, *named.values()))):
                    self.say(
                        f"leaves a {type(layer).__name__} out that runs inside vmap: nothing can be read there"
                    )
                    return
                with self.attempt():
                    record(x if before else output)

        attach = module.register_forward_pre_hook if before else module.register_forward_hook
        handle = attach(hook, with_kwargs=True)
        self.handles.append(handle)

    def before_update(self, gradients: dict[nn.Parameter, Tensor], backward_scale: float) -> None:
        """After the backward pass: read gradients. Gradients of activations are scaled by `backward_scale`."""

    def collect(self, module: LightningModule) -> Mapping[str, Tensor] | None:
        """After the update: return the values, or None to watch one more step."""
        raise NotImplementedError

    def start(self, trainer: Trainer, module: LightningModule, step: int) -> None:
        self.watching, self._read_at = True, None
        run_eagerly(module, True)
        self.watch(module, self.training_batch, step)

    def on_before_optimizer_step(self, trainer: Trainer, module: LightningModule, optimizer: Any) -> None:
        # Once in a step: a closure, as of LBFGS, may run several times.
        if not (self.watching and self.reads_gradients) or self._read_at == trainer.global_step:
            return
        self._read_at = trainer.global_step
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
        try:
            with passes_as_in(trainer):
                values = self.collect(module)
        except Exception:
            self.release(module)
            raise
        if values is not None:
            self.release(module)
            self.record(trainer.loggers, to_floats(values), self.started_at)

    def release(self, module: nn.Module) -> None:
        if self.watching:
            run_eagerly(module, False)
        self.watching = False
        super().release(module)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.release(module)
        super().on_train_end(trainer, module)

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        self.release(module)

    def teardown(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        self.release(module)
        super().teardown(trainer, module, stage)
