"""Items of a user's own Dataset, read when a batch needs them."""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from pytorch_lightning.utilities.seed import isolate_rng
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from normexp.data.order import keyed_number
from normexp.data.rows import Batch, Chosen, Rows

CPU = torch.device("cpu")
CHUNK = 64  # number of items that are read at once


def seed_all(number: int) -> None:
    """Seed the generators that a user's code draws from: torch's on the CPU, Python's and numpy's."""
    torch.default_generator.manual_seed(number)
    random.seed(number)
    np.random.seed(number % 2**32)


class LabelError(ValueError):
    """A class or a token that the model has no output for, in one line."""


class ItemRows(Rows, Dataset):
    """Items that are read when a batch needs them.

    Their random transforms depend on (seed, epoch, number of the item) alone: not on the batch, the worker or the step
    at which a run was resumed.

    Args:
        loader: of the user; its map-style Dataset gives items (input, target), its `collate_fn` makes a batch of them.
        name: of the items, for errors.
        classes: number of classes that targets may have; 0: not known yet.
        workers: number of processes that read ahead, 0 for none; None: as many as the loader has.
        seed: of random transforms.
        device: of the batches.

    Reading raises LabelError for a target out of range.
    """

    def __init__(
        self,
        loader: DataLoader,
        *,
        name: str,
        classes: int,
        workers: int | None,
        seed: int,
        device: torch.device,
    ) -> None:
        self.items: Any = loader.dataset
        self.collate = loader.collate_fn
        self.name, self.classes = name, classes
        self.workers = loader.num_workers if workers is None else workers
        self.seed, self.epoch = seed, 0
        self._device = device

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, row: int) -> Any:
        seed_all(keyed_number("item", self.seed, self.epoch, row))
        return self.items[row]

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def index_device(self) -> torch.device:
        return CPU

    @property
    def x(self) -> Tensor:
        return self.take(slice(None))[0]

    @property
    def y(self) -> Tensor:  # type: ignore[override]
        """All targets. Every item is read."""
        chunks = self.batches([slice(start, start + CHUNK) for start in range(0, len(self), CHUNK)])
        return torch.cat([y for _, y in chunks])

    def begin(self, epoch: int) -> None:
        self.epoch = epoch

    def take(self, chosen: Chosen) -> Batch:
        return next(self._batches([chosen], workers=0))

    def batches(self, chosen: Iterable[Chosen]) -> Iterator[Batch]:
        return self._batches(chosen, self.workers)

    def _batches(self, chosen: Iterable[Chosen], workers: int) -> Iterator[Batch]:
        rows: list[Any] = [range(len(self))[c] if isinstance(c, slice) else c.tolist() for c in chosen]
        loader = DataLoader(
            self,
            batch_sampler=rows,
            collate_fn=self.collate,
            num_workers=workers,
            pin_memory=self._device.type == "cuda",
            generator=torch.Generator(),
        )
        with isolate_rng(include_cuda=False):
            batches = iter(loader)
        for chosen_rows in rows:
            with isolate_rng(include_cuda=False):
                x, y = next(batches)
            self.check_targets(chosen_rows, torch.stack([x, y], -1) if x.shape == y.shape else y)
            yield x.to(self._device, non_blocking=True), y.to(self._device, non_blocking=True)

    def check_targets(self, rows: Sequence[int], targets: Tensor) -> None:
        """Raise LabelError with one line unless the targets of these items, (N, ...), are classes."""
        wrong = ((targets < 0) | (targets >= self.classes)).nonzero()
        if self.classes and len(wrong):
            first = wrong[0].tolist()
            item = rows[first[0]] if len(rows) == len(targets) else f"one of {rows[0]}..{rows[-1]}"
            raise LabelError(
                f"data.path: {self.name}: item {item} has the label {int(targets[tuple(first)])}, and {self.classes} "
                f"classes are 0..{self.classes - 1}; repair the labels, or set data.classes=N"
            )
