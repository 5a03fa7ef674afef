"""Lightning's training step without the parts that this project does not use. They take a quarter of the time of a
small model."""

from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.loops.training_epoch_loop import _TrainingEpochLoop

from normexp.training.lightning import callbacks_of


class PlainEpochLoop(_TrainingEpochLoop):
    """Same steps, same order of hooks, same progress and checkpoints as Lightning's loop, bit for bit.

    Each step omits: moving the batch (it lies on the device already), `self.log` and the trainer's profiler around some
    twenty calls, closures, and the inspection of signatures. So `self.log` works only during evaluation. The recorder
    and the monitors write to the loggers themselves.

    Lightning keeps its loops private. A test compares this loop with the original, and `pyproject.toml` pins the minor
    version for which it was written.
    """

    @staticmethod
    def fits(trainer: pl.Trainer) -> bool:
        """Whether this loop can train. Several processes, gradient scaling and accumulation need Lightning's loop."""
        scaled = getattr(trainer.precision_plugin, "scaler", None) is not None
        return trainer.world_size == 1 and not scaled and trainer.accumulate_grad_batches == 1

    @classmethod
    def install(cls, trainer: pl.Trainer) -> None:
        """Use this loop in `trainer` if it fits."""
        if cls.fits(trainer):
            given = trainer.fit_loop.epoch_loop
            trainer.fit_loop.epoch_loop = cls(trainer, min_steps=given.min_steps, max_steps=given.max_steps)

    def advance(self, data_fetcher) -> None:
        if self.restarting:  # before the first step of a resumed run, a validation may be due
            return super().advance(data_fetcher)
        self.val_loop.restarting = False
        batch, _, _ = next(data_fetcher)
        batch = self.trainer.precision_plugin.convert_input(batch)
        batch_idx = self.batch_idx + 1
        progress = self.batch_progress
        progress.is_last_batch = data_fetcher.done
        progress.increment_ready()
        self.call("on_train_batch_start", batch, batch_idx)
        progress.increment_started()
        outputs = self.optimize(batch, batch_idx)
        progress.increment_processed()
        self.update_lr_schedulers("step", update_plateau_schedulers=False)
        if self._num_ready_batches_reached():
            self.update_lr_schedulers("epoch", update_plateau_schedulers=False)
        self.call("on_train_batch_end", outputs, batch, batch_idx)
        progress.increment_completed()

    def optimize(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        """One forward and backward pass and the optimizer's step."""
        trainer = self.trainer
        module, optimizer = trainer.lightning_module, trainer.optimizers[0]
        progress = self.automatic_optimization.optim_progress.optimizer
        progress.step.increment_ready()
        outputs = trainer.strategy.training_step(batch, batch_idx)
        assert isinstance(outputs, dict)  # LitModel's training_step returns a dict
        progress.zero_grad.increment_ready()
        self.call("on_before_zero_grad", optimizer)
        progress.zero_grad.increment_started()
        optimizer.zero_grad()
        progress.zero_grad.increment_completed()
        self.call("on_before_backward", outputs["loss"])
        outputs["loss"].backward()
        self.call("on_after_backward")
        self.call("on_before_optimizer_step", optimizer)
        if trainer.gradient_clip_val is not None:
            module.configure_gradient_clipping(
                optimizer, trainer.gradient_clip_val, trainer.gradient_clip_algorithm
            )
        optimizer.step()
        progress.step.increment_completed()
        return outputs | {"loss": outputs["loss"].detach()}

    def call(self, hook: str, *arguments: Any) -> None:
        trainer = self.trainer
        module = trainer.lightning_module
        for callback in callbacks_of(trainer):
            getattr(callback, hook)(trainer, module, *arguments)
        getattr(module, hook)(*arguments)
