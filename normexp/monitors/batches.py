"""The two batches that monitors measure on, from whatever data there are."""

from typing import Any, NamedTuple

from pytorch_lightning import Trainer
from pytorch_lightning.utilities.seed import isolate_rng


class Batches(NamedTuple):
    """What there is to measure on: a batch of the validation split that never changes, and the training batch."""

    held_out: Any
    training: Any


def held_out_batch(trainer: Trainer, training: Any, size: int) -> Any:
    if hasattr(trainer.datamodule, "probe_batch"):
        return trainer.datamodule.probe_batch(size)
    loaders = trainer.val_dataloaders
    return training if not loaders else first_batch(loaders[0] if isinstance(loaders, list) else loaders)


def first_batch(loader: Any) -> Any:
    with isolate_rng():  # a DataLoader draws a seed when it starts
        return next(iter(loader))


def batches_of(data: Any, size: int) -> Batches:
    if not hasattr(data, "train_dataloader"):
        return Batches(data, data)
    held_out = data.probe_batch(size) if hasattr(data, "probe_batch") else first_batch(data.val_dataloader())
    return Batches(held_out, first_batch(data.train_dataloader()))
