"""How a run stops and goes on: checkpoints, written whole or not at all and with all that a resumed run needs to end as
an uninterrupted one; and signals, which end a run between two steps with a checkpoint."""

import contextlib
import datetime
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.io import TorchCheckpointIO
from pytorch_lightning.callbacks import Checkpoint, ModelCheckpoint
from pytorch_lightning.strategies.launchers.subprocess_script import _SubprocessScriptLauncher
from rich.console import Console

from normexp import NUMERICS
from normexp.config.process import was_interrupted
from normexp.format import say
from normexp.machine import checkout
from normexp.runs import damaged
from normexp.runs.files import atomic_write
from normexp.runs.summary import Damaged
from normexp.training.folder import RunFolder
from normexp.training.lightning import all_gather, of_this_process, own_rank
from normexp.training.loggers import MetricsCSV, TensorBoard

NEEDED = ("global_step", "state_dict", "run")
# Seconds between checkpoints. An epoch of a small network takes milliseconds; its checkpoint would take a third more.
REST = 1.0


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The content of a run's checkpoint, on the CPU. Raises ValueError with one line for any other or a cut file."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises a dozen types for a file that it cannot read
        reason = str(error).strip().splitlines() or ["it ends too early"]
        raise damaged(path, reason[0], path.parents[1]) from None
    if not isinstance(content, dict) or not set(NEEDED) <= set(content):
        raise damaged(path, "it is no checkpoint of a run", path.parents[1])
    return content


def load_to_resume(path: Path) -> dict[str, Any]:
    """The content of the checkpoint from which a run goes on. Raises ValueError also for one of other arithmetic."""
    content = load_checkpoint(path)
    if (numerics := content["run"]["numerics"]) != NUMERICS:
        why = f"was computed with numerics={numerics}, and this version computes with {NUMERICS}"
        raise damaged(path, why, path.parents[1])
    return content


class WholeCheckpoints(TorchCheckpointIO):
    """Lightning's checkpoints. Each is written under another name and flushed to disk before it replaces the last one.

    Lightning itself writes into the temporary folder and moves the file. If that is another file system, the move is a
    copy, and a full disk or a kill then cuts the only checkpoint.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            torch.save(checkpoint, file)


class LastCheckpoint(Checkpoint):
    """`last.ckpt`, from which a run resumes. It is written at the end of the first epoch and of the last one, and of
    each between them if a second has passed. Checkpoint callbacks run after all others, so it holds the state of the
    others at the end of the epoch.
    """

    def __init__(self, path: Path):
        self.path = path
        self._saved_at = -math.inf

    def save(self, trainer: pl.Trainer) -> None:
        trainer.save_checkpoint(self.path)
        self._saved_at = time.monotonic()

    def on_train_epoch_end(self, trainer, module) -> None:
        last_epoch = trainer.current_epoch + 1 == trainer.max_epochs
        ends = last_epoch or trainer.should_stop or trainer.global_step >= module.total_steps
        # The first process decides: clocks differ, and all take part in a checkpoint.
        if trainer.strategy.broadcast(ends or time.monotonic() - self._saved_at >= REST):
            self.save(trainer)


def best_checkpoint(folder: Path) -> ModelCheckpoint:
    """`best.ckpt`, written at the first validation with the highest accuracy."""
    return ModelCheckpoint(
        folder, "best", monitor="val/accuracy", mode="max",
        save_on_train_epoch_end=False, enable_version_counter=False,
    )  # fmt: skip


class RunState(pl.Callback):
    """What every checkpoint says of its run, beside what Lightning keeps: when and how it was first launched, the
    states of torch's generators in each process, and the lengths of `metrics.csv` and of TensorBoard's files."""

    def __init__(self):
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        found = checkout() or {"commit": None, "dirty": None}
        self.first: dict[str, Any] = {"started": now, **found}  # of the first launch
        self.dirty = bool(found["dirty"])  # whether any launch came from a changed checkout
        self._random: dict[str, list[torch.Tensor]] = {}

    def on_save_checkpoint(self, trainer, module, checkpoint) -> None:
        checkpoint["run"] = {
            "numerics": NUMERICS, "threads": torch.get_num_threads(), "first": self.first, "dirty": self.dirty
        }  # fmt: skip
        checkpoint["random_state"] = {"cpu": all_gather(torch.get_rng_state())}
        if module.device.type == "cuda":
            checkpoint["random_state"]["cuda"] = all_gather(torch.cuda.get_rng_state(module.device))
        checkpoint["recorded"] = 0
        for logger in trainer.loggers:
            logger.save()
            if isinstance(logger, MetricsCSV):
                checkpoint["recorded"] = logger.length()
            elif isinstance(logger, TensorBoard) and own_rank() == 0:
                checkpoint["events"] = logger.lengths()

    def on_load_checkpoint(self, trainer, module, checkpoint) -> None:
        self.first = checkpoint["run"]["first"]
        self.dirty |= checkpoint["run"]["dirty"]
        self._random = checkpoint["random_state"]

    def on_train_start(self, trainer, module) -> None:
        for kind, states in self._random.items():
            if kind == "cpu":
                torch.set_rng_state(of_this_process(states).cpu())
            elif module.device.type == kind:
                torch.cuda.set_rng_state(of_this_process(states).cpu(), module.device)


class Stopped(BaseException):
    """A signal ended training. It is no KeyboardInterrupt, of which Lightning makes exit status 1, as of an error."""

    def __init__(self, signum: int, when: str):
        super().__init__(f"interrupted by {signal.Signals(signum).name} {when}")
        self.signum = signum


class StopOnSignal(pl.Callback):
    """Saves between two steps, when weights, optimizer, monitors and progress agree. A second Ctrl-C stops at once, and
    so does the first signal where several processes train: they would have to agree on a step.

    It must be the first callback: at the start of a step it runs before those that begin to measure the step. Around
    training and what follows, `remember` handles the signals."""

    def __init__(self, save: Callable[[pl.Trainer], None]):
        self.save = save
        self.received: int | None = None
        self._at_once = False

    def remember(self, signum: int, frame: Any) -> None:
        if self._at_once or (self.received is not None and signum == signal.SIGINT):
            raise Stopped(signum, "at once")
        self.received = signum

    def on_train_start(self, trainer, module) -> None:
        signal.signal(signal.SIGTERM, self.remember)  # Lightning's own stops with status 0 and no checkpoint
        self._at_once = trainer.world_size > 1

    def on_train_batch_start(self, trainer, module, batch, batch_idx) -> None:
        if self.received is None:
            return
        # Not at the end of the batch before: a resumed run would lose a validation that is due there. Not where a
        # checkpoint would lose the gradients of half an accumulation, or a monitor's view of the first of two steps.
        if batch_idx % trainer.accumulate_grad_batches or any(
            getattr(callback, "watching", False) for callback in trainer.callbacks
        ):
            return
        self.save(trainer)
        raise Stopped(self.received, f"at step {trainer.global_step}")

    def on_exception(self, trainer, module, exception) -> None:
        """End the processes that Lightning started: they wait for this one, and it would wait for them."""
        if isinstance(launcher := trainer.strategy.launcher, _SubprocessScriptLauncher):
            launcher.kill(getattr(signal, "SIGKILL", signal.SIGTERM))

    def on_train_end(self, trainer, module) -> None:
        self._at_once = True  # from here on, the last checkpoint is enough to do everything again
        if self.received is not None:
            raise Stopped(self.received, "after the last step")


@contextlib.contextmanager
def stopping(folder: RunFolder, console: Console) -> Iterator[None]:
    """A context around training. If training stops before its end, say why, and where the same command will resume it.
    After a signal, exit with 128 plus its number. An error is raised on."""
    try:
        yield
    except BaseException as stop:
        asked = isinstance(stop, Stopped) or was_interrupted(stop)
        why = str(stop) if isinstance(stop, Stopped) else "interrupted" if asked else "the run failed"
        kept = os.path.exists(folder.last_checkpoint)  # False for a path that no file can have
        if kept and not isinstance(stop, Damaged):  # which names its own remedy
            say(
                console,
                f"{why}: checkpoint kept; the same command goes on from there",
                f"folder: {folder.path}",
            )
        elif asked:
            say(console, f"{why}: no checkpoint yet")
        if not asked:
            raise
        signum = getattr(stop, "signum", signal.SIGINT)
        # The handler that was there before, such as submitit's, starts the job again and ends the process.
        if signum != signal.SIGINT and callable(handler := signal.getsignal(signum)):
            handler(signum, None)
        sys.exit(128 + signum)
