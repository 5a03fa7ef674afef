"""The progress bar: epoch, steps, loss and accuracy, drawn a few times per second at any speed."""

import time

import torch
from pytorch_lightning.callbacks import ProgressBar
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from torch import Tensor

from normexp.training.recorder import Recorder

NARROW = 100  # letters of a screen; below, the line is shorter, so that no number is cut
REFRESH_SECONDS = 0.4, 1.0  # at least and at most between two drawings
DRAWING = 0.005  # share of the time that may go into drawing, which takes milliseconds


class EpochMeans:
    """Mean loss and accuracy over the batches of an epoch so far. Values wait on the device, and are read when
    something is drawn."""

    WAITING = 256  # then they are added up, so that a long epoch keeps few

    def __init__(self) -> None:
        self._waiting: list[tuple[Tensor, Tensor]] = []
        self._total: Tensor | None = None
        self._batches = 0

    def add(self, loss: Tensor, accuracy: Tensor) -> None:
        self._waiting.append((loss, accuracy))
        self._batches += 1
        if len(self._waiting) >= self.WAITING:
            self._add_up()

    def _add_up(self) -> None:
        recent = torch.stack([torch.stack(values).sum(0) for values in zip(*self._waiting, strict=True)])
        self._total, self._waiting = recent if self._total is None else self._total + recent, []

    def read(self) -> tuple[float, float] | None:
        """(loss, accuracy), or None before the first batch."""
        if self._waiting:
            self._add_up()
        if self._total is None:
            return None
        loss, accuracy = (self._total / self._batches).tolist()
        return loss, accuracy


class TimedProgressBar(ProgressBar):
    """One bar over all steps of the run. Lightning's bars redraw by step count, which costs more than a step of a small
    model; this bar redraws by the clock. If the output is no terminal, it prints one line per epoch.
    """

    def __init__(self, recorder: Recorder, console: Console):
        super().__init__()
        self.recorder = recorder
        self.console = console
        self.narrow = console.is_terminal and console.width < NARROW
        self._progress: Progress | None = None
        self._next_draw = 0.0
        self._of_epoch = EpochMeans()
        self._samples, self._began = 0, 0.0  # of this launch; seconds of training before it

    def disable(self) -> None:
        self._enabled = False

    def enable(self) -> None:
        self._enabled = True

    def _numbers(self) -> str:
        parts, loss_is = [], "" if self.narrow else "loss "
        if means := self._of_epoch.read():
            parts.append(f"train {means[1]:6.2%} ({loss_is}{means[0]:.4f})")
        if self.recorder.history:
            last = self.recorder.history[-1]
            loss, accuracy = last["val_loss"], last["val_accuracy"]
            parts.append(f"val {accuracy:6.2%} ({loss_is}{loss:.4f})")
        if self._samples and not self.narrow and (seconds := self.recorder.elapsed() - self._began) > 0:
            unit = "/s" if self.console.is_terminal else " samples/s"
            parts.append(f"{self._samples / seconds:,.0f}{unit}")
        return "  ".join(parts)

    def _epoch(self) -> str:
        last = self.trainer.max_epochs
        return f"epoch {self.trainer.current_epoch + 1}" + (f"/{last}" if last and last > 0 else "")

    def on_train_start(self, trainer, module) -> None:
        self._samples, self._began = 0, self.recorder.elapsed()
        if not self.console.is_terminal:
            return
        self._progress = Progress(
            *([] if self.narrow else [SpinnerColumn()]),
            TextColumn("{task.fields[epoch]}"),
            BarColumn(bar_width=6),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[numbers]}"),
            console=self.console,
            auto_refresh=False,
            transient=True,
        )
        self._task = self._progress.add_task(
            "", total=module.total_steps, completed=trainer.global_step, epoch="", numbers=""
        )
        self._progress.start()

    def _draw(self) -> None:
        assert self._progress is not None
        self._progress.update(
            self._task, completed=self.trainer.global_step, epoch=self._epoch(), numbers=self._numbers()
        )
        self._progress.refresh()

    def on_train_epoch_start(self, trainer, module) -> None:
        self._of_epoch = EpochMeans()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx) -> None:
        self._of_epoch.add(outputs["batch_loss"], outputs["batch_accuracy"])
        self._samples += len(batch[0]) * trainer.world_size
        if self._progress is not None and (start := time.monotonic()) >= self._next_draw:
            self._draw()
            end = time.monotonic()
            least, most = REFRESH_SECONDS
            self._next_draw = end + min(most, max(least, (end - start) / DRAWING))

    def on_validation_end(self, trainer, module) -> None:
        if self._progress is None:
            self.console.print(
                f"{self._epoch()}  step {trainer.global_step}  {self._numbers()}", highlight=False
            )

    def _stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def on_train_end(self, trainer, module) -> None:
        self._stop()

    def on_exception(self, trainer, module, exception) -> None:
        self._stop()
