"""Checkpoints: written whole or not at all, and checked when they are read."""

import io
import math
import time
from pathlib import Path
from typing import Any, cast

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.io import TorchCheckpointIO
from pytorch_lightning.callbacks import Checkpoint

from normexp.runs import damaged
from normexp.runs.files import atomic_write
from normexp.runs.summary import Damaged, remedy
from normexp.training.lightning import all_gather, of_this_process

NEEDED = ("global_step", "state_dict")
# Seconds between checkpoints. An epoch of a small network takes milliseconds; its checkpoint would take a third more.
REST = 1.0
NEEDED_TO_RESUME = ("loops", "optimizer_states", "callbacks", "random_state", "recorded")


def load_checkpoint(path: Path, identity: str | None = None) -> dict[str, Any]:
    """The content of a run's checkpoint, on the CPU.

    Args:
        identity: of the run whose checkpoint it must be. Checkpoints of earlier versions do not say whose they are.

    Raises ValueError with one line for a file that was cut, holds something else, or is another run's.
    """
    path = Path(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises a dozen types for a file that it cannot read
        reason = str(error).strip().splitlines() or ["it ends too early"]
        raise damaged(path, reason[0], path.parents[1]) from None
    if not isinstance(content, dict) or not set(NEEDED) <= set(content):
        raise damaged(path, "it is no checkpoint of a run", path.parents[1])
    found = content.get("identity")
    if identity is not None and found is not None and found != identity:
        raise Damaged(
            f"{path}: is the checkpoint of another run (hash {str(found)[:8]}, this one is {identity[:8]}); move it "
            f"back to its own folder, or {remedy(path.parents[1])}"
        )
    return content


def load_to_resume(path: Path, identity: str | None = None) -> dict[str, Any]:
    """The same for a run that resumes there. Raises ValueError if it cannot, e.g. from an older version's file."""
    content = load_checkpoint(path, identity)
    if lacking := [key for key in NEEDED_TO_RESUME if key not in content]:
        raise damaged(path, f"lacks {', '.join(lacking)}: nothing can go on from there", path.parents[1])
    return content


class WholeCheckpoints(TorchCheckpointIO):
    """Lightning's checkpoints. Each is written under another name and flushed to disk before it replaces the last one.

    Lightning itself writes into the temporary folder and moves the file. If that is another file system, the move is a
    copy, and a full disk or a kill then cuts the only checkpoint.

    Args:
        resumed: content of the checkpoint that the run resumes from. Lightning gets it, whichever path it asks for.
    """

    def __init__(self, resumed: dict[str, Any] | None = None):
        self.resumed = resumed
        self._due_since = -math.inf

    def due(self) -> bool:
        """Whether an epoch that ends now leaves a checkpoint: the last one is `REST` seconds old."""
        now = time.monotonic()
        due = now - self._due_since >= REST
        self._due_since = now if due else self._due_since
        return due

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        # In memory first: if torch writes into a file on a full disk, its error does not say so.
        content = io.BytesIO()
        torch.save(checkpoint, content)
        # The rows and events that the checkpoint refers to must reach the disk before it.
        recorded = [path.parents[1] / name for name in checkpoint.get("recorded", {})]
        with atomic_write(path, before=recorded) as file:
            file.write(content.getbuffer())

    def load_checkpoint(
        self, path: str | Path, map_location: Any = None, weights_only: bool | None = None
    ) -> Any:
        resumed, self.resumed = self.resumed, None
        return resumed


def checkpoints_of(trainer: pl.Trainer) -> WholeCheckpoints:
    """What writes the checkpoints of a trainer made by `trainer_of`."""
    return cast(WholeCheckpoints, trainer.strategy.checkpoint_io)


class LastCheckpoint(Checkpoint):
    """`last.ckpt`, from which a run resumes. It is written at the end of the first epoch and of the last one, and of
    each between them if a second has passed. Checkpoint callbacks run after all others, so it holds the state of the
    others at the end of the epoch.

    Args:
        path: of the file; None saves nothing.
    """

    def __init__(self, path: Path | None):
        self.path = path

    def save(self, trainer: pl.Trainer) -> None:
        if self.path:
            trainer.save_checkpoint(self.path)

    def on_train_epoch_end(self, trainer, module) -> None:
        last_epoch = trainer.current_epoch + 1 == trainer.max_epochs
        ends = last_epoch or trainer.should_stop or trainer.global_step >= module.total_steps
        # The first process decides: clocks differ, and all take part in a checkpoint.
        if trainer.strategy.broadcast(ends or checkpoints_of(trainer).due()):
            self.save(trainer)


class BestCheckpoint(Checkpoint):
    """`best.ckpt`, written at the first validation with the highest accuracy. Unlike Lightning's, it still knows the
    best after the folder was moved between two launches."""

    def __init__(self, path: Path):
        self.path = path
        self.best: float | None = None

    def on_validation_end(self, trainer, module) -> None:
        # The first process decides. Processes may have different running statistics, and then evaluate differently.
        accuracy = trainer.strategy.broadcast(module.validation_result["accuracy"])
        if self.best is None or accuracy > self.best:
            self.best = accuracy
            trainer.save_checkpoint(self.path)

    def state_dict(self) -> dict[str, float | None]:
        return {"best": self.best}

    def load_state_dict(self, state: dict[str, float | None]) -> None:
        self.best = state["best"]


class GeneratorState(pl.Callback):
    """Saves the state of torch's generators in each process to every checkpoint, so dropout continues its stream."""

    def __init__(self) -> None:
        self._restored: dict[str, list[torch.Tensor]] = {}

    def on_save_checkpoint(self, trainer, module, checkpoint) -> None:
        checkpoint["random_state"] = {"cpu": all_gather(torch.get_rng_state())}
        if module.device.type == "cuda":
            checkpoint["random_state"]["cuda"] = all_gather(torch.cuda.get_rng_state(module.device))

    def on_load_checkpoint(self, trainer, module, checkpoint) -> None:
        self._restored = checkpoint["random_state"]

    def on_train_start(self, trainer, module) -> None:
        for kind, states in self._restored.items():
            if kind == "cpu":
                torch.set_rng_state(of_this_process(states).cpu())
            elif module.device.type == kind:
                torch.cuda.set_rng_state(of_this_process(states).cpu(), module.device)
