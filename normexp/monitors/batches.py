"""The two batches on which monitors measure, and what all processes of a run have of them together."""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from lightning_utilities.core.apply_func import apply_to_collection
from pytorch_lightning import Trainer
from pytorch_lightning.utilities.seed import isolate_rng
from torch import Tensor


class Batches(NamedTuple):
    """A batch of the validation split that never changes, and the training batch."""

    held_out: Any
    training: Any


def held_out_batch(trainer: Trainer, training: Any, size: int) -> Any:
    """`size` samples if the data module offers them, else the first validation batch, else the training batch."""
    data = vars(trainer)["datamodule"]  # Lightning sets it but declares no type
    if hasattr(data, "probe_batch"):
        return data.probe_batch(size)
    loader = trainer.val_dataloaders
    if isinstance(loader, (list, tuple)):  # of several validation sets, take the first
        loader = loader[0] if loader else None
    return training if loader is None else first_batch(loader)


def last_training_batch(trainer: Trainer) -> Any:
    """The batch of the last step before the run was resumed; None if the data module does not know it."""
    data = vars(trainer)["datamodule"]
    return data.last_training_batch() if hasattr(data, "last_training_batch") else None


def first_batch(loader: Any) -> Any:
    """The first batch of a loader. It uses no random number."""
    with isolate_rng():  # a DataLoader draws a seed when it starts
        return next(iter(loader))


def batches_of(data: Any, size: int) -> Batches:
    """The batches of a data module; for a single batch `data`, that batch twice."""
    if not hasattr(data, "train_dataloader"):
        return Batches(data, data)
    held_out = data.probe_batch(size) if hasattr(data, "probe_batch") else first_batch(data.val_dataloader())
    return Batches(held_out, first_batch(data.train_dataloader()))


def processes() -> int:
    """Number of processes that train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def all_gather(part: Tensor) -> Tensor:
    """The parts (N, ...) of all P processes, in their order, (P N, ...). Every process must call this."""
    if processes() == 1:
        return part
    own = part.detach().contiguous()
    content = own.flatten().view(torch.uint8)  # gloo does not support every type
    parts = [torch.empty_like(content) for _ in range(processes())]
    dist.all_gather(parts, content)
    return torch.cat(parts).view(own.dtype).view(processes() * own.shape[0], *own.shape[1:])


def gathered_batch(batch: Any) -> Any:
    """The batches of all processes, joined along the first axis of each tensor."""
    return apply_to_collection(batch, Tensor, all_gather)


def norms_over_processes(norms: Tensor) -> Tensor:
    """L2 norms of gradients by activations, for the mean loss over all processes and all their samples. Each process
    gives the norms for its own mean loss and its own samples, (n,)."""
    if processes() == 1:
        return norms
    squared = norms.square()
    dist.all_reduce(squared)
    return squared.sqrt() / processes()


def leading_size(batch: object) -> int:
    """Number of samples in a batch: the size of the first axis of its first tensor."""
    sizes: list[int] = []
    apply_to_collection(batch, Tensor, lambda x: sizes.append(len(x)))
    return sizes[0]


def rows_of(batch: object, start: int, stop: int) -> object:
    """Samples `start` to `stop` of every tensor of a batch."""
    return apply_to_collection(batch, Tensor, lambda x: x[start:stop])


WITH_ACCURACY = "return {'loss': ..., 'batch_accuracy': ...} from training_step"


def images_of(batch: Any, monitor: str) -> tuple[Tensor, Tensor]:
    """The images (N, ...) and labels (N,) of a batch. Raises ValueError with one line for any other batch."""
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        x, y = batch
        if isinstance(x, Tensor) and isinstance(y, Tensor) and x.is_floating_point() and y.ndim == 1:
            return x, y
    raise ValueError(
        f"monitor {monitor}: changes images, and this batch is not (images, labels); leave it out"
    )
