"""What a user gives, made into one form: a module with a `training_step`, and two batches."""

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torch.utils.data import Dataset, IterableDataset

from normexp.check.result import NotChecked
from normexp.format import require_at_least, require_choice, require_object
from normexp.models.sites import EMBEDDINGS, LINEAR_MAPS
from normexp.monitors.batches import Batches, Step, first_batches, require_loss, rows_of, size_of
from normexp.monitors.guard import same_random, to_module

IMAGE, TOKENS = 224, 64  # sizes of made-up inputs
MOST_PARTS = 8  # of a batch that are named
PLAIN = (str, bytes, int, float, type(None))  # what no layer takes
MOST_TEXTS = 8  # made up, as attention takes much memory
TYPES = {"16": torch.float16, "bf16": torch.bfloat16, "32": torch.float32, "64": torch.float64}
PRECISIONS = {f"{name}{how}": kind for name, kind in TYPES.items() for how in ("", "-mixed", "-true")}
HALF = (torch.float16, torch.bfloat16)
PRECISIONS |= {str(kind).removeprefix("torch."): kind for kind in TYPES.values()}
NEEDED = {
    "averaged": "averaged= (--averaged FILE), the averaged model (EMA, SWA) or its state dict",
    "optimizer": "optimizer= (--optimizer package:function)",
    "precision": "precision= (--precision), such as 16-mixed or bf16-mixed",
    "state_dict": "state_dict= (--state-dict FILE), what you save",
}


@dataclass
class CheckOptions:
    """What the user says, see `normexp.check`. None where nothing was said of the training.

    Attributes:
        broadcasts: whether processes share their buffers; None if DistributedDataParallel does not wrap the network.
    """

    loss: Callable[..., Tensor] | None = None
    samples: int = 32
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    baseline: str | Path | None = None
    optimizer: Any = None
    precision: str | None = None
    accumulate: int | None = None
    devices: int | None = None
    averaged: Any = None
    state_dict: Any = None
    mask: Any = None
    causal: bool | None = None
    steps: int | None = None
    seed: int = 0
    broadcasts: bool | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        require_loss(self.loss)
        for name in ("optimizer", "averaged", "state_dict", "mask"):
            require_object(name, getattr(self, name))
        if self.precision is not None:
            self.precision = str(self.precision)
            require_choice("precision", self.precision, PRECISIONS)
        for name, least in {"samples": 1, "accumulate": 1, "devices": 1, "steps": 1, "seed": 0}.items():
            require_whole(name, getattr(self, name), least)
        if self.causal not in (None, True, False):
            raise ValueError(f"causal={self.causal!r}: pass True or False")

    def need(self, name: str) -> Any:
        """What was said. Raises NotChecked with what to pass if nothing was."""
        if (value := getattr(self, name)) is None:
            raise NotChecked(f"pass {NEEDED[name]}")
        return value


def require_whole(argument: str, value: Any, least: int) -> None:
    """Raise a ValueError with one line unless a value is a whole number that is large enough. None is allowed."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise ValueError(f"{argument}={value!r}: is no whole number; use {least} or more")
    require_at_least(argument, value, least)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers from a seed in this context; afterwards the generators of Python, NumPy and torch go on as if
    nothing had been drawn."""
    with same_random():
        seed_all(seed)
        yield


def seed_all(seed: int) -> None:
    """Seed the generators of Python, NumPy and torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed % 2**63)


def root_of(step: nn.Module) -> nn.Module:
    """The user's module."""
    return step.model if isinstance(step, Step) else step


class FirstBatch(list):
    """The first batch of a training, [batch], with the loader of all if it is known."""

    loader: Any = None


@dataclass
class Data:
    """What the passes see.

    Attributes:
        batches: a held-out and a training batch, cut to `samples`.
        whole: the same batches as they came.
        size: samples of a training batch that is not cut; None if they cannot be counted.
        said: what the user should know.
    """

    batches: Batches
    whole: Batches
    size: int | None
    notes: list[str]


def two_batches(data: Any, module: nn.Module, samples: int, seed: int = 0) -> Data:
    """The first two batches of a loader or a data module, the first and the last of a list, or one batch twice. None
    makes random inputs up."""
    notes: list[str] = []
    require_object("loader", data)
    if data is None:
        data = made_up(module, samples)
        notes.append("inputs are random numbers: pass data for findings about values")
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        kind = type(data).__name__
        raise ValueError(f"loader: a {kind} gives single samples; pass DataLoader(it, batch_size=...)")
    found = [data] if is_batch(data) else drawn(data, 2, seed)
    if not found:
        raise ValueError("loader: gives no batch; pass a loader with at least one")
    if bare := [batch for batch in found if all(isinstance(x, PLAIN) for x in tree_leaves(batch))]:
        raise ValueError(
            f"loader: gives a batch that is {described(bare[0])}, without a tensor; pass tensors"
        )
    whole = Batches(held_out=to_module(found[-1], module), training=to_module(found[0], module))
    size = size_of(found[0])
    if 0 in (size, size_of(found[-1])):
        raise ValueError("loader: gives a batch without samples; pass batches of at least one")
    for given, taken in zip(floats(found[0]), floats(whole.training), strict=True):
        if given != taken and not notes:
            made = "rounded to" if given.itemsize > taken.itemsize else "made"
            notes.append(
                f"{name_of(given)} of the batches is {made} {name_of(taken)}, the network's type: a call of your own "
                "must do so, too"
            )
    return Data(Batches(*(cut(batch, samples) for batch in whole)), whole, size, notes)


def described(batch: Any) -> str:
    """A batch in words: `None`, `a dict of x, mask`, `a tuple of Tensor, Tensor`."""
    kind, parts = type(batch).__name__, []
    if isinstance(batch, Mapping):
        parts = [str(key) for key in batch]
    elif isinstance(batch, (tuple, list)):
        parts = [type(item).__name__ for item in batch]
    of_parts = f" of {', '.join(parts[:MOST_PARTS])}" if parts else ""
    return "None" if batch is None else f"a {kind}{of_parts}"


def floats(batch: Any) -> list[torch.dtype]:
    """The types of the tensors of floating-point numbers in a batch."""
    kinds: list[torch.dtype] = []
    apply_to_collection(
        batch, Tensor, lambda x: kinds.append(x.dtype) if x.is_floating_point() else None, allow_frozen=True
    )
    return kinds


def name_of(kind: torch.dtype | None) -> str:
    """`float32`."""
    return str(kind).removeprefix("torch.")


def cut(batch: Any, samples: int | None) -> Any:
    """At most so many samples of a batch; the whole batch if they cannot be counted, or None is asked."""
    return batch if samples is None or size_of(batch) is None else rows_of(batch, 0, samples)


def drawn(data: Any, count: int, seed: int) -> list[Any]:
    """The first batches of a loader or data module; all of a list. Random states stay."""
    with seeded(seed):
        if hasattr(data, "train_dataloader"):
            data.prepare_data()
            data.setup("fit")
            data = data.train_dataloader()
        return list(data) if isinstance(data, (list, tuple)) else first_batches(data, count)


def length_of(loader: Any) -> int | None:
    """Batches of a loader; None if it has no length."""
    try:
        return len(loader)
    except TypeError:
        return None


def is_batch(data: Any) -> bool:
    """Whether data is one batch: a tensor, a mapping, (x, y), [x, y] as a DataLoader gives it, or a class of one's own:
    one that moves to a device or does not iterate."""
    if isinstance(data, (Tensor, Mapping)) or hasattr(data, "to") or hasattr(data, "_fields"):
        return True
    if isinstance(data, tuple):
        return not all(isinstance(item, (tuple, Mapping)) for item in data)
    if isinstance(data, list):
        pair = len(data) == 2 and all(isinstance(x, Tensor) for x in data)
        return pair and data[0].dim() > data[1].dim()
    return not any(hasattr(data, name) for name in ("__iter__", "__getitem__", "train_dataloader"))


def made_up(module: nn.Module, samples: int) -> Any:
    """Standard normal images or rows, or random tokens, for the first layer of a network.

    Raises ValueError if the first layer does not say what it takes.
    """
    generator = torch.Generator().manual_seed(0)
    layer = next((m for m in module.modules() if isinstance(m, (*EMBEDDINGS, *LINEAR_MAPS))), None)
    if isinstance(layer, EMBEDDINGS):
        return torch.randint(0, layer.num_embeddings, (min(samples, MOST_TEXTS), TOKENS), generator=generator)
    if isinstance(layer, nn.Conv2d):
        return torch.randn(samples, layer.in_channels, IMAGE, IMAGE, generator=generator)
    if isinstance(layer, nn.Linear):
        return torch.randn(samples, layer.in_features, generator=generator)
    raise ValueError(
        f"loader: {type(module).__name__} does not say what it takes; pass a loader or one batch"
    )


def matched(saved: Any, root: nn.Module, argument: str) -> dict[str, Tensor]:
    """The network's own name -> the tensor that a module or a state dict holds under it. The state dict may lie
    under the key `state_dict` or `model`, and wrappers may have put `module.`, `_orig_mod.` ... before names."""
    values = saved.state_dict() if isinstance(saved, nn.Module) else saved
    if not isinstance(values, Mapping):
        raise ValueError(
            f"{argument}: a {type(values).__name__} names no tensors; pass a module, or its state dict"
        )
    inner = (values[key] for key in ("state_dict", "model", "model_state_dict") if key in values)
    values = next((part for part in inner if isinstance(part, dict)), values)
    expected, tensors = root.state_dict(), {}
    for name, value in values.items():
        while name not in expected and "." in name:
            name = name.partition(".")[2]
        if name in expected and isinstance(value, Tensor) and expected[name].shape == value.shape:
            tensors[name] = value
    return tensors
