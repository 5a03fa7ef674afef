"""Lightning's loops, made fast and exact: steps without what nothing uses, and resumed runs that count as others do.

With Lightning's own loops a training of 3,000 steps at batch 64 takes 1.3 times as long for an MLP of width 256, and
1.5 times for one of width 32. Lightning keeps its loops private, so this file is used with the minor version for which
it was written. Any other trains with Lightning's.
"""

from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.loops.fit_loop import _FitLoop
from pytorch_lightning.loops.loop import _Loop
from pytorch_lightning.loops.training_epoch_loop import _TrainingEpochLoop
from pytorch_lightning.plugins.precision import Precision

from normexp.monitors.charts import callbacks_of
from normexp.training.lightning import overrides

HOOKS = (
    "on_train_batch_start", "on_before_zero_grad", "on_before_backward", "on_after_backward",
    "on_before_optimizer_step", "on_train_batch_end",
)  # fmt: skip


class ResumedEpochLoop(_TrainingEpochLoop):
    """Lightning's loop, with the counters of an uninterrupted run after a checkpoint was loaded.

    Lightning itself keeps the batch that was fetched before a checkpoint and not trained, so that validations come one
    step early after each interruption. It also counts a step where it only skips a validation that was done.
    """

    def reset(self) -> None:
        between_steps = self.restarting and not self.restarted_on_last
        super().reset()
        if self.restarting:
            self.batch_progress.total.reset_on_restart()
            self.on_load_checkpoint({"_batches_that_stepped": self.global_step})
        if between_steps:
            # No validation is left to do. Whether the next batch is the epoch's last is known only when it comes.
            self.restarting = self.batch_progress.is_last_batch = False

    def _should_check_val_fx(self, data_fetcher) -> bool:
        """Lightning counts batches between two validations; here `val_every_n_steps` counts steps."""
        trainer = self.trainer
        if trainer.check_val_every_n_epoch is None and trainer.enable_validation and not trainer.should_stop:
            every = trainer.val_check_batch or 1  # never None where epochs are not counted
            return not self._should_accumulate() and self.global_step % every == 0
        return super()._should_check_val_fx(data_fetcher)

    def on_advance_end(self, data_fetcher) -> None:
        skips = self._skip_next_val
        super().on_advance_end(data_fetcher)
        self._batches_that_stepped -= skips


class PlainEpochLoop(ResumedEpochLoop):
    """Same steps, same order of hooks, same progress and checkpoints as Lightning's loop, bit for bit.

    Each step omits: moving the batch (it lies on the device already), `self.log` and the trainer's profiler around some
    twenty calls, closures, the inspection of signatures, and hooks that nothing overrides. So `self.log` works only
    during evaluation. The recorder and the monitors write to the loggers themselves.

    A test compares this loop with the original.
    """

    @staticmethod
    def fits(trainer: pl.Trainer) -> bool:
        """Whether this loop can train. Several processes, gradient scaling and accumulation need Lightning's loop."""
        scaled = getattr(trainer.precision_plugin, "scaler", None) is not None
        return trainer.world_size == 1 and not scaled and trainer.accumulate_grad_batches == 1

    @property
    def global_step(self) -> int:
        """Optimizer steps so far. Each step asks for them some ten times, and Lightning each time first asks the module
        whether it steps itself."""
        return self.automatic_optimization.optim_progress.optimizer.step.total.completed

    def on_run_start(self, data_fetcher) -> None:
        super().on_run_start(data_fetcher)
        trainer, module = self.trainer, self.trainer.lightning_module
        self._hooks = {hook: hooks_of(trainer, module, hook) for hook in HOOKS}
        # Then no precision and no strategy stands around the step.
        self._bare = type(trainer.precision_plugin) is Precision and trainer.strategy.model is module

    def advance(self, data_fetcher) -> None:
        if self.restarting:  # before the first step of a resumed run, a validation may be due
            return super().advance(data_fetcher)
        if self.val_loop.restarting:
            self.val_loop.restarting = False
        batch, _, _ = next(data_fetcher)
        if not self._bare:
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
        self.call("on_train_batch_end", outputs, batch, batch_idx)
        progress.increment_completed()

    def optimize(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        """One forward and backward pass and the optimizer's step."""
        trainer = self.trainer
        module, optimizer = trainer.lightning_module, trainer.optimizers[0]
        progress = self.automatic_optimization.optim_progress.optimizer
        progress.step.increment_ready()
        # Looked up at each step: a monitor of called functions sets another one around the steps that it measures.
        outputs = (module if self._bare else trainer.strategy).training_step(batch, batch_idx)
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
        """Call a hook where something overrides it."""
        if methods := self._hooks[hook]:
            trainer = self.trainer
            module = trainer.lightning_module
            for method in methods:
                method(trainer, module, *arguments)


def hooks_of(trainer: pl.Trainer, module: pl.LightningModule, hook: str) -> list[Callable]:
    """A hook of those callbacks that override it, then of the module, in Lightning's order."""
    watching = [one for one in callbacks_of(trainer) if overrides(one, hook, pl.Callback)]
    methods = [getattr(one, hook) for one in watching]
    if overrides(module, hook, pl.LightningModule):
        of_module = getattr(module, hook)
        methods.append(lambda trainer, module, *arguments: of_module(*arguments))
    return methods


class EndingFitLoop(_FitLoop):
    """Given the checkpoint of a trained network, Lightning's loop does nothing. This loop starts and ends training
    without a step. So monitors measure the last weights, and charts are drawn.

    Given the checkpoint of an epoch's end, it goes on with the next epoch. Lightning's loop ends that epoch a second
    time where `max_steps` limits the run.
    """

    @property
    def skip(self) -> bool:
        return super().skip and not self.is_resuming

    @_FitLoop.restarting.setter
    def restarting(self, restarting: bool) -> None:
        epochs = vars(self.epoch_progress.current)
        vars(_Loop)["restarting"].fset(self, restarting and epochs["ready"] != epochs["processed"])


def install(trainer: pl.Trainer) -> None:
    """Put these loops in the place of the trainer's own."""
    given = trainer.fit_loop
    kind = PlainEpochLoop if PlainEpochLoop.fits(trainer) else ResumedEpochLoop
    steps = given.epoch_loop
    trainer.fit_loop = EndingFitLoop(trainer, min_epochs=given.min_epochs, max_epochs=given.max_epochs)
    trainer.fit_loop.epoch_loop = kind(trainer, min_steps=steps.min_steps, max_steps=steps.max_steps)
