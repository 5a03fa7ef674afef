"""Monitors in a loop of one's own, and in that of Hugging Face: they follow the steps of torch's optimizers."""

import contextlib
import importlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from pytorch_lightning import Callback
from pytorch_lightning.loggers import Logger, TensorBoardLogger
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from normexp.format import pluralize, require_at_least, require_object
from normexp.monitors.activations import Activations
from normexp.monitors.base import Monitor
from normexp.monitors.batches import Step, loss_of_output, processes
from normexp.monitors.charts import Charts
from normexp.monitors.gradients import Gradients
from normexp.monitors.guard import guard_depth, require_network
from normexp.monitors.listen import hearing


class Watch:
    """What monitors see of a loop; see `watch`. It has what they ask of Lightning's trainer.

    Attributes:
        recorded: tag -> (step, value), of all monitors.
    """

    accumulate_grad_batches = 1  # the loop's own loss says how it counts micro-batches
    estimated_stepping_batches = num_training_batches = float("inf")
    datamodule = strategy = precision = train_dataloader = None
    optimizers = ()

    def __init__(
        self,
        model: nn.Module,
        callbacks: Sequence[Callback],
        to: str | Path | None,
        loss: Any,
        validation: Any,
    ) -> None:
        self.model, self.callbacks, self.step_of = model, list(callbacks), Step(model, loss)
        self.monitors = [one for one in callbacks if isinstance(one, Monitor)]
        self.world_size = processes()
        self.loggers: list[Logger] = []
        self.val_dataloaders, self.global_step = validation, 0
        # Passes run in the loop's own context, with its autocast.
        self.precision_plugin = SimpleNamespace(train_step_context=contextlib.nullcontext)
        self._to, self._batch, self._begun, self._has_loss = to, None, False, loss is not None
        self._called, self._updated = False, 0  # whether the model was, and how often its weights were
        # Several optimizers may take a step together: the weights moved in this step, and in earlier ones.
        self._moved: set[nn.Parameter] = set()
        self._ever_moved: set[nn.Parameter] | None = None
        self._hearing: list[contextlib.AbstractContextManager] = []

    @property
    def recorded(self) -> dict[str, list[tuple[int, float]]]:
        return {tag: values for monitor in self.monitors for tag, values in monitor.recorded.items()}

    def over(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The batches of a loader. Monitors that make passes of their own need the target, so go through them here."""
        for self._batch in batches:
            yield self._batch
        self._batch = None

    def step(self, loss: Tensor | float) -> None:
        """Log the loss of the step as `Loss/train`, as often as the monitors measure."""
        pace = min((monitor.every_n_steps for monitor in self.monitors), default=1)
        done = max(0, self.global_step - 1)
        if done % pace == 0:
            for logger in self.loggers:
                logger.log_metrics({"Loss/train": torch.as_tensor(loss).item()}, done)

    def __enter__(self) -> "Watch":
        if self._to is not None:
            self.loggers = [TensorBoardLogger(self._to, name="", version="")]
        self._call("setup", "fit")
        self._call("on_train_start")
        self._handles = [
            self.model.register_forward_pre_hook(self._before, with_kwargs=True, prepend=True),
            self.model.register_forward_hook(self._after, always_call=True),
            register_optimizer_step_pre_hook(self._before_update),
            register_optimizer_step_post_hook(self._after_update),
        ]
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        for handle in self._handles:
            handle.remove()
        self._end_step()
        if error is None and self._has_loss:
            self._call("on_train_end")
        self._call("teardown", "fit")
        if error is None and (missing := self._missing()):
            warnings.warn(f"watch: {missing}", stacklevel=2)
        if self.recorded:
            Charts().write(self.loggers, self.monitors)
        for logger in self.loggers:
            logger.finalize("success")

    def _missing(self) -> str:
        """What a loop did not do, so that no step could be measured; empty if it did."""
        name, steps = type(self.model).__name__, pluralize(self._updated, "step")
        if not self._called:
            never = f"{name} was never called in training mode with gradients, so nothing was measured"
            return f"{steps}, but {never}; watch the module that the loop calls, or each of its parts"
        if not self._updated:
            return f"no torch optimizer stepped weights of {name}, so no step was measured; step by one"
        return ""

    def _call(self, hook: str, *args: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, hook)(self, self.step_of, *args)

    def _before(self, model: nn.Module, args: tuple, named: dict) -> None:
        # Not of a copy, which takes the hooks along, nor in validation or a pass of a monitor.
        if model is not self.model or guard_depth() or not (model.training and torch.is_grad_enabled()):
            return
        self._called = True
        self._end_step()
        if not self._begun:
            self._begun = True
            given = args if not named else named if not args else None
            batch = self._batch if self._batch is not None else given
            self._call("on_train_batch_start", batch, self.global_step)
        self._hearing.append(hearing(self.step_of, model))
        self._hearing[-1].__enter__()

    def _after(self, model: nn.Module, args: tuple, output: Any) -> None:
        if model is self.model and self._hearing and not guard_depth():
            self._hearing.pop().__exit__(None, None, None)
            self._has_loss |= loss_of_output(output, None)[0] is not None

    def _updates(self, optimizer: torch.optim.Optimizer) -> set[nn.Parameter]:
        """The weights of the model that an optimizer holds."""
        held = {p for group in optimizer.param_groups for p in group["params"]}
        return held.intersection(self.model.parameters())

    def _before_update(self, optimizer: torch.optim.Optimizer, args: tuple, named: dict) -> Any:
        if not self._updates(optimizer):
            return None
        scale = getattr(optimizer, "grad_scale", None)  # of a fused optimizer, which unscales by itself
        self.precision_plugin.scaler = scale is not None and SimpleNamespace(get_scale=scale.item)
        closure = args[1] if len(args) > 1 else named.get("closure")
        if closure is None:
            self._read_gradients(optimizer)
            return None

        def read() -> Any:  # the gradients come inside the step, as of LBFGS
            loss = closure()
            self._read_gradients(optimizer)
            return loss

        return ((optimizer, read, *args[2:]), named) if len(args) > 1 else (args, named | {"closure": read})

    def _read_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        if self._begun and not self._moved:
            self._call("on_before_optimizer_step", optimizer)

    def _after_update(self, optimizer: torch.optim.Optimizer, args: tuple, named: dict) -> None:
        if not (moved := self._updates(optimizer)):
            return
        self._updated += 1
        if self._begun:
            self.global_step += not self._moved
            self._moved |= moved
            waiting = {p for p in self.model.parameters() if p.grad is not None} - self._moved
            if not (waiting if self._ever_moved is None else waiting & self._ever_moved):
                self._end_step()

    def _end_step(self) -> None:
        """The weights have moved: by the only optimizer, by the last of several, or before the next pass."""
        if self._moved:
            self._ever_moved = (self._ever_moved or set()) | self._moved
            self._moved, self._begun = set(), False
            self._call("on_train_batch_end", None, None, 0)


def watch(
    model: nn.Module,
    *,
    every: int = 100,
    to: str | Path | None = None,
    monitors: Sequence[Callback] | None = None,
    loss: Callable[[Any, Any], Tensor] | None = None,
    validation: Any = None,
    only: str | Sequence[str] | None = None,
    strict: bool = False,
) -> Watch:
    """Watch a network in a loop of your own. It trains to the same bits as without.

        with normexp.watch(model, every=50, to="runs/x") as w:
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        w.recorded  # tag -> [(step, value), ...]

    A step is one of a torch optimizer that holds weights of the model; it begins at the model's first call in training
    mode. Where the loop calls its parts alone, as of a GAN, watch each: `with watch(gan.G) as g, watch(gan.D) as d:`.
    Tags and numbers are those of a LightningModule with the network in `self.model`.

    Args:
        every: steps from one measurement to the next.
        to: folder of a TensorBoard log.
        monitors: with a pace of their own; by default `Activations` and `Gradients`. `normexp.check.CheckNorms()`
            checks the network once, before the first step. Those that make passes of their own need the loss: the
            network's output has it, as in Hugging Face, or `loss` computes it and the loop runs over `w.over(loader)`.
            `w.step(loss)` logs the loss.
        loss: `loss(output, target)`; see `monitors.batches.Step`.
        validation: a loader, whose first batch is held out; by default the batch of the step.
        only: globs of the tags to record, such as `gradient_norm/*`.
        strict: whether a monitor that fails ends the loop. By default it is said once, and the loop goes on.
    """
    require_at_least("every", every, 1)
    require_network("model", model)
    for argument, given in [("validation", validation), *(("monitors", one) for one in monitors or ())]:
        require_object(argument, given)
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError("model: is scripted or traced, and its layers hide; pass the module it was made of")
    usual = [Activations(every_n_steps=every), Gradients(every_n_steps=every)]
    watched = Watch(model, usual if monitors is None else monitors, to, loss, validation)
    for monitor in watched.monitors:
        monitor.only = [only] if isinstance(only, str) else only or monitor.only
        monitor.strict |= strict
    return watched


def trainer_callback(**options: Any) -> Any:
    """A callback for `transformers.Trainer(callbacks=[...])`: `watch` during its training, with the same options. By
    default the log lies in `runs` beside the checkpoints."""
    callback: Any = importlib.import_module("transformers").TrainerCallback

    class WatchNorms(callback):
        watch: Watch | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            to = options.get("to") or Path(args.output_dir) / "runs"
            self.watch = watch(model, **options | {"to": to})
            self.watch.global_step = state.global_step  # of a training that is resumed
            self.watch.__enter__()

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.watch.__exit__(None, None, None)

    return WatchNorms()
