"""Call the callbacks of each replica at every hook of training."""

from typing import Any, cast

import pytorch_lightning as pl
from torch import Tensor

from normexp.training.replicas.replica import Replica

# Hooks that are passed on unchanged. Hooks with a batch, below, pass each replica its own part of the batch.
HOOKS = (
    "on_fit_start", "on_train_epoch_start", "on_before_backward", "on_before_optimizer_step", "on_validation_start",
    "on_validation_epoch_start", "on_validation_epoch_end", "on_train_end", "on_fit_end", "on_exception", "teardown",
)  # fmt: skip


class EachReplica(pl.Callback):
    """One callback for the trainer that calls the callbacks of all replicas."""

    def __init__(self, replicas: list[Replica]):
        self.replicas = replicas

    @property
    def active(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.stopped_at is None]

    def call(self, hook: str, *arguments: Any, **named: Any) -> None:
        for replica in self.active:
            replica.call(hook, *arguments, **named)

    def split(self, batch: tuple[Tensor, Tensor]) -> list[tuple[Tensor, ...]]:
        """The batch of each replica."""
        return list(zip(*(part.chunk(len(self.replicas)) for part in batch), strict=True))

    @property
    def watching(self) -> bool:
        return any(replica.watching() for replica in self.active)

    def save(self, trainer) -> None:
        """On an interruption, save a separate checkpoint for every replica."""
        with trainer.strategy.checkpoint_io.at_once():
            for replica in self.active:
                replica.last.save(cast(pl.Trainer, replica))

    def on_validation_end(self, trainer, module) -> None:
        with trainer.strategy.checkpoint_io.at_once():
            self.call("on_validation_end")

    def on_train_epoch_end(self, trainer, module) -> None:
        with trainer.strategy.checkpoint_io.at_once():
            self.call("on_train_epoch_end")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for replica, own in zip(self.replicas, state["own"], strict=True):
            for callback in replica.callbacks:
                if callback.state_key in own:
                    callback.load_state_dict(own[callback.state_key])

    def setup(self, trainer, module, stage) -> None:
        for replica in self.replicas:
            replica.trainer = trainer
        self.call("setup", stage)

    def on_fit_start(self, trainer, module) -> None:
        module.bind()  # now that the weights lie on the device; needed even if no step is left
        self.call("on_fit_start")

    def on_train_start(self, trainer, module) -> None:
        for replica in self.active:
            replica.call("on_train_start")
            if replica.should_stop:  # it had diverged and left; the process was stopped before its summary
                replica.end()
        trainer.should_stop = trainer.should_stop or not self.active

    def on_train_batch_start(self, trainer, module, batch, batch_idx) -> None:
        own = self.split(batch)
        for replica in self.active:
            replica.call("on_train_batch_start", own[replica.index], batch_idx)
        module.one_by_one = self.watching

    def on_validation_epoch_end(self, trainer, module) -> None:
        for replica in self.active:
            replica.validate()
        self.call("on_validation_epoch_end")

    def on_after_backward(self, trainer, module) -> None:
        if module.one_by_one:
            module.gather_gradients()
        self.call("on_after_backward")

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx) -> None:
        own = self.split(batch)
        values = {key: outputs[key].unbind() for key in ("batch_loss", "batch_accuracy")}
        for replica in self.active:
            mine = {key: value[replica.index] for key, value in values.items()}
            replica.call("on_train_batch_end", mine, own[replica.index], batch_idx)
            if replica.should_stop:
                replica.leave()
        trainer.should_stop = trainer.should_stop or not self.active


def _passed_on(hook: str):
    return lambda self, trainer, module, *arguments, **named: self.call(hook, *arguments, **named)


for _hook in HOOKS:
    if _hook not in vars(EachReplica):
        setattr(EachReplica, _hook, _passed_on(_hook))
