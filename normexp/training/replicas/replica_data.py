"""Batches of replicas: each replica's own rows in its own order, gathered at once."""

from collections.abc import Iterator

import pytorch_lightning as pl
import torch
from torch import Tensor

from normexp.data.base import DataModule
from normexp.data.loader import BatchLoader


class ReplicaLoader:
    """Batches (R, N, ...): replica r's are those that its own loader would give, in the same order."""

    def __init__(self, loaders: list[BatchLoader]):
        self.loaders = loaders

    def __len__(self) -> int:
        return len(self.loaders[0])

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        first = self.loaders[0]
        if first.augmentation:  # each replica draws its own
            for batches in zip(*self.loaders, strict=True):
                yield tuple(torch.stack(parts) for parts in zip(*batches, strict=True))
            return
        epoch, _ = first.progress()
        start = first.first_batch(epoch)
        order = torch.stack([loader.order.batches(epoch) for loader in self.loaders], 1)
        chosen = order[start:].to(first.rows.index_device)  # (num_batches, R, N)
        for x, y in first.rows.batches(chosen.flatten(1)):
            yield tuple(part.unflatten(0, chosen.shape[1:]) for part in (x, y))

    def state_dict(self) -> dict[str, int]:
        return self.loaders[0].state_dict()

    def load_state_dict(self, state: dict[str, int]) -> None:
        # Lightning keeps the state of loaders that have both methods.
        for loader in self.loaders:
            loader.load_state_dict(state)


class ReplicaData(pl.LightningDataModule):
    """The training batches of all replicas, and the splits that they share."""

    def __init__(self, own: list[DataModule]):
        super().__init__()
        self.own = own

    def train_dataloader(self) -> ReplicaLoader:
        return ReplicaLoader([data.train_dataloader() for data in self.own])

    def val_dataloader(self):
        return self.own[0].val_dataloader()

    def transfer_batch_to_device(self, batch, device, _):
        return batch  # it lies there already
