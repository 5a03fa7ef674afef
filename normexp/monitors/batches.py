"""The two batches on which monitors measure, what all processes of a run have of them together, and the loss of a
network that has no step of its own."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from lightning_utilities.core.apply_func import apply_to_collection
from pytorch_lightning import Trainer
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

from normexp.monitors.guard import NoLoss, same_random


class Batches(NamedTuple):
    """A batch of the validation split that never changes, and the training batch."""

    held_out: Any
    training: Any


def held_out_batch(trainer: Trainer, training: Any, size: int) -> Any:
    """`size` samples if the data module offers them, else the first validation batch, else the training batch."""
    data = getattr(trainer, "datamodule", None)
    if hasattr(data, "probe_batch"):
        return data.probe_batch(size)
    loader = trainer.val_dataloaders
    if isinstance(loader, (list, tuple)):  # of several validation sets, take the first
        loader = loader[0] if loader else None
    return training if loader is None else first_batch(loader)


def last_training_batch(trainer: Trainer) -> Any:
    """The batch of the last step before the run was resumed; None if the data module does not know it."""
    data = getattr(trainer, "datamodule", None)
    return data.last_training_batch() if hasattr(data, "last_training_batch") else None


def first_batch(loader: Any) -> Any:
    """The first batch of a loader. It uses no random number, also of the loader's own generators."""
    parts = [loader, *(getattr(loader, name, None) for name in ("sampler", "batch_sampler", "dataset"))]
    parts += [getattr(part, "sampler", None) for part in parts]
    own = [getattr(part, "generator", None) for part in parts]
    states = {g: g.get_state() for g in own if isinstance(g, torch.Generator)}
    try:
        with same_random():  # a DataLoader draws a seed when it starts
            return next(iter(loader))
    finally:
        for generator, state in states.items():
            generator.set_state(state)


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
    return batch if processes() == 1 else apply_to_collection(batch, Tensor, all_gather, allow_frozen=True)


def norms_over_processes(norms: Tensor) -> Tensor:
    """L2 norms of gradients by activations, for the mean loss over all processes and all their samples. Each process
    gives the norms for its own mean loss and its own samples, (n,)."""
    if processes() == 1:
        return norms
    squared = norms.square()
    dist.all_reduce(squared)
    return squared.sqrt() / processes()


def leading_size(batch: object) -> int:
    """Number of samples in a batch: the size of the first axis of all its tensors.

    Raises ValueError if they have none in common, or if the batch is of a class that may hold others.
    """
    leaves = tree_leaves(batch if not is_dataclass(batch) else list(vars(batch).values()))
    leaves = [x for leaf in leaves for x in (leaf.values() if isinstance(leaf, Mapping) else [leaf])]
    other = [leaf for leaf in leaves if not isinstance(leaf, (Tensor, str, bytes, int, float, type(None)))]
    sizes = {len(x) for x in leaves if isinstance(x, Tensor) and x.ndim}
    if other or len(sizes) != 1:
        kind = (
            type(other[0]).__name__ if other else "its tensors have different sizes" if sizes else "no tensor"
        )
        raise ValueError(
            f"samples of the batch cannot be counted ({kind}); give tensors with one row for each"
        )
    return sizes.pop()


def rows_of(batch: object, start: int, stop: int) -> object:
    """Samples `start` to `stop` of every tensor of a batch."""
    return apply_to_collection(batch, Tensor, lambda x: x[start:stop] if x.ndim else x, allow_frozen=True)


class Step(nn.Module):
    """A network without a `training_step`, and its loss of one batch.

    Args:
        loss: `loss(output, target)`. By default the `loss` in the network's output, else cross-entropy for targets
            that are classes, (N, ...) of outputs (N, K, ...) or (N, ..., K), or mean squared error for targets of the
            output's shape.
    """

    automatic_optimization = True

    def __init__(self, network: nn.Module, loss: Callable[..., Tensor] | None = None) -> None:
        super().__init__()
        self.model, self.loss = network, loss

    def training_step(self, batch: Any) -> dict[str, Any]:
        args, named, target = arguments(self.model, batch)
        output = self.model(*args, **named)
        loss = self.loss(output, target) if self.loss else guessed_loss(output, target)
        if loss is None:
            raise NoLoss("no loss is known: pass loss=(output, target), and batches with their targets")
        return {"loss": loss}


def as_step(module: nn.Module, loss: Callable[..., Tensor] | None = None) -> nn.Module:
    """A module with `training_step`: the user's, or its network with a loss."""
    return module if loss is None and hasattr(module, "training_step") else Step(module, loss)


def arguments(network: nn.Module, batch: Any) -> tuple[tuple, dict[str, Any], Any]:
    """What a network is called with, by position and by name, and the target: of a tensor, (x, y), (x1, x2, y) for a
    network that takes two, a mapping of its arguments' names, or whatever else it takes whole."""
    signature = inspect.signature(network.forward)
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    if isinstance(batch, Mapping):
        try:
            signature.bind(**batch)
        except TypeError:  # it takes the mapping itself
            return (batch,), {}, batch.get("labels")
        return (), dict(batch), batch.get("labels")
    if not isinstance(batch, (tuple, list)):
        return (batch,), {}, None
    if isinstance(batch[0], (tuple, list)):
        return tuple(batch[0]), {}, batch[1] if len(batch) > 1 else None
    needed = [
        p for p in signature.parameters.values() if p.default is p.empty and p.kind <= p.POSITIONAL_OR_KEYWORD
    ]
    several = inspect.Parameter.VAR_POSITIONAL in kinds and len(batch) > 1
    count = len(batch) - 1 if several else max(1, len(needed))
    return tuple(batch[:count]), {}, batch[count] if len(batch) > count else None


def guessed_loss(output: Any, target: Any) -> Tensor | None:
    """The loss of an output, see `Step`; None if nothing tells it."""
    given = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    y = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", output)
    if isinstance(given, Tensor) or not (isinstance(y, Tensor) and isinstance(target, Tensor)):
        return given
    if target.is_floating_point():
        return F.mse_loss(y, target) if y.shape == target.shape else None
    for axis in (1, -1):
        if y.ndim == target.ndim + 1 > 1 and y.movedim(axis, -1).shape[:-1] == target.shape:
            return F.cross_entropy(y.movedim(axis, 1), target)
    return None


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
