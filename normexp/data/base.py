"""The base of all data sets: options, splits, and loaders of batches on the training device."""

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from pytorch_lightning import LightningDataModule
from torch import Tensor

from normexp.data.orders import ShuffledOrder
from normexp.data.rows import Rows
from normexp.data.transforms import Augmentation, Batch, Tasks
from normexp.format import pluralize

# Limits of options, which a configuration is checked against.
Count = Annotated[int, Field(ge=1)]
SplitSeed = Annotated[int, Field(ge=0, lt=2**32)]  # numpy takes no larger one
DIGESTED = 1000  # number of test inputs that are hashed, besides all targets


def digest(inputs: Tensor, targets: Tensor) -> str:
    """Digest of a test set: of all targets and the first inputs."""
    content = hashlib.sha256(targets.contiguous().numpy().tobytes())
    content.update(inputs.contiguous().numpy().tobytes())
    return content.hexdigest()[:16]


class BatchLoader:
    """Training batches (x, y). They can be resumed in the middle of an epoch.

    Args:
        rows: all training rows.
        order: chooses the rows of each batch of an epoch.
        rank, world_size: this process takes its equal share of every global batch.
        augmentation: applied to each batch of images.
        tasks: applied after it.
        progress: gives the trainer's epoch and the number of its batches that are trained. A batch whose step was
            interrupted does not count, so it comes again. (Lightning's other source, `sampler.set_epoch`, is one epoch
            ahead after some resumes.) Without a trainer, the loader counts `epoch` and its batches itself.

    State: {"epoch", "batch"}. Lightning stores it in the checkpoint and loads it before it asks for the first batch.
    The epoch then starts at that batch. `len` still counts the whole epoch, as Lightning's progress does.
    """

    def __init__(
        self,
        rows: Rows,
        order: ShuffledOrder,
        *,
        rank: int = 0,
        world_size: int = 1,
        augmentation: Augmentation | None = None,
        tasks: Tasks | None = None,
        progress: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self.rows = rows
        self.order = order
        share = order.batch_size // world_size
        self.share = slice(rank * share, (rank + 1) * share)
        self.augmentation, self.tasks = augmentation, tasks
        self.epoch = 0
        self._handed_out = 0
        self.progress = progress or (lambda: (self.epoch, self._handed_out))
        self._resume_at: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        # A generator: this body runs at the first `next`, after Lightning has restored its progress and our state.
        epoch, _ = self.progress()
        first = self.first_batch(epoch)
        indices, draws = self.plan_epoch(epoch)
        for number, batch in enumerate(self.rows.batches(indices[first:]), first):
            self._handed_out = number + 1
            yield self._changed(batch, draws, epoch, number)

    def batch(self, epoch: int, number: int) -> tuple[Tensor, Tensor]:
        """Batch `number` of an epoch, counted from 0. It does not change which batch comes next."""
        indices, draws = self.plan_epoch(epoch)
        return self._changed(self.rows.take(indices[number]), draws, epoch, number)

    def _changed(self, batch: Batch, draws: Tensor | None, epoch: int, number: int) -> Batch:
        if self.augmentation is not None and draws is not None:
            batch = self.augmentation(batch[0], draws[number]), batch[1]
        return batch if self.tasks is None else self.tasks(batch, epoch * len(self) + number)

    def plan_epoch(self, epoch: int) -> tuple[Tensor, Tensor | None]:
        """Rows of each batch of an epoch, (num_batches, share), and the draws of their augmentation."""
        self.rows.begin(epoch)
        indices = self.order.batches(epoch)[:, self.share].to(self.rows.index_device)
        if self.augmentation is None:
            return indices, None
        draws = self.augmentation.draw(epoch, (len(self), self.order.batch_size))
        return indices, draws[:, self.share].to(self.rows.device)

    def first_batch(self, epoch: int) -> int:
        """The batch at which this epoch starts. The restored place is used once."""
        resume_at, self._resume_at = self._resume_at, None
        if resume_at is not None and resume_at["epoch"] == epoch:
            return resume_at["batch"]
        return 0  # also when the checkpoint was written at the end of an earlier epoch

    def state_dict(self) -> dict[str, int]:
        epoch, batch = self.progress()
        return {"epoch": epoch, "batch": batch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._resume_at = state


class EvaluationLoader:
    """The first `limit` rows, or all, in order and in batches of `batch_size`; the last may be shorter. Every process
    gets every row. `of_task` makes each batch that of the present task."""

    def __init__(self, rows: Rows, batch_size: int, limit: int | None = None) -> None:
        self.rows = rows
        self.of_task: Callable[[Batch], Batch] | None = None
        end = len(rows) if limit is None else min(limit, len(rows))
        self.indices = [slice(start, min(start + batch_size, end)) for start in range(0, end, batch_size)]

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        batches = self.rows.batches(self.indices)
        return map(self.of_task, batches) if self.of_task else batches


@dataclass(kw_only=True, eq=False)
class DataModule(LightningDataModule):
    """A data set held in memory, with its training, validation and test split.

    Call `load()` before you read `splits`, `input_shape`, `num_classes` or `fingerprint`. Loaders and `probe_batch`
    call it themselves. It reads everything and checks every option against the data. It raises ValueError with one line
    that names the option and the remedy.

    Attributes after `load()`:
        kind: "image" or "text".
        splits: "train", "val", "test" -> Rows on the CPU; of a text, the stream of its tokens.
        num_classes: classes, or the size of the vocabulary.
        fingerprint: sha256 of content that differs between machines, "" for a standard data set.
        covered: what of a user's own data the fingerprint covers, "" where it always covers all.
        test_set: digest of the test examples and their order. Options that scale them do not change it.
    """

    # whether the data are the same everywhere, so no part of a run's identity: no fingerprint
    standard: ClassVar[bool] = False

    batch_size: Count  # of all processes together
    eval_batch_size: Count
    seed: int = 0  # order and augmentation of the training batches

    splits: dict[str, Rows] = field(default_factory=dict, init=False, repr=False)
    num_classes: int = field(default=0, init=False, repr=False)
    fingerprint: str = field(default="", init=False, repr=False)
    covered: str = field(default="", init=False, repr=False)
    test_set: str = field(default="", init=False, repr=False)

    _rows: dict[tuple[str, torch.device, bool], Rows] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__init__()

    @property
    @abstractmethod
    def kind(self) -> Literal["image", "text"]: ...

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """(C, H, W) of an image, (T,) of a text."""

    @abstractmethod
    def read(self) -> dict[str, Rows]:
        """Read the data and return its splits. Check the options, set `num_classes`, `fingerprint` and `test_set`."""

    @abstractmethod
    def make_rows(self, split: str, device: torch.device, *, training: bool) -> Rows:
        """A split for `device`, one row per sample. `training`: the rows that the training order chooses from."""

    def rows(self, split: str, device: torch.device, *, training: bool = False) -> Rows:
        """Rows of a split, made by `make_rows` at the first call and kept."""
        key = (split, device, training)
        if key not in self._rows:
            self._rows[key] = self.make_rows(split, device, training=training)
        return self._rows[key]

    @abstractmethod
    def training_order(self, train: Rows) -> ShuffledOrder: ...

    @abstractmethod
    def describe(self) -> str:
        """One line for the screen."""

    def augmentation(self, device: torch.device) -> Augmentation | None:
        return None

    @property
    def tasks_of_run(self) -> Tasks | None:
        """The sequence of tasks, of a run that has several."""
        return None

    def load(self) -> None:
        """Read and check everything, once. Raises ValueError with one line."""
        if self.splits:
            return
        splits = self.read()
        order = self.training_order(splits["train"])
        if len(order) == 0:
            raise ValueError(
                f"batch_size={self.batch_size}: the training split has {pluralize(order.num_rows, 'sample')} and only "
                f"full batches are trained on; choose at most {order.num_rows}"
            )
        self.splits = splits
        if int((self.class_counts("train") > 0).sum()) < 2:  # a constant answer would be perfect
            self.splits = {}
            raise ValueError("data: all samples of the training split have one class; give it two or more")

    def chance_loss(self, split: str) -> float:
        """Entropy in nats of a split's class frequencies, or of a text's character frequencies.

        It is the lowest loss on that split that one prediction for all samples can have.
        """
        self.load()
        return torch.distributions.Categorical(probs=self.class_counts(split).double()).entropy().item()

    def class_counts(self, split: str) -> Tensor:
        """How many targets of a split have each class, or each character: int64 (num_classes,)."""
        return torch.bincount(self.splits[split].y.flatten(), minlength=self.num_classes)

    def setup(self, stage: str) -> None:
        self.load()

    @property
    def device(self) -> torch.device:
        """The trainer's device; the CPU without a trainer."""
        return self.trainer.strategy.root_device if self.trainer else torch.device("cpu")

    def transfer_batch_to_device(self, batch: tuple[Tensor, Tensor], device: torch.device, _: int):
        return batch  # it lies on the device already, and Lightning's search through it costs more than making it

    def train_dataloader(self) -> BatchLoader:
        self.load()
        trainer = self.trainer
        rank, world_size = (trainer.global_rank, trainer.world_size) if trainer else (0, 1)
        return BatchLoader(
            self.rows("train", self.device, training=True),
            self.training_order(self.splits["train"]),
            rank=rank,
            world_size=world_size,
            augmentation=self.augmentation(self.device),
            tasks=self.tasks_of_run,
            progress=self._progress if trainer else None,
        )

    def last_training_batch(self) -> tuple[Tensor, Tensor]:
        """The batch of the last finished step, of this launch or an earlier one."""
        loader = self.train_dataloader()
        return loader.batch(*divmod(self._trained() - 1, len(loader)))

    def _trained(self) -> int:
        """Batches that this run has trained, over all epochs."""
        trainer: Any = self.trainer
        return trainer.fit_loop.epoch_loop.batch_progress.total.processed if trainer else 0

    def _progress(self) -> tuple[int, int]:
        """The trainer's epoch, and the number of its batches that are trained."""
        trainer: Any = self.trainer
        return trainer.current_epoch, trainer.fit_loop.epoch_loop.batch_progress.current.processed

    def val_dataloader(self) -> EvaluationLoader:
        return self.evaluation_loader("val")

    def test_dataloader(self) -> EvaluationLoader:
        return self.evaluation_loader("test")

    def evaluation_loader(self, split: str, limit: int | None = None) -> EvaluationLoader:
        """A split in order, in large batches, without augmentation; only its first `limit` samples if given. Of a run
        with tasks, it is that of the task of the last trained batch."""
        self.load()
        loader = EvaluationLoader(self.rows(split, self.device), self.eval_batch_size, limit)
        if (tasks := self.tasks_of_run) is not None:
            loader.of_task = lambda batch: tasks(batch, max(0, self._trained() - 1))
        return loader

    def probe_batch(self, n: int) -> tuple[Tensor, Tensor]:
        """The first `n` validation samples, or all if there are fewer, on the CPU. Every run has the same, and of a run
        with tasks they are those of the first."""
        self.load()
        return self.rows("val", torch.device("cpu")).take(slice(n))
