"""Batches from tensors that already lie on the training device: one index_select per tensor and batch."""

from collections.abc import Callable, Iterator

from torch import Tensor

from normexp.data.augment import Augmentation
from normexp.data.order import ShuffledOrder


class BatchLoader:
    """Training batches (x, y), resumable in mid-epoch.

    Args:
        x, y: all training rows, on the training device.
        order: which rows make up the batches of each epoch.
        rank, world_size: this process takes its equal share of every global batch.
        augmentation: applied to each batch of images.
        progress: gives the trainer's epoch and how many of its batches are trained. The trainer's count excludes a
            batch in whose step training was interrupted, so that batch comes again. (Lightning's other source,
            `sampler.set_epoch`, is one epoch ahead after some resumes.) Without a trainer, `epoch` and the batches
            handed out count.

    State: {"epoch", "batch"}. Lightning stores it in the checkpoint and loads it before it asks for the first batch;
    that epoch then starts at that batch. `len` still counts the whole epoch, as Lightning's progress does.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        order: ShuffledOrder,
        *,
        rank: int = 0,
        world_size: int = 1,
        augmentation: Augmentation | None = None,
        progress: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self.x, self.y = x, y
        self.order = order
        share = order.batch_size // world_size
        self.share = slice(rank * share, (rank + 1) * share)
        self.augmentation = augmentation
        self.epoch = 0
        self._handed_out = 0
        self.progress = progress or (lambda: (self.epoch, self._handed_out))
        self._resume_at: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        # A generator: this body runs at the first `next`, when Lightning has restored its progress and our state.
        epoch, _ = self.progress()
        first = self.first_batch(epoch)
        for number, batch in enumerate(self._batches(epoch, first), first + 1):
            self._handed_out = number
            yield batch

    def _batches(self, epoch: int, first: int) -> Iterator[tuple[Tensor, Tensor]]:
        rows = self.order.batches(epoch)[:, self.share].to(self.x.device)  # (num_batches, share)
        draws = None
        if self.augmentation:
            shape = (len(self), self.order.batch_size)
            draws = self.augmentation.draw(epoch, shape)[:, self.share].to(self.x.device)
        for batch in range(first, len(self)):
            chosen = rows[batch]
            x, y = self.x.index_select(0, chosen), self.y.index_select(0, chosen)
            yield (x if draws is None else self.augmentation(x, draws[batch])), y

    def batch(self, epoch: int, number: int) -> tuple[Tensor, Tensor]:
        """One batch of an epoch, counted from 0, for whoever looks back; what comes next stays what it is."""
        return next(self._batches(epoch, number))

    def first_batch(self, epoch: int) -> int:
        """Where this epoch starts, once."""
        resume_at, self._resume_at = self._resume_at, None
        if resume_at is not None and resume_at["epoch"] == epoch:
            return resume_at["batch"]
        return 0  # also after a checkpoint written at the end of an earlier epoch

    def state_dict(self) -> dict[str, int]:
        epoch, batch = self.progress()
        return {"epoch": epoch, "batch": batch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._resume_at = state


class EvaluationLoader:
    """All rows in order, in slices of `batch_size`; the last may be shorter. Every process evaluates everything."""

    def __init__(self, x: Tensor, y: Tensor, batch_size: int) -> None:
        self.batches = list(zip(x.split(batch_size), y.split(batch_size), strict=True))

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(self.batches)
