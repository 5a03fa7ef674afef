"""Norms that a network calls as functions or writes by hand, found by what they compute.

`F.layer_norm(x, ...)` names itself. In `x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)`, a product of a tensor
with a scale that a root gave is a norm if the mean square, or the sum of squares, of its rows is 1.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

NAMED = (F.layer_norm, F.rms_norm, F.normalize, F.group_norm, F.instance_norm, F.batch_norm)
ROOTS = ("rsqrt", "rsqrt_", "sqrt", "sqrt_", "std", "norm", "linalg_vector_norm", "linalg_norm")
PRODUCTS = (
    "mul",
    "mul_",
    "__mul__",
    "__rmul__",
    "multiply",
    "div",
    "div_",
    "__truediv__",
    "true_divide",
    "divide",
)
ONE = 0.02  # how far the mean square of a row may be from 1, as eps makes it
ROWS = 0.9  # share of the rows that must be as those of a norm


@dataclass(frozen=True)
class Owner:
    """The innermost layer in whose forward a norm is called, and what that layer was called with."""

    module: nn.Module
    args: tuple
    kwargs: dict


class CalledNorm(nn.Module):
    """A norm without a layer of its own.

    Attributes:
        axes: over which its statistics run; empty for groups.
    """

    def __init__(self, name: str, kind: str, axes: tuple[int, ...], owner: Owner, *, groups: int = 0) -> None:
        super().__init__()
        self.name, self.axes, self.owner, self.batch_statistics = name, axes, owner, kind == "batch"
        if groups:
            self.num_groups = groups


# Called with x, the norm's name, its kind, its axes, groups, whether it centers, and eps.
Heard = Callable[[Tensor, str, str, tuple[int, ...], int, bool, float], None]


class Functions(TorchFunctionMode):
    """Hears the norms that are called as functions while it is active."""

    def __init__(self, heard: Heard, listens: Callable[[], bool]) -> None:
        super().__init__()
        self.heard, self.listens = heard, listens
        self.scales: dict[int, Tensor] = {}  # kept, so that no other tensor takes their address

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if not self.listens():
            return func(*args, **kwargs)
        if func in NAMED:
            self.named(func, inspect.signature(func).bind(*args, **kwargs))
            return func(*args, **kwargs)
        output = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        tensors = [x for x in args if isinstance(x, Tensor)]
        scales = [x for x in tensors if id(x) in self.scales]
        if isinstance(output, Tensor) and output.is_floating_point():
            if (
                name in ROOTS
                or (name in ("pow", "__pow__") and args[1:] in ((-0.5,), (0.5,)))
                or (scales and output.numel() == scales[0].numel())
            ):
                self.scales[id(output)] = output
            elif scales and name in PRODUCTS and len(tensors) == 2:
                self.product(output, scales[0], next(x for x in tensors if x is not scales[0]))
        return output

    def named(self, func: Callable, bound: inspect.BoundArguments) -> None:
        bound.apply_defaults()
        given = bound.arguments
        x, name, eps, groups = given["input"], func.__name__, given.get("eps") or 0.0, 0
        kind, axes = "sample", tuple(range(2, x.dim()))
        if func is F.normalize:
            axes, eps = given["dim"] if isinstance(given["dim"], tuple) else (given["dim"],), 0.0
        elif func is F.group_norm:
            kind, groups, axes = "group", given["num_groups"], ()
        elif func is F.instance_norm:
            kind = "instance"
        elif func is F.batch_norm:
            if not given["training"]:
                return
            kind, axes = "batch", (0, *axes)
        else:
            axes = tuple(range(-len(given["normalized_shape"]), 0))
        self.heard(x, name, kind, axes, groups, func not in (F.rms_norm, F.normalize), float(eps))

    @torch.no_grad()
    def product(self, output: Tensor, scale: Tensor, x: Tensor) -> None:
        if x.shape != output.shape or scale.numel() == 0 or x.dim() < 2:
            return
        small = (1,) * (x.dim() - scale.dim()) + tuple(scale.shape)
        axes = tuple(i for i, n in enumerate(small) if n == 1 and x.shape[i] > 1)
        if not axes or scale.numel() == 1:
            return
        y = output.detach().double()
        squares = y.square().mean(axes)
        values = y.numel() // squares.numel()
        centered = bool((y.mean(axes).abs() < 1e-3).float().mean() > ROWS)
        for name, norm in (("norm", squares), ("normalize", squares * values)):
            if ((norm - 1).abs() < ONE).float().mean() > ROWS:
                kind = "batch" if 0 in axes and x.shape[0] > 1 else "sample"
                variance = x.detach().double().square().mean(axes)
                eps = float((variance * (1 / norm.clamp_min(1e-30) - 1)).median()) if name == "norm" else 0.0
                axes = tuple(axis - x.dim() for axis in axes) if 0 not in axes else axes
                self.heard(x, name, kind, axes, 0, centered, max(eps, 0.0))
                return
