"""Batches: the two on which monitors measure, their samples, what all processes of a run have of them together, and the
loss that a network without a step of its own has of one."""

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from itertools import islice
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from lightning_utilities.core.apply_func import apply_to_collection
from pytorch_lightning import Trainer
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

from normexp.format import require_object
from normexp.monitors.guard import NoLoss, NoTarget, WrongLoss, require_network, same_random


class Batches(NamedTuple):
    """A batch of the validation split that never changes, and the training batch."""

    held_out: Any
    training: Any


def held_out_batch(trainer: Trainer, training: Any, size: int | None) -> Any:
    """`size` samples if the data module offers them, else the first validation batch, else the training batch."""
    data = getattr(trainer, "datamodule", None)
    if hasattr(data, "probe_batch"):
        return data.probe_batch(size or leading_size(training))
    loader = trainer.val_dataloaders
    if isinstance(loader, (list, tuple)):  # of several validation sets, take the first
        loader = loader[0] if loader else None
    return training if loader is None else first_batch(loader)


def last_training_batch(trainer: Trainer) -> Any:
    """The batch of the last step before the run was resumed; None if the data module does not know it."""
    data = getattr(trainer, "datamodule", None)
    return data.last_training_batch() if hasattr(data, "last_training_batch") else None


def first_batches(loader: Any, count: int) -> list[Any]:
    """The first batches of a loader. They use no random number, also of the loader's own generators."""
    parts = [loader, *(getattr(loader, name, None) for name in ("sampler", "batch_sampler", "dataset"))]
    parts += [getattr(part, "sampler", None) for part in parts]
    generators = [getattr(part, "generator", None) for part in parts]
    states = {g: g.get_state() for g in generators if isinstance(g, torch.Generator)}
    try:
        with same_random():  # a DataLoader draws a seed when it starts
            return list(islice(iter(loader), count))
    finally:
        for generator, state in states.items():
            generator.set_state(state)


def first_batch(loader: Any) -> Any:
    """The first batch of a loader, see `first_batches`. Raises ValueError if it gives none."""
    if not (batches := first_batches(loader, 1)):
        raise ValueError("loader: gives no batch; pass a loader with at least one")
    return batches[0]


def batches_of(data: Any, size: int | None) -> Batches:
    """The batches of a data module; for a single batch `data`, that batch twice."""
    if not hasattr(data, "train_dataloader"):
        return Batches(data, data)
    training = first_batch(data.train_dataloader())
    probe = getattr(data, "probe_batch", None)
    held_out = probe(size or leading_size(training)) if probe else first_batch(data.val_dataloader())
    return Batches(held_out, training)


def processes() -> int:
    """Number of processes that train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def all_gather(part: Tensor) -> Tensor:
    """The parts (N, ...) of all P processes, in their order, (P N, ...). Every process must call this."""
    if processes() == 1:
        return part
    local = part.detach().contiguous()
    content = local.flatten().view(torch.uint8)  # gloo does not support every type
    parts = [torch.empty_like(content) for _ in range(processes())]
    dist.all_gather(parts, content)
    return torch.cat(parts).view(local.dtype).view(processes() * local.shape[0], *local.shape[1:])


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


def size_of(batch: Any) -> int | None:
    """Samples in a batch: the length of its tensors, where one of length 1 serves all. None if they do not agree, or if
    a class of one's own, a nested or sparse tensor, or a list of samples that nothing has stacked, hides them."""
    lists = [part for part in (batch if isinstance(batch, tuple) else [batch]) if isinstance(part, list)]
    unstacked = (all(isinstance(item, (tuple, list, Mapping)) for item in part) for part in lists)
    if len(lists) > 1 or any(unstacked):  # images and boxes, for one
        return None
    leaves = tree_leaves(batch if not is_dataclass(batch) else list(vars(batch).values()))
    leaves = [x for leaf in leaves for x in (leaf.values() if isinstance(leaf, Mapping) else [leaf])]
    known = (str, bytes, int, float, type(None))
    if not all(has_rows(leaf) if isinstance(leaf, Tensor) else isinstance(leaf, known) for leaf in leaves):
        return None
    sizes = {len(x) for x in leaves if isinstance(x, Tensor) and x.ndim}
    sizes = sizes - {1} or sizes
    return sizes.pop() if len(sizes) == 1 else None


def has_rows(x: Tensor) -> bool:
    """Whether samples can be taken out of a tensor by their numbers: not of a nested or a sparse one."""
    return x.layout is torch.strided and not x.is_nested


def leading_size(batch: Any) -> int:
    """Samples in a batch. Raises ValueError if they cannot be counted."""
    if (size := size_of(batch)) is None:
        kind = type(batch).__name__
        raise ValueError(
            f"samples of the batch cannot be counted ({kind}); give tensors with one row for each"
        )
    return size


def rows_of(batch: Any, start: int, stop: int) -> Any:
    """Samples `start` to `stop` of every tensor of a batch; one of length 1 serves all."""
    return apply_to_collection(
        batch, Tensor, lambda x: x[start:stop] if x.ndim and len(x) > 1 else x, allow_frozen=True
    )


PROBE = "a fixed random sum of the outputs, since no loss is known"
SQUARED, ENTROPY = "mean squared error, guessed from the targets", "cross-entropy, guessed from the targets"


def require_loss(loss: Any) -> None:
    """Raise a ValueError with one line unless a user's loss is None or can be called as loss(output, target)."""
    require_object("loss", loss)
    if loss is None:
        return
    if not callable(loss):
        raise ValueError(f"loss={loss!r}: cannot be called; pass a function, loss(output, target)")
    called = loss.forward if type(loss).__call__ is nn.Module.__call__ else loss
    try:
        inspect.signature(called).bind("output", "target")
    except TypeError:
        raise ValueError(
            f"loss={loss_name(loss)}: cannot be called as loss(output, target); take both"
        ) from None
    except ValueError:  # it shows no signature
        pass


def loss_name(loss: Callable[..., Any]) -> str:
    """A user's loss in words."""
    return getattr(loss, "__name__", type(loss).__name__)


class Step(nn.Module):
    """A network without a `training_step`, and its loss of one batch, see `loss_of_output`.

    Args:
        loss: `loss(output, target)`.
        probe: whether a fixed random sum of the outputs stands for a loss that nobody knows, instead of NoLoss.
        takes: name under which the network takes the targets, as one for detection does; empty if it takes none.

    Attributes:
        origin.how: how the loss is computed, in words; empty until the first pass.
    """

    automatic_optimization = True

    def __init__(
        self,
        network: nn.Module,
        loss: Callable[..., Tensor] | None = None,
        *,
        probe: bool = False,
        takes: str = "",
    ) -> None:
        super().__init__()
        require_loss(loss)
        self.model, self.loss, self.probe, self.takes = network, loss, probe, takes
        # A pass works on copies of a module's lists and dictionaries, so what it writes into them is lost.
        self.origin = SimpleNamespace(how="")

    def training_step(self, batch: Any) -> dict[str, Tensor]:
        args, named, target = arguments(self.model, batch)
        output = self.model(*args, **named, **({self.takes: target} if self.takes else {}))
        loss, self.origin.how = loss_of_output(output, target, self.loss)
        if loss is None and self.probe:
            y = tensor_of(output)
            loss, self.origin.how = (y * random_signs(y.shape[1:], y)).mean(), PROBE
        if loss is None:
            raise NoLoss("no loss is known: pass loss=(output, target), and batches with their targets")
        return {"loss": loss}


def as_step(
    module: nn.Module, loss: Callable[..., Tensor] | None = None, *, probe: bool = False
) -> nn.Module:
    """A module with `training_step`: the user's, or its network with a loss."""
    require_network("module", module)
    has_step = loss is None and callable(getattr(module, "training_step", None))
    return module if has_step else Step(module, loss, probe=probe)


def arguments(network: nn.Module, batch: Any) -> tuple[tuple, dict[str, Any], Any]:
    """What a network is called with, by position and by name, and the target: of a tensor, (x, y), (x1, x2, y) for a
    network that takes two, ((x1, x2), y), a mapping of its arguments' names, or whatever else it takes whole."""
    signature = inspect.signature(network.forward)
    parameters = signature.parameters.values()
    count = len([p for p in parameters if p.default is p.empty and p.kind <= p.POSITIONAL_OR_KEYWORD])
    several = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    inputs, target = batch, None
    if isinstance(batch, (tuple, list)):
        first = count if count > 1 else len(batch) - 1 if several else 1
        listed = isinstance(batch[0], list) and len(batch[0]) != first  # images of several sizes, for one
        flat = 1 < first <= len(batch) and (listed or isinstance(batch[0], Tensor))
        inputs, rest = (tuple(batch[:first]), batch[first:]) if flat else (batch[0], batch[1:])
        target = rest[0] if rest else None
    if isinstance(inputs, Mapping):
        target = inputs.get("labels") if target is None else target
        for named in (dict(inputs), {k: v for k, v in inputs.items() if k != "labels"}):
            with contextlib.suppress(TypeError):  # it takes the mapping itself
                signature.bind(**named)
                return (), named, target
        return (inputs,), {}, target
    if isinstance(inputs, (tuple, list)) and (several or len(inputs) == count > 1):
        return tuple(inputs), {}, target
    return (inputs,), {}, target


def target_name(network: nn.Module, batch: Any) -> str:
    """The name of the second argument of a network if it is one of targets and the batch has some, else empty."""
    second = list(inspect.signature(network.forward).parameters)[1:2]
    named = second and second[0] in ("targets", "target", "labels", "label", "y")
    return second[0] if named and arguments(network, batch)[2] is not None else ""


def called_with(network: nn.Module, batch: Any) -> tuple[Any, Any]:
    """(the output of a network for a batch, the target)."""
    args, named, target = arguments(network, batch)
    return network(*args, **named), target


def tensor_of(output: Any) -> Tensor:
    """The tensor of numbers in a network's output: its `logits`, else the first one inside.

    Raises ValueError if there is none.
    """
    waiting = [getattr(output, "logits", None), getattr(output, "last_hidden_state", None), output]
    while waiting:  # the outer ones first
        value = waiting.pop(0)
        if isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex()):
            return torch.view_as_real(value) if value.is_complex() else value
        inside = [value.get("logits"), *value.values()] if isinstance(value, Mapping) else value
        waiting += inside if isinstance(value, (Mapping, tuple, list)) else ()
    kind = type(output).__name__
    raise ValueError(f"module: its output {kind} holds no tensor of numbers; loss= may read it")


def loss_of_output(
    output: Any, target: Any, loss: Callable[..., Tensor] | None = None
) -> tuple[Tensor | None, str]:
    """(loss, how it is computed): the user's, that of the output, cross-entropy for targets that are classes, (N, ...)
    of outputs (N, K, ...) or (N, ..., K) that have so many, squared error for numbers in the output's shape; None if
    nothing tells it.

    Raises WrongLoss where the user's gives something else than one number."""
    if loss is not None:
        try:
            value = loss(output, target)
        except Exception as error:
            if target is not None:
                raise
            reason = "loss=: fails without targets; give batches that have them, in a loop by w.over(loader)"
            raise NoTarget(f"{reason} ({' '.join(str(error).split())})") from error
        if not isinstance(value, Tensor) or value.numel() != 1:
            shape = f" of shape {tuple(value.shape)}" if isinstance(value, Tensor) else ""
            raise WrongLoss(f"loss=: gives a {type(value).__name__}{shape}; return a tensor of one number")
        return value, loss_name(loss)
    given = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(given, Tensor):
        return given, "the loss that the network returns"
    if (
        isinstance(output, Mapping)
        and output
        and all(isinstance(x, Tensor) and not x.ndim for x in output.values())
    ):
        return sum(output.values(), torch.zeros(())), "the losses that the network returns"
    if not isinstance(target, Tensor):
        return None, ""
    y = tensor_of(output)
    if target.is_floating_point() and y.shape == target.shape:
        return F.mse_loss(y, target), SQUARED
    if not (target.is_floating_point() or target.dtype == torch.bool) and y.ndim == target.ndim + 1 > 1:
        for axis in (1, -1):
            fits = y.movedim(axis, -1).shape[:-1] == target.shape and target.numel() > 0
            if fits and y.shape[axis] > max(1, int(target.max())):  # not one logit, as of two classes
                y = y if y.element_size() > 2 else y.float()
                return F.cross_entropy(y.movedim(axis, 1), target), ENTROPY
    return None, ""


def random_signs(shape: Sequence[int], like: Tensor) -> Tensor:
    """1 and -1 at random, always the same ones."""
    return torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(0)).to(like) * 2 - 1


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
