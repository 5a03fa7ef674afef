"""One training pass, watched: what every norm and activation gets, and the gradients of linear maps.

Norms that a network calls as functions or writes by hand are found by what they compute. `F.layer_norm(x, ...)` names
itself. In `x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)`, a product of a tensor with a scale that a root gave
is a norm if the mean square, or the sum of squares, of its rows is 1.
"""

import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from normexp.check.calls import Call, CalledNorm, Owner, Place
from normexp.check.inputs import root_of
from normexp.models.sites import sites_of
from normexp.monitors.activations import bounds, derivative, flat_fractions, saturated_fraction
from normexp.monitors.guard import gradients_or_none, step_output
from normexp.monitors.sites import FUNCTIONS, CalledFunction, channel_dim, first_tensor, to_rows, wide

KINDS = ("norm", "activation", "linear")
MANY = 2**22  # values; a larger activation is measured on as many of its first samples as stay below
NAMED = (F.layer_norm, F.rms_norm, F.normalize, F.group_norm, F.instance_norm, F.batch_norm)
ROOTS = ("rsqrt", "rsqrt_", "sqrt", "sqrt_", "std", "norm", "linalg_vector_norm", "linalg_norm")
PRODUCTS = (
    "mul", "mul_", "__mul__", "__rmul__", "multiply", "div", "div_", "__truediv__", "true_divide", "divide",
)  # fmt: skip
ONE = 0.02  # how far the mean square of a row may be from 1, as eps makes it
ROWS = 0.9  # share of the rows that must be as those of a norm


@dataclass
class Trace:
    """What one training pass showed.

    Attributes:
        units: (a norm, the activation right behind it) -> (share of units that are flat everywhere, of outputs that
            are saturated).
        gradients: path of a linear map -> norm of the loss's gradient by its weight, in forward order; None without.
        cancelled: path of a linear map with a bias right before a norm -> |sum of dL/dy| / sum of |dL/dy|, its largest
            channel; 0 up to rounding if the norm subtracts whatever the bias adds.
        runs: calls of the whole network.
        called: path -> a norm that is called as a function.
        drops: whether a dropout is called as a function.
        recomputed: paths of norms whose running statistics moved again while the gradient was computed.
        without_gradient: names of trained parameters that get no gradient.
        inside: path of the norm in which the pass failed.
    """

    loss: float = float("nan")
    calls: list[Call] = field(default_factory=list)
    units: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    gradients: dict[str, float | None] = field(default_factory=dict)
    cancelled: dict[str, float] = field(default_factory=dict)
    runs: int = 0
    called: dict[str, Place] = field(default_factory=dict)
    drops: bool = False
    recomputed: list[str] = field(default_factory=list)
    without_gradient: set[str] = field(default_factory=set)
    error: Exception | None = None
    inside: str = ""


def unheard(hook: Callable) -> Callable:
    """A hook during which functions are not heard, since it calls some itself."""

    @wraps(hook)
    def quiet(self: "_Watch", *given: Any, **more: Any) -> None:
        before, self.deaf = self.deaf, True
        try:
            hook(self, *given, **more)
        finally:
            self.deaf = before

    return quiet


class _Watch(TorchFunctionMode):
    """Sees one pass: layers by hooks, functions as a mode of torch. Of `skipped`, paths of norms that are called as
    functions, it makes the identity."""

    def __init__(self, step: nn.Module, places: list[Place], skipped: Iterable[str] = ()) -> None:
        super().__init__()
        self.trace, self.root, self.deaf = Trace(), root_of(step), False
        self.places = {place.module: place for place in places}
        self.paths = {module: path for path, module in self.root.named_modules()}
        self.kinds = {site.module: site.kind for site in sites_of(step) if site.kind in KINDS}
        self.stack: list[Owner] = []  # the open calls of layers
        self.again: dict[Place, Tensor] | None = None  # running means, while the gradient is computed
        # Kept so that their memory is not used again, and an address names its maker.
        self.outputs: list[Tensor] = []
        self.maker: dict[int, tuple[nn.Module, int]] = {}
        self.before_norm: set[nn.Module | None] = set()
        self.scales: dict[int, Tensor] = {}
        self.skipped = set(skipped)
        self.handles = [
            module.register_forward_pre_hook(self.enter, with_kwargs=True) for module in self.paths
        ]
        self.handles += [module.register_forward_hook(self.leave) for module in self.paths]

    @unheard
    def enter(self, module: nn.Module, args: tuple, kwargs: dict) -> None:
        if self.again is not None:  # a checkpointed part is computed again
            if module in self.places and self.places[module].tracked:
                self.again.setdefault(self.places[module], module.running_mean.clone())
            return
        self.trace.runs += not self.stack
        self.stack.append(Owner(module, args, kwargs))
        x = first_tensor(args, kwargs)
        if module not in self.kinds or x is None or not x.is_floating_point():
            return
        path, kind = self.paths[module], self.kinds[module]
        if module in self.places:
            self.trace.inside = path
            self.norm(self.places[module], x, (*args, *kwargs.values()))
        elif kind == "activation":
            self.unit(path, module, x)
        else:
            self.trace.gradients.setdefault(path, None)

    @unheard
    def leave(self, module: nn.Module, args: tuple, y: Any) -> None:
        if self.again is not None:
            return
        self.stack.pop()
        if not isinstance(y, Tensor):
            return
        if torch.is_grad_enabled() and (module in self.kinds or next(module.children(), None) is None):
            self.outputs.append(y)
            self.maker[y.untyped_storage().data_ptr()] = module, y._version
        self.trace.inside = "" if module in self.places else self.trace.inside
        linear = self.kinds.get(module) == "linear" and getattr(module, "bias", None) is not None
        if linear and y.is_floating_point() and y.requires_grad:
            y.register_hook(partial(self.cancel, module))

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if self.deaf or any(owner.module in self.places for owner in self.stack):
            return func(*args, **kwargs)
        inside = self.stack[-1].module if self.stack else None
        if (name := FUNCTIONS.get(func)) and self.kinds.get(inside) != "activation":
            x = args[0] if args else kwargs.get("input")
            if isinstance(x, Tensor) and x.is_floating_point():
                self.unit(
                    f"{self.paths.get(inside, '')}.{name}", CalledFunction(func, name, args[1:], kwargs), x
                )
        if inside is not None and func in NAMED:
            x = self.named(func, inspect.signature(func).bind(*args, **kwargs))
            return func(*args, **kwargs) if x is None else x
        output, x, name = func(*args, **kwargs), None, getattr(func, "__name__", "")
        self.trace.drops |= "dropout" in name
        if inside is not None and isinstance(output, Tensor) and output.is_floating_point():
            x = self.by_hand(name, args, output)
        return output if x is None else x

    def named(self, func: Callable, bound: inspect.BoundArguments) -> Tensor | None:
        """A norm that names itself. Its input if it is to be skipped, as of the next three."""
        bound.apply_defaults()
        given = bound.arguments
        x, eps, groups = given["input"], given.get("eps") or 0.0, 0
        kind, axes = "sample", tuple(range(2, x.dim()))
        if func is F.normalize:
            axes, eps = given["dim"] if isinstance(given["dim"], tuple) else (given["dim"],), 0.0
        elif func is F.group_norm:
            kind, groups, axes = "group", given["num_groups"], ()
        elif func is F.instance_norm:
            kind = "instance"
        elif func is F.batch_norm:
            if not given["training"]:
                return None
            kind, axes = "batch", (0, *axes)
        else:
            axes = tuple(range(-len(given["normalized_shape"]), 0))
        centers = func not in (F.rms_norm, F.normalize)
        return self.function(x, func.__name__, kind, axes, groups, centers, float(eps))

    def by_hand(self, name: str, args: tuple, output: Tensor) -> Tensor | None:
        """A root, what is made of one, or a product with it."""
        tensors = [x for x in args if isinstance(x, Tensor)]
        scales = [x for x in tensors if id(x) in self.scales]
        root = name in ROOTS or (name in ("pow", "__pow__") and args[1:] in ((-0.5,), (0.5,)))
        if root or (scales and output.numel() == scales[0].numel()):
            self.scales[id(output)] = output  # kept, so that no other tensor takes its address
        elif scales and name in PRODUCTS and len(tensors) == 2:
            return self.product(output, scales[0], next(x for x in tensors if x is not scales[0]))
        return None

    @torch.no_grad()
    def product(self, output: Tensor, scale: Tensor, x: Tensor) -> Tensor | None:
        """A tensor times a scale, which is a norm if its rows have mean square or length 1."""
        small = (1,) * (x.dim() - scale.dim()) + tuple(scale.shape)
        axes = tuple(i for i, n in enumerate(small) if n == 1 and i < x.dim() and x.shape[i] > 1)
        if x.shape != output.shape or x.dim() < 2 or scale.numel() < 2 or not axes:
            return None
        y = output.detach().double()
        squares = y.square().mean(axes)
        values = y.numel() // squares.numel()
        centered = bool((y.mean(axes).abs() < 1e-3).float().mean() > ROWS)
        unbiased = squares * values / max(values - 1, 1)  # by x.std(), which divides by n - 1
        for name, norm in (("norm", squares), ("norm", unbiased), ("normalize", squares * values)):
            if ((norm - 1).abs() < ONE).float().mean() > ROWS:
                kind = "batch" if 0 in axes and x.shape[0] > 1 else "sample"
                variance = x.detach().double().square().mean(axes)
                eps = float((variance * (1 / norm.clamp_min(1e-30) - 1)).median()) if name == "norm" else 0.0
                axes = tuple(axis - x.dim() for axis in axes) if 0 not in axes else axes
                return self.function(x, name, kind, axes, 0, centered, max(eps, 0.0))
        return None

    def function(
        self, x: Tensor, name: str, kind: str, axes: tuple[int, ...], groups: int, centers: bool, eps: float
    ) -> Tensor | None:
        """A norm that was called as a function. One of weights, as in weight standardization, is none of those."""
        owner = self.stack[-1]
        own = {p.numel() for p in owner.module.parameters(recurse=False)}
        if x.dim() < 2 or x.numel() in own or "torch.nn.utils" in type(owner.module).__module__:
            return None
        path = f"{self.paths[owner.module]}.{name}()".lstrip(".")
        if path not in self.trace.called:
            module = CalledNorm(name, kind, axes, owner, groups=groups).train(owner.module.training)
            self.trace.called[path] = Place(path, module, kind, centers, eps)
        if self.trace.called[path].module.axes == axes:
            self.norm(self.trace.called[path], x, ())
        return x if path in self.skipped else None

    def norm(self, place: Place, x: Tensor, given: tuple) -> None:
        if place.kind == "none" or x.numel() == 0:
            return
        rows = place.groups(x)  # without gradients
        mean, values = rows.mean(1), rows.shape[1]
        var = rows.var(1, correction=0) if values > 1 else torch.zeros_like(mean)
        masked = any(isinstance(mask, Tensor) and mask.dtype == torch.bool for mask in given)
        maker, version = self.maker.get(x.untyped_storage().data_ptr(), (None, -1))
        call = Call(
            place, self.trace.runs, mean, var, values, float(x.detach().abs().amax()), x.detach(), masked,
            training=place.module.training, maker=maker, learns=torch.is_grad_enabled(),
            after=self.places.get(maker) if version == x._version else None,
        )  # fmt: skip
        self.trace.calls.append(call)
        self.before_norm.add(maker)

    def unit(self, path: str, activation: nn.Module, x: Tensor) -> None:
        """An activation; it counts if it stands right behind a norm."""
        behind = self.places.get(self.maker.get(x.untyped_storage().data_ptr(), (None, 0))[0])
        if behind is None or (behind.path, path) in self.trace.units:
            return
        axis, part, saturated = channel_dim(behind.module, x.ndim), few(x), 0.0
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):  # none of a checkpoint's
            rows = to_rows(derivative(activation, part), axis)
            limits = bounds(activation)
            if limits and not (limits[0] == 0 and limits[1] > 1):  # the lower end of ReLU6 is that of ReLU
                with torch.no_grad():
                    y = activation.forward(part.detach().clone())
                saturated = float(saturated_fraction(to_rows(y, axis), *limits))
        self.trace.units[behind.path, path] = float(flat_fractions(rows)["dead_fraction"]), saturated

    def cancel(self, module: nn.Module, gradient: Tensor) -> None:
        if module in self.before_norm:
            rows = to_rows(gradient, channel_dim(module, gradient.ndim))
            total = rows.abs().sum(0)
            share = rows.sum(0).abs() / total.clamp_min(torch.finfo(rows.dtype).tiny)
            self.trace.cancelled[self.paths[module]] = float(share.amax())  # 0 where no gradient comes

    def backward(self, loss: Tensor) -> None:
        names = {name: p for name, p in self.root.named_parameters() if p.requires_grad}
        gradients: list[Tensor | None] = [None] * len(names)
        if loss.requires_grad and names:
            self.again = {}
            gradients = gradients_or_none(loss, list(names.values()))
            before = self.again.items()
            self.trace.recomputed = [p.path for p, mean in before if not mean.equal(p.module.running_mean)]
        for name, gradient in zip(names, gradients, strict=True):
            if gradient is None:
                self.trace.without_gradient.add(name)
            elif (path := name.removesuffix(".weight")) in self.trace.gradients:
                self.trace.gradients[path] = size(gradient)


def skipping(step: nn.Module, places: list[Place], called: Iterable[str]) -> AbstractContextManager:
    """In this context some norms that are called as functions are the identity. Use it in `untouched`."""
    return _Watch(step, places, called) if called else nullcontext()


def size(x: Tensor) -> float:
    """The L2 norm of a tensor."""
    return float(wide(x.detach()).norm())


def few(x: Tensor) -> Tensor:
    """The first samples of a large tensor."""
    return x if x.numel() <= MANY else x[: max(1, MANY * len(x) // x.numel())]


def trace(step: nn.Module, batch: Any, places: list[Place]) -> Trace:
    """Run one training pass, forward and backward, on the module as it is: call it in `untouched`.

    An error of the pass is part of the result, with the norm in which it came.
    """
    watch = _Watch(step, places)
    try:
        with watch:
            loss = step_output(step, copied(batch))["loss"]
        watch.trace.loss = float(loss.detach())
        watch.backward(loss)
    except Exception as error:  # any error of a user's network is what we report
        watch.trace.error = error
    finally:
        for handle in watch.handles:
            handle.remove()
    return watch.trace


def copied(batch: Any) -> Any:
    """A batch that a network may write into."""
    return apply_to_collection(batch, Tensor, torch.clone)
