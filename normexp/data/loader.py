"""Batches from tensors that already lie on the training device: one index_select per tensor and batch."""

from collections.abc import Callable, Iterator

from torch import Tensor

from normexp.data.augment import Augmentation
from normexp.data.order import ShuffledOrder


class BatchLoader:
    """Training batches (x, y) in the sampler's order, resumable in mid-epoch.

    Args:
        x, y: all training rows, on the training device.
        sampler: gives the rows of every batch; Lightning calls its `set_epoch` before each epoch.
        rank, world_size: this process takes its equal share of every global batch.
        augmentation: applied to each batch of images.
        batches_trained: how many batches of this epoch the trainer has finished; a batch handed out when training
            was interrupted is not among them and comes again. Without it, the batches handed out count.

    State: {"epoch", "batch"}. Lightning stores it in the checkpoint and loads it before the first batch is asked for;
    the iteration then starts at that batch, with `len` still counting the whole epoch, as Lightning's progress does.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        sampler: ShuffledOrder,
        *,
        rank: int = 0,
        world_size: int = 1,
        augmentation: Augmentation | None = None,
        batches_trained: Callable[[], int] | None = None,
    ) -> None:
        self.x, self.y = x, y
        self.sampler = sampler
        share = sampler.batch_size // world_size
        self.share = slice(rank * share, (rank + 1) * share)
        self.augmentation = augmentation
        self.batches_trained = batches_trained or (lambda: self._handed_out)
        self._handed_out = 0
        self._resume_at: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        # A generator: this body runs at the first `next`, when Lightning has set the epoch and loaded the state.
        first = self._first_batch()
        rows = self.sampler.batches()[:, self.share].to(self.x.device)  # (num_batches, share)
        draws = None
        if self.augmentation:
            shape = (len(self), self.sampler.batch_size)
            draws = self.augmentation.draw(self.sampler.epoch, shape)[:, self.share].to(self.x.device)
        for step in range(first, len(self)):
            x = self.x.index_select(0, rows[step])
            y = self.y.index_select(0, rows[step])
            if draws is not None:
                x = self.augmentation(x, draws[step])
            self._handed_out = step + 1
            yield x, y

    def _first_batch(self) -> int:
        resume_at, self._resume_at = self._resume_at, None
        if resume_at is not None and resume_at["epoch"] == self.sampler.epoch:
            return resume_at["batch"]
        return 0  # also after a checkpoint written at the end of an earlier epoch

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.sampler.epoch, "batch": self.batches_trained()}

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
