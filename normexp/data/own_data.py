"""A user's own LightningDataModule or Dataset; its items are read when a batch needs them."""

import hashlib
import operator
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from pytorch_lightning import LightningDataModule
from pytorch_lightning.utilities.seed import isolate_rng
from rich.console import Console
from rich.progress import track
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler

from normexp.data.base import DataModule
from normexp.data.orders import ShuffledOrder, keyed_number
from normexp.data.rows import Chosen, Rows
from normexp.data.transforms import Batch
from normexp.format import printable

CPU = torch.device("cpu")
SPLITS = ("train", "val", "test")
CHUNK = 64  # number of items that are read at once
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


def call_seeded(make: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a function of the user with generators that always start alike. So a split that is drawn without a generator
    of its own is the same one for training and validation, for every norm, seed and launch."""
    with isolate_rng(include_cuda=False):
        seed_all(0)
        return make(*arguments, **named)


def error_line(error: Exception) -> str:
    """An error of the user's code, in one line; that of a worker process ends with its cause."""
    return printable(f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[-1]}")


class ItemRows(Rows, Dataset):
    """Items that are read when a batch needs them.

    Their random transforms depend on (seed, epoch, number of the item) alone: not on the batch, the worker or the step
    at which a run was resumed.

    Args:
        loader: of the user; its map-style Dataset gives items (input, target), its `collate_fn` makes a batch of them.
        classes: number of classes that targets may have; 0: not known yet.
        workers: number of processes that read ahead, 0 for none; None: as many as the loader has.
        seed: of random transforms.
        device: of the batches.

    Reading raises ValueError for a target out of range.
    """

    def __init__(
        self, loader: DataLoader, *, classes: int, workers: int | None, seed: int, device: torch.device
    ) -> None:
        self.items: Any = loader.dataset
        self.collate = loader.collate_fn
        self.classes = classes
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
        return torch.cat([y for _, y in self.batches(torch.arange(len(self)).split(CHUNK))])

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
        for _ in rows:
            with isolate_rng(include_cuda=False):
                x, y = next(batches)
            for labels in (x, y) if x.shape == y.shape else (y,):  # inputs of a text are tokens too
                if self.classes and not 0 <= labels.min() <= labels.max() < self.classes:
                    found = f"{int(labels.min())}..{int(labels.max())}"
                    wanted = f"{self.classes} classes are 0..{self.classes - 1}"
                    raise ValueError(
                        f"data.path: a batch has labels {found}, and {wanted}; repair them, or set data.classes=N"
                    )
            yield x.to(self._device, non_blocking=True), y.to(self._device, non_blocking=True)


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
        try:
            loaders = self._make_loaders()
        except Exception as error:  # the user's code may raise anything
            raise ValueError(f"data.path: {self.class_name}: {error_line(error)}") from error
        for split, loader in self.loaders.items():
            self._check_loader(split, loader)
            self._check_batch(split)
        names = getattr(self.loaders["train"].dataset, "classes", None)
        count = self.classes or getattr(loaders, "num_classes", None) or (len(names) if names else None)
        if count is None:
            raise ValueError(
                f"data.classes is not set, and {self.class_name} has no num_classes; add data.classes=N"
            )
        try:
            self.num_classes = operator.index(count)
        except TypeError:
            raise ValueError(
                f"data.path: {self.class_name}.num_classes={count!r:.40}: must be a whole number; set data.classes=N"
            ) from None
        splits: dict[str, Any] = {split: self.make_rows(split, CPU, training=False) for split in SPLITS}
        if named := getattr(loaders, "fingerprint", None):
            digests, content = {}, named
        else:
            digests = {split: self._count(split) for split in SPLITS}
            content = [[len(rows) for rows in splits.values()], digests]
        self.fingerprint = hashlib.sha256(repr(content).encode()).hexdigest()
        self.test_set = digests.get("test", self.fingerprint[:16])
        self.covered = f"what {self.class_name}.fingerprint says" if named else "all items"
        return splits

    def _make_loaders(self) -> Any:
        """Set a loader for each split. Returns the module, or the training Dataset."""
        kind: Any = getattr(self.module, "func", self.module)
        if not issubclass(kind, LightningDataModule):
            sets = {split: call_seeded(self.module, split=split) for split in SPLITS}
            self.loaders = {split: DataLoader(items) for split, items in sets.items()}
            return sets["train"]
        module = call_seeded(self.module)
        call_seeded(module.prepare_data)
        call_seeded(module.setup, "fit")
        call_seeded(module.setup, "test")
        self.loaders = {split: call_seeded(getattr(module, f"{split}_dataloader")) for split in SPLITS}
        return module

    def _check_loader(self, split: str, loader: Any) -> None:
        """Refuse a loader whose Dataset cannot be read in any order, or has other items than the loader."""
        made = f"data.path: {self.class_name}.{split}_dataloader()"
        if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
            raise ValueError(f"{made}: give one DataLoader of a Dataset with numbered items")
        chooses = getattr(loader.batch_sampler, "sampler", None)
        if type(chooses) not in (SequentialSampler, RandomSampler):
            raise ValueError(
                f"{made} chooses items by {type(chooses).__name__}, and normexp would use all; "
                "give a Dataset of these items alone, such as torch.utils.data.Subset"
            )

    def make_rows(self, split: str, device: torch.device, *, training: bool) -> ItemRows:
        return ItemRows(
            self.loaders[split], classes=self.num_classes, workers=self.workers, seed=self.seed, device=device
        )

    def _check_batch(self, split: str) -> None:
        wanted = f"data.path: {self.class_name} must give, for {split} and data.kind={self.kind}, {FORMS[self.kind]}"
        try:
            rows = self.make_rows(split, CPU, training=False)
            if not len(rows):
                raise ValueError("it has no item")
            x, y = rows.take(slice(1))
            found = f"it gives {x.dtype} {tuple(x.shape)} and {y.dtype} {tuple(y.shape)}"
        except Exception as error:  # the user's transforms may raise anything
            raise ValueError(f"{wanted}; {error_line(error)}") from error
        if self.kind == "image":
            fits = x.dtype == torch.float32 and x.dim() in (2, 4) and y.dim() == 1
        else:
            fits = x.dtype == torch.int64 and x.dim() == 2 and y.shape == x.shape
        if not fits or y.dtype != torch.int64:
            raise ValueError(f"{wanted}; {found.replace('torch.', '')}")

    def _count(self, split: str) -> str:
        """Read all items of a split once: hash them, check their targets, count the classes. Returns the hash."""
        rows, screen = self.make_rows(split, CPU, training=False), Console(stderr=True)
        rows.seed = 0
        chunks = torch.arange(len(rows)).split(CHUNK)
        content, counts = hashlib.sha256(str(len(rows)).encode()), torch.zeros(self.num_classes).long()
        try:
            for x, y in track(
                rows.batches(chunks), f"reading {split}", len(chunks), console=screen,
                disable=not screen.is_terminal,
            ):  # fmt: skip
                if split == "train" and not x.isfinite().all():
                    raise ValueError("a value of its inputs is not finite, and would end every training")
                content.update(x.contiguous().numpy().tobytes())
                content.update(y.contiguous().numpy().tobytes())
                counts += torch.bincount(y.flatten(), minlength=self.num_classes)
        except Exception as error:  # the user's transforms may raise anything
            raise ValueError(
                f"data.path: {self.class_name}, {split}: an item cannot be read ({error_line(error)})"
            ) from error
        self._class_counts[split] = counts
        return content.hexdigest()[:16]

    def class_counts(self, split: str) -> Tensor:
        if split in self._class_counts:
            return self._class_counts[split]
        listed = getattr(self.loaders[split].dataset, "targets", None)
        targets = self.splits[split].y if listed is None else torch.as_tensor(listed)
        return torch.bincount(targets.flatten(), minlength=self.num_classes)

    def training_order(self, train: Rows) -> ShuffledOrder:
        return ShuffledOrder(len(train), self.batch_size, self.seed)

    def describe(self) -> str:
        sizes = " / ".join(f"{len(rows):,} {split}" for split, rows in self.splits.items())
        shape = "x".join(str(side) for side in self.input_shape)
        return f"{self.class_name}: {sizes} items of {shape}, {self.num_classes} classes; fingerprint of {self.covered}"
