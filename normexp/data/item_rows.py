"""Rows of a user's own Dataset, read item by item."""

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from normexp.data.order import keyed_number
from normexp.data.rows import Batch, Chosen, Rows


class SeededItems(Dataset):
    """Items whose random transforms depend on (seed, epoch, number of the item) alone: not on the batch, the worker or
    the step at which a run was resumed."""

    def __init__(self, items: Any, seed: int) -> None:
        self.items, self.seed, self.epoch = items, seed, 0

    def __getitem__(self, row: int) -> Any:
        number = keyed_number("item", self.seed, self.epoch, row)
        torch.default_generator.manual_seed(number)
        random.seed(number)
        np.random.seed(number % 2**32)
        return self.items[row]


@contextlib.contextmanager
def random_states_kept() -> Iterator[None]:
    """Put back the random states of torch (on the CPU), Python and numpy at the end."""
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])


class ItemRows(Rows):
    """Items that are read when a batch needs them.

    Args:
        items: a map-style Dataset; an item is (input, target).
        collate: makes a batch (inputs, targets) from items.
        workers: number of processes that read ahead, 0 for none.
        seed: of random transforms.
        device: of the batches.
    """

    def __init__(
        self,
        items: Any,
        collate: Callable[[list[Any]], Any],
        *,
        workers: int,
        seed: int,
        device: torch.device,
    ) -> None:
        self.items, self.collate, self.workers = SeededItems(items, seed), collate, workers
        self._device = device
        self._targets: Tensor | None = None

    def __len__(self) -> int:
        return len(self.items.items)

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def index_device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def x(self) -> Tensor:
        return self.take(slice(None))[0]

    @property
    def y(self) -> Tensor:
        """All targets. If the Dataset has no list of them, every item is read once."""
        if self._targets is None:
            known = getattr(self.items.items, "targets", None)
            chunks = self.batches([slice(start, start + 256) for start in range(0, len(self), 256)])
            self._targets = torch.cat([y for _, y in chunks]) if known is None else torch.as_tensor(known)
        return self._targets

    def begin(self, epoch: int) -> None:
        self.items.epoch = epoch

    def take(self, chosen: Chosen) -> Batch:
        return next(self._batches([chosen], workers=0))

    def batches(self, chosen: Iterable[Chosen]) -> Iterator[Batch]:
        return self._batches(chosen, self.workers)

    def _batches(self, chosen: Iterable[Chosen], workers: int) -> Iterator[Batch]:
        rows = [range(len(self))[c] if isinstance(c, slice) else c.tolist() for c in chosen]
        with random_states_kept():
            loader = iter(
                DataLoader(
                    self.items,
                    batch_sampler=rows,
                    collate_fn=self.collate,
                    num_workers=workers,
                    pin_memory=self._device.type == "cuda",
                    generator=torch.Generator(),
                )
            )
        for _ in rows:
            with random_states_kept():
                batch = next(loader)
            yield tuple(part.to(self._device, non_blocking=True) for part in batch)
