"""Ctrl-C and SIGTERM: finish the step, save `last.ckpt`, stop. The same command goes on from there."""

import signal
from pathlib import Path

import pytorch_lightning as pl
import torch


class Interrupted(Exception):
    """Training was asked to stop by a signal; a checkpoint was kept."""

    def __init__(self, signum: int, step: int):
        self.signum = signum
        super().__init__(f"interrupted by {signal.Signals(signum).name} at step {step}")


class StoppedAtOnce(BaseException):
    """A second Ctrl-C. Not a KeyboardInterrupt: Lightning answers that with a plain exit status of 1, by which an
    earlier checkpoint looks like one that an error left."""

    signum = signal.SIGINT

    def __init__(self) -> None:
        super().__init__("stopped at once by a second SIGINT")


class ResumableTraining(pl.Callback):
    """Saves between two steps, where weights, optimizer and progress agree; a second Ctrl-C stops at once.

    Every checkpoint also gets torch's generators, so that dropout resumes in the same stream. Used as a context
    around `trainer.fit`, so that the process's own signal handlers come back afterwards.
    """

    def __init__(self, checkpoint: Path | None):
        self.checkpoint = checkpoint
        self.received: int | None = None
        self._previous: dict[int, object] = {}
        self._restored: dict[str, torch.Tensor] | None = None

    def __enter__(self) -> "ResumableTraining":
        for signum in (signal.SIGINT, signal.SIGTERM):
            self._previous[signum] = signal.signal(signum, self._remember)
        return self

    def __exit__(self, *_) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)

    def _remember(self, signum: int, frame) -> None:
        if self.received is not None and signum == signal.SIGINT:
            raise StoppedAtOnce
        self.received = signum

    def on_train_start(self, trainer, module) -> None:
        # Lightning put its own handler in front, which stops with exit status 0 and without a checkpoint.
        signal.signal(signal.SIGTERM, self._remember)
        if self._restored is not None:
            torch.set_rng_state(self._restored["cpu"].cpu())
            if "cuda" in self._restored and module.device.type == "cuda":
                torch.cuda.set_rng_state(self._restored["cuda"].cpu(), module.device)

    def on_train_batch_start(self, trainer, module, batch, batch_idx) -> None:
        # Not at the end of the batch before: a validation due then would be lost on resume.
        if self.received is not None:
            self.keep(trainer)
            raise Interrupted(self.received, trainer.global_step)

    def keep(self, trainer) -> None:
        if self.checkpoint is not None:
            trainer.save_checkpoint(self.checkpoint)

    def on_save_checkpoint(self, trainer, module, checkpoint) -> None:
        states = {"cpu": torch.get_rng_state()}
        if module.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(module.device)
        checkpoint["random_state"] = states

    def on_load_checkpoint(self, trainer, module, checkpoint) -> None:
        self._restored = checkpoint["random_state"]
