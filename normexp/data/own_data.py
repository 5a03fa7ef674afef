"""A user's own LightningDataModule or Dataset."""

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from pytorch_lightning import LightningDataModule
from pytorch_lightning.utilities.seed import isolate_rng
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

from normexp.data.base import DataModule
from normexp.data.item_rows import ItemRows
from normexp.data.order import ShuffledOrder
from normexp.data.rows import Rows

CPU = torch.device("cpu")
# What a loader may use to choose items: all of them, in order or shuffled.
ORDERS = {SequentialSampler, RandomSampler, BatchSampler, type(None)}
DIGESTED = 64  # number of items of a split that are hashed
# What a batch must be.
FORMS = {
    "image": "float32 inputs (N, C, H, W) or (N, F) and int64 classes (N,)",
    "text": "int64 tokens (N, T) and the tokens that follow them, int64 (N, T)",
}


def same_draws(make: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a function of the user with generators that always start alike. So a split that is drawn without a generator
    of its own is the same one for training and validation, for every norm, seed and launch."""
    with isolate_rng(include_cuda=False):
        torch.default_generator.manual_seed(0)
        np.random.seed(0)
        random.seed(0)
        return make(*arguments, **named)


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

    def read(self) -> dict[str, Any]:
        own = self._make_loaders()
        for split, loader in self.loaders.items():
            if isinstance(loader.dataset, IterableDataset) or not len(loader.dataset):
                raise ValueError(f"data.path: {self.name} has no items to choose from for {split}")
        splits = {split: self._rows_of(split, CPU, self.seed) for split in self.loaders}
        for split, rows in splits.items():
            self._check(split, rows)
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
        for split, loader in self.loaders.items():
            if not isinstance(loader, DataLoader):
                kind = type(loader).__name__
                raise ValueError(
                    f"data.path: {self.name}.{split}_dataloader() gives {kind}; give one DataLoader"
                )
            batches = loader.batch_sampler
            orders = (loader.sampler, batches, getattr(batches, "sampler", None))
            others = [type(order).__name__ for order in orders if type(order) not in ORDERS]
            if others and not isinstance(loader.dataset, IterableDataset):
                raise ValueError(
                    f"data.path: {self.name}.{split}_dataloader() chooses items by {others[0]}, and normexp would use "
                    "all; give a Dataset of these items alone, such as torch.utils.data.Subset"
                )
        return own

    def _rows_of(self, split: str, device: torch.device, seed: int) -> ItemRows:
        loader = self.loaders[split]
        workers = loader.num_workers if self.workers is None else self.workers
        return ItemRows(loader.dataset, loader.collate_fn, workers=workers, seed=seed, device=device)

    def _check(self, split: str, rows: ItemRows) -> None:
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
        sizes = " / ".join(f"{len(self.splits[name]):,} {name}" for name in ("train", "val", "test"))
        shape = "x".join(str(side) for side in self.input_shape)
        return f"{self.name}: {sizes} items of {shape}, {self.num_classes} classes"
