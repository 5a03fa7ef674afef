"""The numbers that every run records: training and validation curves, the clock, the step at which it diverged; the
rule that stops a run early, which reads them; and the files and services that get them."""

import contextlib
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import TensorBoardLogger
from torch import Tensor

from normexp.config.settings import EarlyStop, early_stop, names_of
from normexp.training.lightning import Pace, all_gather, data_of, of_this_process, own_rank
from normexp.training.loggers.files import NAME, EventFile, MetricsCSV
from normexp.training.loggers.services import ServiceLogger

if TYPE_CHECKING:
    from normexp.training.parts import Parts


class Recorder(pl.Callback):
    """Logs `train/*` every `every_n_steps` steps and `val/*` at each validation. Stops a run whose loss is no longer
    finite.

    Losses stay on the device until they are logged, with one synchronization per interval. Each logged training value
    is the mean over the interval. `seconds` counts training only: monitors count, validation and checkpoints do not.

    Attributes:
        history: one row per validation: step, epoch, seconds, val_loss, val_accuracy.
        divergence_step: the first step (from 1) whose training loss was not finite, or None.
    """

    def __init__(self, every_n_steps: int):
        self.every_n_steps = every_n_steps
        self.history: list[dict[str, float]] = []
        self.divergence_step: int | None = None
        self._step = 0  # the last one that was completed
        self.latest: dict[str, float] = {}  # for the progress bar
        self._losses: list[Tensor] = []  # since the last log, on the device
        self._accuracies: list[Tensor] = []
        self.clock = {"epoch": 0.0, "seconds": 0.0}
        self.seconds = 0.0
        self._started: float | None = None

    def elapsed(self) -> float:
        """Seconds of training so far."""
        return self.seconds + (time.perf_counter() - self._started if self._started is not None else 0.0)

    def _pause(self) -> None:
        self.seconds, self._started = self.elapsed(), None

    def _resume(self) -> None:
        self._started = time.perf_counter()

    def _set_clock(self, trainer: pl.Trainer) -> None:
        self.clock = {"epoch": Pace.of(trainer).epochs_after(trainer.global_step), "seconds": self.elapsed()}
        self._hand_out_clock(trainer)

    def _hand_out_clock(self, trainer: pl.Trainer) -> None:
        for logger in trainer.loggers:
            if isinstance(logger, MetricsCSV):
                logger.clock = self.clock

    def _log(self, trainer: pl.Trainer, metrics: dict[str, float]) -> None:
        for logger in trainer.loggers:
            logger.log_metrics(metrics, trainer.global_step)

    def _log_by_samples(self, trainer: pl.Trainer, row: dict[str, float]) -> None:
        """Log with the number of samples as TensorBoard's axis. Steps would mislead if batch sizes differ."""
        metrics = {f"by_samples/{name}": row[name] for name in ("val_loss", "val_accuracy")}
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                batches = Pace.of(trainer).batches_after(int(row["step"]))
                logger.log_metrics(metrics, batches * data_of(trainer).batch_size)

    def _flush(self, trainer: pl.Trainer) -> None:
        if not self._losses:
            return
        recent = torch.stack([torch.stack(self._losses), torch.stack(self._accuracies)])  # (2, steps)
        self._losses, self._accuracies = [], []
        losses, accuracies = trainer.strategy.reduce(recent).tolist()  # the one copy to the host
        self.latest = {"loss": sum(losses) / len(losses), "accuracy": sum(accuracies) / len(accuracies)}
        self._set_clock(trainer)
        metrics = {"train/loss": self.latest["loss"], "train/accuracy": self.latest["accuracy"]}
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
        self._hand_out_clock(trainer)  # for monitors that measure before the next training value
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
        row = {
            "step": trainer.global_step,
            **self.clock,
            "val_loss": result["loss"],
            "val_accuracy": result["accuracy"],
        }
        if not self.history or self.history[-1]["step"] < row["step"]:
            self.history.append(row)
        self._log_by_samples(trainer, row)
        self.latest |= {"val_loss": result["loss"], "val_accuracy": result["accuracy"]}
        self._resume()

    def on_train_end(self, trainer, module) -> None:
        self._flush(trainer)
        self._pause()

    def on_save_checkpoint(self, trainer, module, checkpoint) -> None:
        checkpoint["recorded"] = sizes_now(trainer.loggers) if trainer.is_global_zero else {}

    def state_dict(self) -> dict:
        # One copy to the host each.
        pending = [torch.stack(v).tolist() if v else [] for v in (self._losses, self._accuracies)]
        return {
            "history": self.history,
            "seconds": self.elapsed(),
            "divergence_step": self.divergence_step,
            "pending": all_gather(pending),
            "clock": self.clock,
            "latest": self.latest,
        }

    def load_state_dict(self, state: dict) -> None:
        self.history, self.seconds = list(state["history"]), state["seconds"]
        self.divergence_step = state["divergence_step"]
        self.clock, self.latest = dict(state["clock"]), dict(state["latest"])
        self._losses, self._accuracies = (
            [torch.tensor(v, dtype=torch.float64) for v in values]
            for values in of_this_process(state["pending"])
        )


def without_progress(history: Sequence[Mapping[str, float]], rule: EarlyStop) -> int:
    """The number of validations in a row, up to the last one, that were no better than the best before them.

    `history` has one row per validation. Better means better by more than `min_delta`. A value that is not finite is
    not better.
    """
    sign = 1.0 if rule.metric == "accuracy" else -1.0
    best, waited = float("-inf"), 0
    for row in history:
        value = sign * row[f"val_{rule.metric}"]
        if value > best + rule.min_delta or (best == float("-inf") and value > best):
            best, waited = value, 0
        else:
            waited += 1
    return waited


class EarlyStopping(pl.Callback):
    """Stops after `patience` validations without progress. It has no state: the recorder's history decides, so a
    resumed run stops at the same step."""

    def __init__(self, rule: EarlyStop, recorder: Recorder):
        self.rule, self.recorder = rule, recorder
        self.stopped = False

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if without_progress(self.recorder.history, self.rule) >= self.rule.patience:
            self.stopped = True
            trainer.should_stop = True


def early_stopping(config: dict[str, Any], recorder: Recorder) -> list[EarlyStopping]:
    """The callback for a configuration's rule, or none."""
    rule = early_stop(config)
    return [EarlyStopping(rule, recorder)] if rule else []


def stopped_early(callbacks: Iterable[pl.Callback]) -> bool:
    """Whether one of the callbacks ended its run."""
    return any(isinstance(callback, EarlyStopping) and callback.stopped for callback in callbacks)


Record = EventFile | MetricsCSV | ServiceLogger


@contextlib.contextmanager
def open_records(
    parts: "Parts", folder: Path | None, resumed: dict[str, Any] | None
) -> Iterator[list[Record]]:
    """All records of a run. Files are cut back to the checkpoint from which training resumes, or empty.

    Args:
        folder: of the run; None records nothing.
        resumed: the content of the checkpoint.
    """
    if folder is None:
        yield []
        return
    sizes = resumed["recorded"] if resumed else {}
    # A run that began with TensorBoard keeps its events, whatever it is resumed with.
    events = "tensorboard" in names_of(parts.config["logger"]) or sizes.keys() - {NAME}
    loggers: list[Record] = []
    try:
        if events:
            loggers.append(EventFile(folder, sizes))
        if own_rank() == 0:
            loggers.append(MetricsCSV(folder / NAME, sizes.get(NAME, 0)))
            loggers += open_services(parts, folder)
        yield loggers
    except BaseException as error:
        for logger in loggers:
            if isinstance(logger, ServiceLogger):
                logger.error = error
        with contextlib.suppress(OSError):  # the disk is full, and that error is already on its way
            close(loggers)
        raise
    close(loggers)


def close(loggers: list[Record]) -> None:
    """Close every logger, even if closing one fails."""
    with contextlib.ExitStack() as stack:
        for logger in loggers:
            stack.callback(logger.close)


def sizes_now(loggers: list[Record]) -> dict[str, int]:
    """File -> its length in bytes after a flush. Checkpoints keep this."""
    return {name: size for logger in loggers for name, size in logger.sizes().items()}


def open_services(parts: "Parts", folder: Path) -> list[ServiceLogger]:
    """The loggers of services. The service's packages are imported only if they are asked for.

    Raises ValueError with one line if a service cannot be reached.
    """
    found: list[ServiceLogger] = []
    names = names_of(parts.config["logger"])
    if "wandb" in names:
        from normexp.training.loggers.wandb_run import WandbRun

        found.append(WandbRun(parts, folder))
    if "mlflow" in names:
        from normexp.training.loggers.mlflow_run import MlflowRun

        try:
            found.append(MlflowRun(parts, folder))
        except BaseException as error:
            for logger in found:
                logger.error = error
                logger.close()
            raise
    return found
