"""The numbers that every run records and shows: training and validation curves, the clock, the step at which it
diverged; and the rule that stops a run early."""

import copy
import math
import shutil
import time
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import RichProgressBar
from rich.console import Console
from rich.progress import ProgressColumn
from rich.text import Text
from torch import Tensor

from normexp.training.lightning import Pace, all_gather, of_this_process
from normexp.training.loggers import MetricsCSV

KEPT = ("history", "divergence_step", "clock", "latest")  # of a recorder, in a checkpoint as they are


class Recorder(pl.Callback):
    """Logs `train/*` every `every_n_steps` steps and `val/*` at each validation. Stops a run that has diverged.

    Losses stay on the device until they are logged, with one synchronization per interval. Each logged training value
    is the mean over the interval. `seconds` counts training only: monitors count, validation and checkpoints do not."""

    def __init__(self, every_n_steps: int):
        self.every_n_steps = every_n_steps
        self.history: list[dict[str, float]] = []  # one row per validation
        self.divergence_step: int | None = None  # the first, from 1, whose training loss was not finite
        self.latest: dict[str, float] = {}  # the last logged loss and accuracy
        self.clock = {"epoch": 0.0, "seconds": 0.0}
        self.seconds = 0.0
        self._step = 0  # the last one that was completed
        self._losses: list[Tensor] = []  # since the last log, on the device
        self._accuracies: list[Tensor] = []
        self._started: float | None = None

    def elapsed(self) -> float:
        """Seconds of training so far."""
        return self.seconds + (time.perf_counter() - self._started if self._started is not None else 0.0)

    def _pause(self) -> None:
        self.seconds, self._started = self.elapsed(), None

    def _resume(self) -> None:
        self._started = time.perf_counter()

    def _set_clock(self, trainer: pl.Trainer) -> None:
        self.clock.update(epoch=Pace.of(trainer).epochs_after(trainer.global_step), seconds=self.elapsed())

    def _log(self, trainer: pl.Trainer, metrics: dict[str, float]) -> None:
        for logger in trainer.loggers:
            logger.log_metrics(metrics, trainer.global_step)

    def _flush(self, trainer: pl.Trainer) -> None:
        if not self._losses:
            return
        recent = torch.stack([torch.stack(self._losses), torch.stack(self._accuracies)])  # (2, steps)
        self._losses, self._accuracies = [], []
        losses, accuracies = trainer.strategy.reduce(recent).tolist()  # the one copy to the host
        self.latest = {"loss": sum(losses) / len(losses), "accuracy": sum(accuracies) / len(accuracies)}
        self._set_clock(trainer)
        metrics = {f"train/{name}": value for name, value in self.latest.items()}
        metrics["lr"] = trainer.optimizers[0].param_groups[0]["lr"]
        self._log(trainer, metrics)
        bad = [index for index, loss in enumerate(losses) if not math.isfinite(loss)]
        if bad and self.divergence_step is None:
            pace = Pace.of(trainer)
            first = pace.batches_after(trainer.global_step) - len(losses)
            self.divergence_step = pace.step_of(first + bad[0])
            trainer.should_stop = True

    def on_train_start(self, trainer, module) -> None:
        like = next(module.parameters())
        self._losses = [loss.to(like) for loss in self._losses]  # of a resumed run, not yet logged
        self._accuracies = [accuracy.to(like) for accuracy in self._accuracies]
        if self.divergence_step is not None:  # the run had diverged, and was stopped before its summary
            trainer.should_stop = True
        self._step = trainer.global_step
        for logger in trainer.loggers:
            if isinstance(logger, MetricsCSV):
                logger.clock = self.clock
        self._resume()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx) -> None:
        self._losses.append(outputs["batch_loss"])
        self._accuracies.append(outputs["batch_accuracy"])
        stepped, self._step = trainer.global_step > self._step, trainer.global_step
        if stepped and trainer.global_step % self.every_n_steps == 0:
            self._flush(trainer)

    def on_validation_start(self, trainer, module) -> None:
        self._flush(trainer)
        self._pause()

    def on_validation_end(self, trainer, module) -> None:
        result = module.validation_result
        self._set_clock(trainer)
        self._log(trainer, {"val/loss": result["loss"], "val/accuracy": result["accuracy"]})
        row = {"step": trainer.global_step, **self.clock}
        row |= {"val_loss": result["loss"], "val_accuracy": result["accuracy"]}
        if not self.history or self.history[-1]["step"] < row["step"]:
            self.history.append(row)
        self._resume()

    def on_train_end(self, trainer, module) -> None:
        self._flush(trainer)
        self._pause()

    def state_dict(self) -> dict[str, Any]:
        # One copy to the host each.
        pending = [torch.stack(v).tolist() if v else [] for v in (self._losses, self._accuracies)]
        kept = {name: copy.copy(getattr(self, name)) for name in KEPT}
        return kept | {"seconds": self.elapsed(), "pending": all_gather(pending)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in (*KEPT, "seconds"):
            setattr(self, name, copy.copy(state[name]))
        pending = of_this_process(state["pending"])
        self._losses, self._accuracies = (list(torch.tensor(x, dtype=torch.float64)) for x in pending)


class EarlyStopping(pl.callbacks.EarlyStopping):
    """Lightning's. A run that was killed after it had stopped trains no further epoch."""

    def __init__(self, patience: int):
        super().__init__(
            "val/accuracy", patience=patience, mode="max", check_finite=False, check_on_train_epoch_end=False
        )

    @property
    def stopped(self) -> bool:
        return self.wait_count >= self.patience

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        trainer.should_stop |= self.stopped


def numbers(recorder: Recorder) -> dict[str, str]:
    """The last accuracy and loss in training and in validation, as the screen shows them."""
    texts = {}
    if recorder.latest:
        texts["train"] = f"{recorder.latest['accuracy']:6.2%} (loss {recorder.latest['loss']:.4f})"
    if recorder.history:
        last = recorder.history[-1]
        texts["val"] = f"{last['val_accuracy']:6.2%} (loss {last['val_loss']:.4f})"
    return texts


TIMES_FROM, LOSSES_FROM = 111, 141  # columns of a terminal whose one line has room for times, and for losses


def room(columns: int) -> bool:
    """Whether the terminal is as wide as that."""
    return shutil.get_terminal_size().columns >= columns


class OnceMeasured(ProgressColumn):
    """A column of time or speed that is empty while no speed is known: an epoch of a quarter of a second has none."""

    def __init__(self, column: ProgressColumn):
        super().__init__()
        self.column = column

    def render(self, task: Any) -> Any:
        return self.column.render(task) if task.speed else Text("")


class Bar(RichProgressBar):
    """Lightning's on one line, drawn four times a second: a drawing takes longer than a step of a small network."""

    PER_SECOND = 4
    WIDTH = 20  # of the bar alone; a line as wide as the screen would leave a piece where Ctrl-C writes ^C

    def __init__(self, recorder: Recorder):
        super().__init__(refresh_rate=self.PER_SECOND)
        self.recorder = recorder
        self._next, self._batches = 0.0, 0

    def configure_columns(self, trainer: pl.Trainer) -> list[Any]:
        name, bar, batches, *speed = super().configure_columns(trainer)
        bar.bar_width = self.WIDTH
        return [name, bar, batches, *(map(OnceMeasured, speed) if room(TIMES_FROM) else ())]

    def get_metrics(self, trainer: pl.Trainer, module: pl.LightningModule) -> dict[str, Any]:
        texts = numbers(self.recorder)
        return texts if room(LOSSES_FROM) else {name: text.partition(" (")[0] for name, text in texts.items()}

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self._update(self.train_progress_bar_id, self._batches)
        super().on_train_epoch_end(trainer, module)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx) -> None:
        self._batches = batch_idx + 1
        if time.monotonic() >= self._next:
            super().on_train_batch_end(trainer, module, outputs, batch, batch_idx)
            self._next = time.monotonic() + 1 / self.PER_SECOND


class Lines(pl.Callback):
    """A line for each validation, where the output is no terminal."""

    def __init__(self, recorder: Recorder, console: Console):
        self.recorder, self.console = recorder, console

    def on_validation_end(self, trainer, module) -> None:
        last = trainer.max_epochs
        epoch = f"epoch {trainer.current_epoch + 1}" + (f"/{last}" if last and last > 0 else "")
        line = "  ".join(f"{name} {text}" for name, text in numbers(self.recorder).items())
        self.console.print(f"{epoch}  step {trainer.global_step}  {line}", highlight=False)
