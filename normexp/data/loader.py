"""Batches of rows, in training order or in the order of the data."""

from collections.abc import Callable, Iterator

from torch import Tensor

from normexp.data.order import ShuffledOrder
from normexp.data.rows import Rows
from normexp.data.transforms import Augmentation


class BatchLoader:
    """Training batches (x, y). They can be resumed in the middle of an epoch.

    Args:
        rows: all training rows.
        order: chooses the rows of each batch of an epoch.
        rank, world_size: this process takes its equal share of every global batch.
        augmentation: applied to each batch of images.
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
        progress: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self.rows = rows
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
        # A generator: this body runs at the first `next`, after Lightning has restored its progress and our state.
        epoch, _ = self.progress()
        first = self.first_batch(epoch)
        indices, draws = self.plan_epoch(epoch)
        for batch, (x, y) in enumerate(self.rows.batches(indices[first:]), first):
            self._handed_out = batch + 1
            yield self._augmented(x, draws, batch), y

    def batch(self, epoch: int, number: int) -> tuple[Tensor, Tensor]:
        """Batch `number` of an epoch, counted from 0. It does not change which batch comes next."""
        indices, draws = self.plan_epoch(epoch)
        x, y = self.rows.take(indices[number])
        return self._augmented(x, draws, number), y

    def _augmented(self, x: Tensor, draws: Tensor | None, batch: int) -> Tensor:
        return x if self.augmentation is None or draws is None else self.augmentation(x, draws[batch])

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
    gets every row."""

    def __init__(self, rows: Rows, batch_size: int, limit: int | None = None) -> None:
        self.rows = rows
        end = len(rows) if limit is None else min(limit, len(rows))
        self.indices = [slice(start, min(start + batch_size, end)) for start in range(0, end, batch_size)]

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return self.rows.batches(self.indices)
