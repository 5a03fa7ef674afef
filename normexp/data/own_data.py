"""A user's own LightningDataModule or Dataset; its items are read when a batch needs them."""

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from pytorch_lightning import LightningDataModule
from pytorch_lightning.utilities.seed import isolate_rng
from rich.console import Console
from rich.progress import track
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
from normexp.data.orders import ShuffledOrder, keyed_number
from normexp.data.rows import Chosen, Rows
from normexp.data.transforms import Batch
from normexp.format import printable

CPU = torch.device("cpu")
CHUNK = 64  # number of items that are read at once
# What a loader may use to choose items: all of them, in order or shuffled.
ORDERS = {SequentialSampler, RandomSampler, BatchSampler, type(None)}
FEW = 16  # chunks that are read without worker processes
# What a batch must be, by `kind`.
FORMS = {
    "image": "float32 inputs (N, C, H, W) or (N, F) and int64 classes (N,)",
    "text": "int64 tokens (N, T) and the tokens that follow them, int64 (N, T)",
}


def seed_all(number: int) -> None:
    """Seed the generators that a user's code draws from: torch's on the CPU, Python's and numpy's."""
    torch.default_generator.manual_seed(number)
    random.seed(number)
    np.random.seed(number % 2**32)


def said(error: Exception) -> str:
    """The words of an error of the user's code, in one line."""
    return printable(" ".join(str(error).split()) or "no message")


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


def call_seeded(make: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a function of the user with generators that always start alike. So a split that is drawn without a generator
    of its own is the same one for training and validation, for every norm, seed and launch."""
    with isolate_rng(include_cuda=False):
        seed_all(0)
        return make(*arguments, **named)


@dataclass(kw_only=True, eq=False)
class OwnData(DataModule):
    """The data sets behind the loaders of a LightningDataModule, or a Dataset class called with split="train", "val"
    and "test".

    normexp chooses the batches, so every norm sees the same ones. It keeps the module's transforms, collate function
    and workers. Random transforms depend on the run's seed, the epoch and the item.

    The fingerprint is the module's attribute of that name. Without one, all items of each split are read and hashed at
    the start of each run. `covered` says which.
    """

    module: Callable[..., LightningDataModule | Dataset]
    path: str | None = None  # dotted path of the class
    kind: Literal["image", "text"] = "image"
    classes: int | None = None  # None: the module's `num_classes`, or the number of its Dataset's `classes`
    workers: int | None = None  # processes that read ahead; None: as many as the module's loaders have

    loaders: dict[str, DataLoader] = field(default_factory=dict, init=False, repr=False)
    _class_counts: dict[str, Tensor] = field(default_factory=dict, init=False, repr=False)

    @property
    def class_name(self) -> str:
        """Name of the class."""
        return getattr(self.module, "func", self.module).__name__

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.splits["train"].take(slice(1))[0].shape[1:])

    def read(self) -> dict[str, Rows]:
        own = self._make_loaders()
        for split, loader in self.loaders.items():
            self._check_loader(split, loader)
            self._check_batch(split, self._rows_of(split, CPU, self.seed))
        self.num_classes = self._count_classes(own)
        splits: dict[str, Rows] = {split: self._rows_of(split, CPU, self.seed) for split in self.loaders}
        if named := getattr(own, "fingerprint", None):
            digests, content = {}, named
        else:
            digests = {split: self._count(split) for split in self.loaders}
            content = [[len(rows) for rows in splits.values()], digests]
        self.fingerprint = hashlib.sha256(repr(content).encode()).hexdigest()
        self.test_set = digests.get("test", self.fingerprint[:16])
        self.covered = f"what {self.class_name}.fingerprint says" if named else "all items"
        return splits

    def _make_loaders(self) -> Any:
        """Set a loader for each split. Returns the module, or the training Dataset."""
        splits = ("train", "val", "test")
        kind: Any = getattr(self.module, "func", self.module)
        try:
            if not issubclass(kind, LightningDataModule):
                sets = {split: call_seeded(self.module, split=split) for split in splits}
                self.loaders = {split: DataLoader(items) for split, items in sets.items()}
                return sets["train"]
            own = call_seeded(self.module)
            call_seeded(own.prepare_data)
            call_seeded(own.setup, "fit")
            call_seeded(own.setup, "test")
            self.loaders = {split: call_seeded(getattr(own, f"{split}_dataloader")) for split in splits}
        except Exception as error:  # the user's code may raise anything
            raise ValueError(
                f"data.path: {self.class_name}: {type(error).__name__}: {said(error)}"
            ) from error
        return own

    def _check_loader(self, split: str, loader: Any) -> None:
        """Refuse a loader whose Dataset cannot be read in any order, or has other items than the loader."""
        made = f"data.path: {self.class_name}.{split}_dataloader()"
        if not isinstance(loader, DataLoader):
            raise ValueError(f"{made} gives {type(loader).__name__}; give one DataLoader")
        items: Any = loader.dataset
        if isinstance(items, IterableDataset) or not len(items):
            raise ValueError(f"data.path: {self.class_name} has no items to choose from for {split}")
        batches = loader.batch_sampler
        orders = (loader.sampler, batches, getattr(batches, "sampler", None))
        others = [type(order).__name__ for order in orders if type(order) not in ORDERS]
        if others:
            raise ValueError(
                f"{made} chooses items by {others[0]}, and normexp would use all; "
                "give a Dataset of these items alone, such as torch.utils.data.Subset"
            )

    def _rows_of(self, split: str, device: torch.device, seed: int) -> ItemRows:
        return ItemRows(
            self.loaders[split],
            name=f"{self.class_name}, {split}",
            classes=self.num_classes,
            workers=self.workers,
            seed=seed,
            device=device,
        )

    def _check_batch(self, split: str, rows: ItemRows) -> None:
        wanted = f"data.path: {self.class_name} must give, for {split} and data.kind={self.kind}, {FORMS[self.kind]}"
        try:
            x, y = rows.take(slice(1))
            found = f"{x.dtype} {tuple(x.shape)} and {y.dtype} {tuple(y.shape)}".replace("torch.", "")
        except Exception as error:  # the user's transforms may raise anything
            raise ValueError(f"{wanted}; {type(error).__name__}: {said(error)}") from error
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
                f"data.classes is not set, and {self.class_name} has no num_classes; add data.classes=N"
            )
        return int(count)

    def _count(self, split: str) -> str:
        """Read all items of a split once: hash them, check their targets, count the classes. Returns the hash."""
        rows = self._rows_of(split, CPU, seed=0)
        chunks, screen = torch.arange(len(rows)).split(CHUNK), Console(stderr=True)
        if len(chunks) < FEW:  # processes would take longer to start
            rows.workers = 0
        content, targets = hashlib.sha256(str(len(rows)).encode()), []
        shown: dict[str, Any] = {"total": len(chunks), "transient": True, "disable": not screen.is_terminal}
        try:
            for x, y in track(rows.batches(chunks), f"reading {rows.name}", console=screen, **shown):
                content.update(x.contiguous().numpy().tobytes())
                content.update(y.contiguous().numpy().tobytes())
                targets.append(y)
        except LabelError:
            raise
        except Exception as error:  # the user's transforms may raise anything
            why = f"{type(error).__name__}: {said(error)}"
            raise ValueError(f"data.path: {rows.name}: an item cannot be read ({why})") from error
        counts = torch.bincount(torch.cat(targets).flatten(), minlength=self.num_classes)
        self._class_counts[split] = counts
        return content.hexdigest()[:16]

    def class_counts(self, split: str) -> Tensor:
        if split not in self._class_counts:
            listed = getattr(self.loaders[split].dataset, "targets", None)
            targets = self.splits[split].y if listed is None else torch.as_tensor(listed)
            self._class_counts[split] = torch.bincount(targets.flatten(), minlength=self.num_classes)
        return self._class_counts[split]

    def make_rows(self, split: str, device: torch.device, *, training: bool) -> Rows:
        return self._rows_of(split, device, self.seed)

    def training_order(self, train: Rows) -> ShuffledOrder:
        return ShuffledOrder(len(train), self.batch_size, self.seed)

    def describe(self) -> str:
        sizes = " / ".join(f"{len(rows):,} {split}" for split, rows in self.splits.items())
        shape = "x".join(str(side) for side in self.input_shape)
        return f"{self.class_name}: {sizes} items of {shape}, {self.num_classes} classes; fingerprint of {self.covered}"
