"""A user's own LightningDataModule or Dataset, read item by item."""

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from pytorch_lightning import LightningDataModule
from pytorch_lightning.utilities.seed import isolate_rng
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

from normexp.data.base import DataModule
from normexp.data.order import ShuffledOrder, keyed_number
from normexp.data.rows import Batch, Chosen, Rows

CPU = torch.device("cpu")
# What a loader may use to choose items: all of them, in order or shuffled.
ORDERS = {SequentialSampler, RandomSampler, BatchSampler, type(None)}
DIGESTED = 64  # number of items of a split that are hashed
# What a batch must be.
FORMS = {
    "image": "float32 inputs (N, C, H, W) or (N, F) and int64 classes (N,)",
    "text": "int64 tokens (N, T) and the tokens that follow them, int64 (N, T)",
}


def seed_all(number: int) -> None:
    """Seed the generators that a user's code draws from: torch's on the CPU, Python's and numpy's."""
    torch.default_generator.manual_seed(number)
    random.seed(number)
    np.random.seed(number % 2**32)


def same_draws(make: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a function of the user with generators that always start alike. So a split that is drawn without a generator
    of its own is the same one for training and validation, for every norm, seed and launch."""
    with isolate_rng(include_cuda=False):
        seed_all(0)
        return make(*arguments, **named)


class ItemRows(Rows, Dataset):
    """Items that are read when a batch needs them.

    Their random transforms depend on (seed, epoch, number of the item) alone: not on the batch, the worker or the step
    at which a run was resumed.

    Args:
        loader: of the user; its map-style Dataset gives items (input, target), its `collate_fn` makes a batch of them.
        workers: number of processes that read ahead, 0 for none; None: as many as the loader has.
        seed: of random transforms.
        device: of the batches.
    """

    def __init__(self, loader: DataLoader, *, workers: int | None, seed: int, device: torch.device) -> None:
        self.items, self.collate = loader.dataset, loader.collate_fn
        self.workers = loader.num_workers if workers is None else workers
        self.seed, self.epoch = seed, 0
        self._device = device
        self._targets: Tensor | None = None

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
    def y(self) -> Tensor:
        """All targets. If the Dataset has no list of them, every item is read once."""
        if self._targets is None:
            known = getattr(self.items, "targets", None)
            chunks = self.batches([slice(start, start + 256) for start in range(0, len(self), 256)])
            self._targets = torch.cat([y for _, y in chunks]) if known is None else torch.as_tensor(known)
        return self._targets

    def begin(self, epoch: int) -> None:
        self.epoch = epoch

    def take(self, chosen: Chosen) -> Batch:
        return next(self._batches([chosen], workers=0))

    def batches(self, chosen: Iterable[Chosen]) -> Iterator[Batch]:
        return self._batches(chosen, self.workers)

    def _batches(self, chosen: Iterable[Chosen], workers: int) -> Iterator[Batch]:
        rows = [range(len(self))[c] if isinstance(c, slice) else c.tolist() for c in chosen]
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
        for _ in rows:
            with isolate_rng(include_cuda=False):
                batch = next(batches)
            yield tuple(part.to(self._device, non_blocking=True) for part in batch)


@dataclass(kw_only=True, eq=False)
class OwnData(DataModule):
    """The data sets behind the loaders of a LightningDataModule, or a Dataset class called with split="train", "val"
    and "test".

    normexp chooses the batches, so every norm sees the same ones. It keeps the module's transforms, collate function
    and workers. Random transforms depend on the run's seed, the epoch and the item. The fingerprint is the module's
    attribute of that name; without one it covers sizes and the first items.
    """

    module: Callable[..., LightningDataModule | Dataset]
    path: str | None = None  # dotted path of the class
    kind: Literal["image", "text"] = "image"
    classes: int | None = None  # None: the module's `num_classes`, or the number of its Dataset's `classes`
    workers: int | None = None  # processes that read ahead; None: as many as the module's loaders have

    loaders: dict[str, DataLoader] = field(default_factory=dict, init=False, repr=False)

    @property
    def name(self) -> str:
        """Name of the class."""
        return getattr(self.module, "func", self.module).__name__

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.splits["train"].take(slice(1))[0].shape[1:])

    def read(self) -> dict[str, Rows]:
        own = self._make_loaders()
        for split, loader in self.loaders.items():
            self._check_loader(split, loader)
        splits = {split: self._rows_of(split, CPU, self.seed) for split in self.loaders}
        for split, rows in splits.items():
            self._check_batch(split, rows)
        self.num_classes = self._count_classes(own)
        digests = {split: self._digest(self._rows_of(split, CPU, seed=0)) for split in splits}
        self.test_set = digests["test"]
        content = getattr(own, "fingerprint", [[len(rows) for rows in splits.values()], digests])
        self.fingerprint = hashlib.sha256(repr(content).encode()).hexdigest()
        return splits

    def _make_loaders(self) -> Any:
        """Set a loader for each split. Returns the module, or the training Dataset."""
        splits = ("train", "val", "test")
        try:
            if not issubclass(getattr(self.module, "func", self.module), LightningDataModule):
                sets = {split: same_draws(self.module, split=split) for split in splits}
                self.loaders = {split: DataLoader(items) for split, items in sets.items()}
                return sets["train"]
            own = same_draws(self.module)
            same_draws(own.prepare_data)
            same_draws(own.setup, "fit")
            same_draws(own.setup, "test")
            self.loaders = {split: same_draws(getattr(own, f"{split}_dataloader")) for split in splits}
        except Exception as error:  # the user's code may raise anything
            reason = " ".join(str(error).split())
            raise ValueError(f"data.path: {self.name}: {type(error).__name__}: {reason}") from error
        return own

    def _check_loader(self, split: str, loader: Any) -> None:
        """Refuse a loader whose Dataset cannot be read in any order, or has other items than the loader."""
        made = f"data.path: {self.name}.{split}_dataloader()"
        if not isinstance(loader, DataLoader):
            raise ValueError(f"{made} gives {type(loader).__name__}; give one DataLoader")
        if isinstance(loader.dataset, IterableDataset) or not len(loader.dataset):
            raise ValueError(f"data.path: {self.name} has no items to choose from for {split}")
        batches = loader.batch_sampler
        orders = (loader.sampler, batches, getattr(batches, "sampler", None))
        others = [type(order).__name__ for order in orders if type(order) not in ORDERS]
        if others:
            raise ValueError(
                f"{made} chooses items by {others[0]}, and normexp would use all; "
                "give a Dataset of these items alone, such as torch.utils.data.Subset"
            )

    def _rows_of(self, split: str, device: torch.device, seed: int) -> ItemRows:
        return ItemRows(self.loaders[split], workers=self.workers, seed=seed, device=device)

    def _check_batch(self, split: str, rows: ItemRows) -> None:
        wanted = (
            f"data.path: {self.name} must give, for {split} and data.kind={self.kind}, {FORMS[self.kind]}"
        )
        try:
            x, y = rows.take(slice(1))
            found = f"{x.dtype} {tuple(x.shape)} and {y.dtype} {tuple(y.shape)}".replace("torch.", "")
        except Exception as error:  # the user's transforms may raise anything
            reason = " ".join(str(error).split())
            raise ValueError(f"{wanted}; {type(error).__name__}: {reason}") from error
        if self.kind == "image":
            fits = x.dtype == torch.float32 and x.dim() in (2, 4) and y.dim() == 1
        else:
            fits = x.dtype == torch.int64 and x.dim() == 2 and y.shape == x.shape
        if not fits or y.dtype != torch.int64:
            raise ValueError(f"{wanted}; it gives {found}")

    def _count_classes(self, own: Any) -> int:
        names = getattr(self.loaders["train"].dataset, "classes", None)
        count = self.classes or getattr(own, "num_classes", None) or (len(names) if names else None)
        if count is None:
            raise ValueError(
                f"data.classes is not set, and {self.name} has no num_classes; add data.classes=N"
            )
        return int(count)

    def _digest(self, rows: ItemRows) -> str:
        content = hashlib.sha256(str(len(rows)).encode())
        for part in rows.take(slice(DIGESTED)):
            content.update(part.contiguous().numpy().tobytes())
        return content.hexdigest()[:16]

    def make_rows(self, split: str, device: torch.device, *, training: bool) -> Rows:
        return self._rows_of(split, device, self.seed)

    def training_order(self, train: Rows) -> ShuffledOrder:
        return ShuffledOrder(len(train), self.batch_size, self.seed)

    def describe(self) -> str:
        sizes = " / ".join(f"{len(rows):,} {split}" for split, rows in self.splits.items())
        shape = "x".join(str(side) for side in self.input_shape)
        return f"{self.name}: {sizes} items of {shape}, {self.num_classes} classes"
