"""Signals that ask training to stop: finish the step, save `last.ckpt`, stop. The same command resumes there."""

import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed as dist

from normexp.training.slurm import preempted, requeue

# Slurm and submitit send one of the last two before a job's time is over, or when other jobs need its place.
STOPS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2") if hasattr(signal, name)
)


class Interrupted(Exception):
    """A signal asked training to stop. A checkpoint was kept."""

    def __init__(self, signum: int, step: int, previous: Any = None):
        self.signum, self.previous = signum, previous
        super().__init__(f"interrupted by {signal.Signals(signum).name} at step {step}")

    def hand_on(self) -> str | None:
        """Call the signal handler that was there before; submitit's starts the job again and ends the process. If there
        was none, ask Slurm itself. Returns what was done, or None."""
        if callable(self.previous) and self.previous is not signal.default_int_handler:
            try:
                self.previous(self.signum, None)
            except subprocess.CalledProcessError as error:
                if error.returncode >= 0:
                    raise
                # Slurm took the job, and ended submitit's `scontrol requeue` together with it.
            return None
        asked_to_end = self.signum == signal.SIGTERM and not preempted()
        return None if asked_to_end or self.signum == signal.SIGINT else requeue()


class StoppedAtOnce(BaseException):
    """A second Ctrl-C. It is not a KeyboardInterrupt, because Lightning turns that into exit status 1, as if an error
    had ended the run."""

    signum = signal.SIGINT

    def __init__(self) -> None:
        super().__init__("stopped at once by a second SIGINT")


class StopOnSignal(pl.Callback):
    """Saves between two steps, when weights, optimizer, monitors and progress agree. A second Ctrl-C stops at once.

    It must be the first callback: at the start of a step it runs before those that begin to measure the step. It is
    also a context around training and what follows, so that the process gets its own signal handlers back.

    Args:
        save: called with the trainer. All processes of a run call it.
    """

    def __init__(self, save: Callable[[pl.Trainer], None]):
        self.save = save
        self.received: int | None = None
        self._trainer: pl.Trainer | None = None
        self._trained = False  # nothing is left to save
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopOnSignal":
        for signum in STOPS:
            self._previous[signum] = signal.signal(signum, self._remember)
        return self

    def __exit__(self, *_) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)

    def _remember(self, signum: int, frame: Any) -> None:
        if self.received is not None and signum == signal.SIGINT:
            raise StoppedAtOnce
        self.received = signum
        if self._trained:
            self._stop(signum)

    def _stop(self, signum: int) -> None:
        assert self._trainer is not None  # set at the start of training, and only then is this called
        raise Interrupted(signum, self._trainer.global_step, self._previous.get(signum))

    def on_train_start(self, trainer, module) -> None:
        self._trainer = trainer
        # Lightning installed its own handler, which stops with exit status 0 and without a checkpoint.
        signal.signal(signal.SIGTERM, self._remember)
        # A separate group on the CPU, so that processes can ask each other without waiting for a device.
        group = dist.new_group(backend="gloo") if trainer.world_size > 1 else None
        self._group = group if isinstance(group, dist.ProcessGroup) else None

    def on_train_batch_start(self, trainer, module, batch, batch_idx) -> None:
        if self.received is None and self._group is None:
            return
        # Not at the end of the batch before: a resumed run would lose a validation that is due there. Not where a
        # checkpoint would lose the gradients of half an accumulation, or a monitor's view of the first of two steps.
        if batch_idx % trainer.accumulate_grad_batches or any(
            getattr(callback, "watching", False) for callback in trainer.callbacks
        ):
            return
        if signum := self._agreed():
            self.save(trainer)
            self._stop(signum)

    def _agreed(self) -> int | None:
        """The signal that some process of the run got. All must stop at the same step, or they would wait for each
        other forever."""
        if self._group is None:
            return self.received
        received = torch.tensor(self.received or 0)
        dist.all_reduce(received, dist.ReduceOp.MAX, group=self._group)
        return int(received) or None

    def on_train_end(self, trainer, module) -> None:
        self._trained = True  # from here on, the last checkpoint is enough to do everything again
        if self.received is not None:
            self._stop(self.received)
