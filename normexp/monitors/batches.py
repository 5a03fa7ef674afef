"""The two batches on which monitors measure."""

from typing import Any, NamedTuple

from lightning_utilities.core.apply_func import apply_to_collection
from pytorch_lightning import Trainer
from pytorch_lightning.utilities.seed import isolate_rng
from torch import Tensor


class Batches(NamedTuple):
    """A batch of the validation split that never changes, and the training batch."""

    held_out: Any
    training: Any


def held_out_batch(trainer: Trainer, training: Any, size: int) -> Any:
    """`size` samples if the data module offers them, else the first validation batch, else the training batch."""
    if hasattr(trainer.datamodule, "probe_batch"):
        return trainer.datamodule.probe_batch(size)
    loader = trainer.val_dataloaders
    if isinstance(loader, dict):
        loader = list(loader.values())
    if isinstance(loader, (list, tuple)):  # of several validation sets, take the first
        loader = loader[0] if loader else None
    return training if loader is None else first_batch(loader)


def last_training_batch(trainer: Trainer) -> Any:
    """The batch of the last step before the run was resumed; None if the data module does not know it."""
    data = trainer.datamodule
    return data.last_training_batch() if hasattr(data, "last_training_batch") else None


def first_batch(loader: Any) -> Any:
    """The first batch of a loader. It uses no random number."""
    with isolate_rng():  # a DataLoader draws a seed when it starts
        return next(iter(loader))


def batches_of(data: Any, size: int) -> Batches:
    """The batches of a data module; for a single batch `data`, that batch twice."""
    if not hasattr(data, "train_dataloader"):
        return Batches(data, data)
    held_out = data.probe_batch(size) if hasattr(data, "probe_batch") else first_batch(data.val_dataloader())
    return Batches(held_out, first_batch(data.train_dataloader()))


def writes(batches: Any) -> int:
    """How often something was written into the tensors of batches."""
    versions: list[int] = []
    apply_to_collection(batches, Tensor, lambda x: versions.append(0 if x.is_inference() else x._version))
    return sum(versions)
