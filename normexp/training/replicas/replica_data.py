"""Batches of replicas. Each replica has its own rows and order; if all share the data, rows are gathered at once."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from normexp.data.base import DataModule
from normexp.data.loader import BatchLoader


class ReplicaLoader(BatchLoader):
    """Batches (R N, ...): the batches of all replicas' loaders, one after the other."""

    def __init__(self, own: list[DataModule]):
        self.loaders = [data.train_dataloader() for data in own]
        first = self.loaders[0]
        super().__init__(first.rows, first.order, augmentation=first.augmentation, progress=first.progress)

    def __iter__(self) -> Iterator[Any]:
        if all(loader.rows is self.rows for loader in self.loaders):
            return super().__iter__()
        batches = zip(*self.loaders, strict=True)
        return ([torch.cat(side) for side in zip(*batch, strict=True)] for batch in batches)

    def drawn(self, epoch: int) -> tuple[Tensor, Tensor | None]:
        chosen, draws = zip(*(loader.drawn(epoch) for loader in self.loaders), strict=True)
        return torch.cat(chosen, 1), None if draws[0] is None else torch.cat(draws, 1)

    def load_state_dict(self, state: dict[str, int]) -> None:
        super().load_state_dict(state)
        for loader in self.loaders:
            loader.load_state_dict(state)
