"""One replica as its callbacks see it: a trainer of its own, with its own module, data, loggers and callbacks."""

import copy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytorch_lightning as pl

from normexp.config.run_parts import Parts
from normexp.monitors import StepMonitor
from normexp.training.evaluation import evaluate
from normexp.training.recorder import Recorder
from normexp.training.replicas.replica_checkpoint import take_apart


class Replica:
    """Stands in for the trainer wherever a callback of this replica asks for it; the rest is the trainer's own.

    So recorder, monitors and checkpoints work unchanged, and each leaves what it would leave in a run alone.

    Attributes:
        stopped_at: the step at which this replica diverged and left, or None. Its neighbours go on.
        resumed_from: its checkpoint, or None.
        finish: called with this replica when it is trained.
    """

    def __init__(
        self, index: int, parts: Parts, folder: Path, recorder: Recorder, loggers: list, factor: float
    ):
        self.index, self.parts, self.folder, self.recorder = index, parts, folder, recorder
        self.loggers, self.factor = loggers, factor
        self.lightning_module, self.datamodule = parts.module, parts.data
        self.callbacks: list[pl.Callback] = []
        self.stopped_at: int | None = None
        self.should_stop = False  # the recorder sets it when the loss is no longer finite
        self.trainer: pl.Trainer | None = None
        self.resumed_from: dict[str, Any] | None = None
        self.finish: Callable[[Replica], None] = lambda replica: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["trainer"], name)

    @property
    def logger(self):
        return self.loggers[0] if self.loggers else None

    @property
    def global_step(self) -> int:
        return self.trainer.global_step if self.stopped_at is None else self.stopped_at

    @property
    def optimizers(self) -> list:
        groups = self.trainer.optimizers[0].param_groups
        return [
            SimpleNamespace(param_groups=[{**group, "lr": group["lr"] * self.factor} for group in groups])
        ]

    def call(self, hook: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, hook)(self, self.lightning_module, *arguments)

    def watching(self) -> bool:
        """Whether a monitor has hooks on the module and wants to see the step that comes."""
        return any(isinstance(callback, StepMonitor) and callback.watching for callback in self.callbacks)

    def leave(self) -> None:
        """What a run alone does when it stops in the middle: validate, end the epoch, end training."""
        self.call("on_validation_start")
        loader = self.datamodule.val_dataloader()
        self.lightning_module.validation_result = evaluate(self.lightning_module, loader, self.trainer)
        for hook in ("on_validation_end", "on_train_epoch_end"):
            self.call(hook)
        self.end()

    def end(self) -> None:
        """What comes after its last checkpoint."""
        self.call("on_train_end")
        self.stopped_at = self.trainer.global_step
        self.finish(self)

    def save_checkpoint(self, path: Path, weights_only: bool = False, **_: Any) -> None:
        """As the trainer of a run alone would write it, so that it can be resumed alone too."""
        checkpoint = self.trainer._checkpoint_connector.dump_checkpoint(weights_only)
        take_apart(checkpoint, self.index, self.factor)
        weights = self.lightning_module.state_dict()
        checkpoint["state_dict"] = {name: value.detach().clone() for name, value in weights.items()}
        if not weights_only:
            own = [(callback.state_key, callback.state_dict()) for callback in self.callbacks]
            checkpoint["callbacks"] = {key: state for key, state in own if state}
            self.call("on_save_checkpoint", checkpoint)
        self.trainer.strategy.save_checkpoint(checkpoint, path)

    def restore(self) -> None:
        """What its callbacks know, from the checkpoint that it resumes from."""
        for callback in self.callbacks:
            if state := self.resumed_from["callbacks"].get(callback.state_key):
                callback.load_state_dict(copy.deepcopy(state))


class EachReplica(pl.Callback):
    """Passes every hook of training on to the callbacks of each replica, with its own part of the batch."""

    def __init__(self, replicas: list[Replica]):
        self.replicas = replicas

    @property
    def active(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.stopped_at is None]

    @property
    def watching(self) -> bool:
        return any(replica.watching() for replica in self.active)

    def save(self) -> None:
        """On an interruption every replica gets a checkpoint of its own."""
        for replica in self.active:
            replica.save_checkpoint(replica.folder / "checkpoints" / "last.ckpt")

    def setup(self, trainer, module, stage) -> None:
        for replica in self.replicas:
            replica.trainer = trainer
            replica.call("setup", stage)

    def on_load_checkpoint(self, trainer, module, checkpoint) -> None:
        for replica in self.replicas:
            replica.restore()

    def on_fit_start(self, trainer, module) -> None:
        module.bind()  # on the device, and also where no step is left to take
        for replica in self.active:
            replica.call("on_fit_start")

    def on_train_start(self, trainer, module) -> None:
        for replica in self.active:
            replica.call("on_train_start")
            if replica.should_stop:  # it had diverged and left, and was stopped before its summary
                replica.end()
        if not self.active:
            trainer.should_stop = True

    def on_train_batch_start(self, trainer, module, batch, batch_idx) -> None:
        for replica in self.active:
            own = tuple(part[replica.index] for part in batch)
            replica.call("on_train_batch_start", own, batch_idx)
        module.one_by_one = any(replica.watching() for replica in self.active)

    def on_before_backward(self, trainer, module, loss) -> None:
        for replica in self.active:
            replica.call("on_before_backward", loss)

    def on_after_backward(self, trainer, module) -> None:
        if module.one_by_one:
            module.gather_gradients()
        for replica in self.active:
            replica.call("on_after_backward")

    def on_before_optimizer_step(self, trainer, module, optimizer) -> None:
        for replica in self.active:
            replica.call("on_before_optimizer_step", optimizer)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx) -> None:
        values = {key: outputs[key].unbind() for key in ("batch_loss", "batch_accuracy")}
        for replica in self.active:
            own = {key: value[replica.index] for key, value in values.items()}
            replica.call("on_train_batch_end", own, tuple(part[replica.index] for part in batch), batch_idx)
            if replica.should_stop:
                replica.leave()
        if not self.active:
            trainer.should_stop = True

    def on_exception(self, trainer, module, exception) -> None:
        for replica in self.active:
            replica.call("on_exception", exception)

    def teardown(self, trainer, module, stage) -> None:
        for replica in self.replicas:
            replica.call("teardown", stage)


def _pass_on(hook: str):
    def method(self: EachReplica, trainer, module) -> None:
        for replica in self.active:
            replica.call(hook)

    return method


for _hook in (
    "on_train_epoch_start", "on_train_epoch_end", "on_validation_start", "on_validation_end",
    "on_validation_epoch_start", "on_validation_epoch_end", "on_train_end", "on_fit_end",
):  # fmt: skip
    setattr(EachReplica, _hook, _pass_on(_hook))
