"""One replica: a callback of the joint trainer, and the trainer that the replica's own callbacks see.

Its checkpoint is a part of the joint one, as a single run would have saved it.
"""

from collections.abc import Callable
from functools import partialmethod
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytorch_lightning as pl
import torch
from torch import Tensor

from normexp.monitors.base import StepMonitor
from normexp.runs import write_summary
from normexp.training.checkpoint import BestCheckpoint, LastCheckpoint, checkpoints_of
from normexp.training.fit import Provenance, conclude, evaluate, final_metrics
from normexp.training.lightning import overrides
from normexp.training.recorder import Record, Recorder

if TYPE_CHECKING:
    from normexp.training.parts import Parts

# Hooks that are passed on as they are.
HOOKS = (
    "on_fit_start", "on_train_epoch_start", "on_before_backward", "on_after_backward", "on_before_optimizer_step",
    "on_validation_start", "on_validation_epoch_start", "on_validation_epoch_end", "on_validation_end",
    "on_train_epoch_end", "on_train_end", "on_fit_end", "on_exception", "teardown",
)  # fmt: skip
# Of a checkpoint:
DIFFERENT = ("state_dict", "optimizer_states", "lr_schedulers")  # what is not the same in all replicas
RATES = {"lr", "initial_lr", "base_lrs", "_last_lr"}  # names of learning rates in optimizers and schedules
SHARED = {"step", "mu_product"}  # state of an optimizer that all replicas share


class Replica(pl.Callback):
    """Passes the trainer's hooks on to the callbacks of one replica. To them it is the trainer, with the replica's own
    module, data, loggers and callbacks. Attributes that it lacks are the trainer's.

    So the recorder, monitors and checkpoints work unchanged, and leave the same files as in a single run.

    Args:
        index: number of this replica.
        count: number of replicas that train together.
        share: its learning rate divided by the largest one.

    Attributes:
        stopped_at: the step at which this replica diverged and left, or None. The others continue.
    """

    trainer: pl.Trainer

    def __init__(
        self, index: int, count: int, parts: "Parts", folder: Path, loggers: list[Record], share: float
    ):
        self.index, self.count, self.parts, self.folder = index, count, parts, folder
        self.loggers, self.share = loggers, share
        self.lightning_module, self.datamodule = parts.module, parts.data
        self.recorder = Recorder(parts.config["log_every_n_steps"], count)
        checkpoints = folder / "checkpoints"
        self.last, best = LastCheckpoint(checkpoints / "last.ckpt"), BestCheckpoint(checkpoints / "best.ckpt")
        self.callbacks = [self.recorder, Provenance(parts), *parts.monitors, best, self.last]
        self._overriding: dict[str, list[Callable]] = {}
        self.stopped_at: int | None = None
        self.should_stop = False  # the recorder sets it when the loss is no longer finite

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["trainer"], name)

    @property
    def state_key(self) -> str:
        return f"replica {self.index}"

    @property
    def global_step(self) -> int:
        return self.trainer.global_step if self.stopped_at is None else self.stopped_at

    @property
    def optimizers(self) -> list[SimpleNamespace]:
        groups = self.trainer.optimizers[0].param_groups
        own = [{**group, "lr": group["lr"] * self.share} for group in groups]
        return [SimpleNamespace(param_groups=own)]

    @property
    def watching(self) -> bool:
        """Whether a monitor has hooks on the module and will measure the next step."""
        return any(isinstance(callback, StepMonitor) and callback.watching for callback in self.callbacks)

    def call(self, hook: str, *arguments: Any, **named: Any) -> None:
        if self.stopped_at is not None:
            return
        if hook not in self._overriding:
            own = [callback for callback in self.callbacks if overrides(callback, hook, pl.Callback)]
            self._overriding[hook] = [getattr(callback, hook) for callback in own]
        for method in self._overriding[hook]:
            method(self, self.lightning_module, *arguments, **named)

    def pass_on(self, hook: str, trainer, module, *arguments: Any, **named: Any) -> None:
        self.call(hook, *arguments, **named)

    def setup(self, trainer, module, stage) -> None:
        self.trainer = trainer
        self.call("setup", stage)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for callback in self.callbacks:
            if callback.state_key in state:
                callback.load_state_dict(state[callback.state_key])

    def on_train_start(self, trainer, module) -> None:
        self.call("on_train_start")
        if self.should_stop:  # it had diverged and left; the process was stopped before its summary
            self.end()

    def on_train_batch_start(self, trainer, module, batch, batch_idx) -> None:
        size = len(batch[0]) // self.count
        self.batch = tuple(part[self.index * size : (self.index + 1) * size] for part in batch)
        self.call("on_train_batch_start", self.batch, batch_idx)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx) -> None:
        values = {key: outputs[key][self.index] for key in ("batch_loss", "batch_accuracy")}
        self.call("on_train_batch_end", values, self.batch, batch_idx)
        if self.should_stop and self.stopped_at is None:
            self.leave()

    def validate(self) -> None:
        batches = self.datamodule.val_dataloader()
        self.lightning_module.validation_result = evaluate(self.lightning_module, batches, self.trainer)

    def leave(self) -> None:
        """Stop in the middle as a single run does: validate, end the epoch, end training."""
        self.call("on_validation_start")
        self.validate()
        for hook in ("on_validation_end", "on_train_epoch_end"):
            self.call(hook)
        self.end()

    def end(self) -> None:
        """End training, after the last checkpoint. The last of all replicas ends it for the trainer."""
        self.call("on_train_end")
        self.stopped_at = self.trainer.global_step
        checkpoints_of(self.trainer).write_waiting()
        self.finish()
        self.trainer.should_stop |= not self.trainer.lightning_module.active

    def finish(self) -> None:
        """Write the final numbers and the summary of a trained replica. Other replicas may train on for hours."""
        trainer = cast(pl.Trainer, self)
        results = final_metrics(self.parts, trainer)
        summary = conclude(self.parts, self.recorder, trainer, self.folder, *results)
        summary["execution"] |= {"mode": "replica", "replicas": self.recorder.replicas}
        for logger in self.loggers:
            logger.save()
        write_summary(self.folder, summary)

    def save_checkpoint(self, path: Path, *_: Any) -> None:
        """Write the checkpoint that a single run would write, so that the replica can also be resumed alone."""
        whole = self.trainer._checkpoint_connector.dump_checkpoint()
        checkpoint = part_of(whole, self.index, self.share)
        own = {callback.state_key: callback.state_dict() for callback in self.callbacks}
        checkpoint["callbacks"] = {key: state for key, state in own.items() if state}
        self.call("on_save_checkpoint", checkpoint)
        self.trainer.strategy.save_checkpoint(checkpoint, path)


for _hook in HOOKS:
    setattr(Replica, _hook, partialmethod(Replica.pass_on, _hook))


def part_of(checkpoint: dict[str, Any], index: int, share: float) -> dict[str, Any]:
    """The checkpoint that replica `index` would save alone, without callbacks. Its rate is `share` times the common
    rate."""

    def own(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: own(key, item) for key, item in value.items()}
        if isinstance(value, list):
            return [own(name, item) for item in value]
        if name in RATES:
            return value * share
        return value[index].clone() if _of_each(name, value) else value

    return checkpoint | {name: own(name, checkpoint[name]) for name in DIFFERENT}


def put_together(checkpoints: list[dict[str, Any]], fastest: int) -> dict[str, Any]:
    """Join the checkpoints of replicas into one. The shared state comes from the replica `fastest`, which has the
    largest rate: its rates and schedule are the common ones."""

    def common(name: str, values: list[Any]) -> Any:
        value = values[fastest]
        if isinstance(value, dict):
            return {key: common(key, [own[key] for own in values]) for key in value}
        if isinstance(value, list):
            return [common(name, list(items)) for items in zip(*values, strict=True)]
        return torch.stack(values) if _of_each(name, value) else value

    joined = {name: common(name, [own[name] for own in checkpoints]) for name in DIFFERENT}
    callbacks = {f"replica {index}": own["callbacks"] for index, own in enumerate(checkpoints)}
    return checkpoints[fastest] | joined | {"callbacks": callbacks}


def _of_each(name: str, value: Any) -> bool:
    return isinstance(value, Tensor) and name not in SHARED
