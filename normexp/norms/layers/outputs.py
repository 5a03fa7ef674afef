"""What a layer computes, read off its outputs for a few random numbers.

A twin with random parameters is called at four sizes of its input. Largest, eps does not count: what is left of the
output beside z = (x - mean) / std, for some axes, is a factor and a summand of each channel, and each must be one of
the twin's tensors. The smaller sizes show eps.
"""

import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from normexp.norms.layers.layer import NormLayer

LARGE, SMALLER = 1e4, (1.0, 1e-3, 1e-6)
# Where no attribute holds it.
USUAL_EPS = (1e-5, 1e-6, 1e-12, 0.0, torch.finfo(torch.float32).eps, 1e-8, 1e-3, 1e-4, 1e-7, 1e-10, 1e-2)
ANY_SIZE = 8  # for layers that do not say how many channels they take
# How a gain of C values is made of a parameter: torch's, Gemma's, and that of the one number of ScaleNorm.
FORMS: tuple[Callable[[Tensor, int], Tensor], ...] = (
    lambda p, size: p.flatten().expand(size),
    lambda p, size: 1 + p.flatten().expand(size),
    lambda p, size: p.flatten().expand(size) / math.sqrt(size),
)
FAR = (
    1.0,
    100.0,
    -100.0,
)  # sizes of parameters: those of a clamp, of `abs` and of a sigmoid show outside it alone
Tensors = dict[str, Tensor]
Part = tuple[str, int]  # name of a tensor, and form
NONE: Part = ("", 0)


def activations_of(module: nn.Module) -> tuple[nn.Module, ...]:
    """The children that run after the norm, in order, as in timm's BatchNormAct2d."""
    found = [getattr(module, name, None) for name in ("drop", "act")]
    return tuple(m for m in found if isinstance(m, nn.Module) and not isinstance(m, nn.Identity))


def twin_of(
    module: nn.Module,
    *,
    training: bool,
    activations: bool = False,
    drawn: bool = True,
    dtype: torch.dtype = torch.float32,
    running: Sequence[str] = ("running_mean", "running_var"),
    size: float = 1.0,
) -> nn.Module:
    """A copy that may be called without a trace. If `drawn`, its parameters and the statistics that are named as its
    `running` mean and variance are random, equal in every twin, so that none is 0 and no two are alike; parameters are
    `size` times as large. Without `activations`, those are left out."""
    random = torch.Generator().manual_seed(0)
    twin: Any = object.__new__(type(module))
    for key, value in module.__dict__.items():
        twin.__dict__[key] = value.copy() if type(value) in (dict, list, set) else value
    for holder in (twin.__dict__["_parameters"], twin.__dict__["_buffers"], twin.__dict__):
        for name, value in holder.items():
            if not isinstance(value, Tensor):
                continue
            statistic = name in running or name.startswith("running")
            draws = value.is_floating_point() and (isinstance(value, nn.Parameter) or statistic)
            if value.is_meta and not value.is_floating_point():
                value = torch.zeros(value.shape, dtype=value.dtype)
            elif value.is_meta or (drawn and draws):
                low, high = (-0.5, 0.5) if name in running[:1] else (0.5, 1.5)
                device = "cpu" if value.is_meta else value.device
                kind, factor = value.dtype, 1.0 if statistic else size
                value = (
                    torch.empty(value.shape).uniform_(low, high, generator=random).to(device, kind) * factor
                )
            value = value.detach().clone()
            holder[name] = value.to(dtype) if value.is_floating_point() else value
    left_out = () if activations else activations_of(module)
    for name, child in module._modules.items():
        if child is not None:  # a copy, too: a call may move its statistics
            twin._modules[name] = (
                nn.Identity()
                if child in left_out
                else twin_of(child, training=child.training, activations=True, drawn=False, dtype=dtype)
            )
    twin.training = training
    return twin


def tensors_of(module: nn.Module) -> Tensors:
    """The parameters and buffers of a layer itself that hold numbers."""
    tensors = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
    return {name: value for name, value in tensors if value.is_floating_point() and "running" not in name}


def inputs(size: tuple[int, ...], twin: nn.Module) -> Iterator[tuple[Tensor, int]]:
    """Random inputs of a twin for channels of this size, with the channel axis: last, at axis 1, without positions."""
    like = next(iter(tensors_of(twin).values()), torch.empty(0))
    samples, *positions = [n for n in (4, 3, 5, 7, 9) if n not in size][:3]
    random = torch.Generator().manual_seed(1)
    shapes = [((samples, *positions[:k], *size), -1) for k in (2, 1)]
    if len(size) == 1:
        shapes += [((samples, *size, *after), 1) for after in (positions, [6], [*positions, 3])]
        shapes += [((12, *size), 1)]
    for shape, channel_dim in shapes:
        x = torch.randn(shape, generator=random) + 0.5
        yield x.to(like.device), channel_dim


def outlying(x: Tensor) -> Tensor:
    """x with one value far from the others, which a norm makes as large as it can, so that clipping shows."""
    x = x.clone()
    x.view(-1)[0] = 100.0
    return x


def answer(call: Callable[[Tensor], object], x: Tensor, *, gradients: bool | None = None) -> Tensor | None:
    """The output for x; None if there is none of its shape. Some layers tell the mode by `gradients`, so by default
    these are on in training mode alone."""
    gpus = [x.device] if x.is_cuda else []
    if gradients is None:
        gradients = getattr(getattr(call, "__self__", None), "training", False)
    try:
        with (
            torch.set_grad_enabled(gradients), torch.random.fork_rng(gpus),
            torch.autocast(x.device.type, enabled=False),
            warnings.catch_warnings(action="ignore"),  # of shapes that are tried
        ):  # fmt: skip
            y = call(x.clone())
    except Exception:  # of a stranger's code: it needs another shape
        return None
    return y.detach() if isinstance(y, Tensor) and y.shape == x.shape else None


def same_output(a: Tensor | None, b: Tensor | None, *through: Tensor) -> bool:
    """Whether two outputs are equal up to the rounding of their type, or of those of the tensors `through` which they
    were computed."""
    if a is None or b is None:
        return False
    half = min(x.element_size() for x in (a, b, *through)) < 4
    largest = float(b.abs().max()) if b.numel() else 0.0
    return bool(
        torch.allclose(a.double(), b.double(), rtol=0, atol=(0.03 if half else 1e-3) * largest + 1e-12)
    )


def statistics(ndim: int, channel_dim: int, size: tuple[int, ...], groups: int) -> Iterator[NormLayer]:
    """The statistics that a layer may take for such an input."""
    base = NormLayer("layer", size[-1], channel_dim, 0.0)
    for kind in ("layer", "rms"):
        yield replace(base, kind=kind, per_position=channel_dim == 1)
        if len(size) > 1:
            yield replace(base, kind=kind, axes=len(size))
        elif channel_dim == 1 and ndim > 2:
            yield replace(base, kind=kind)
    yield replace(base, kind="batch")
    if ndim > 2:
        yield replace(base, kind="instance")
    if channel_dim == 1 and groups > 1 and size[0] % groups == 0:
        yield replace(base, kind="group", groups=groups)


def standardized(x: Tensor, layer: NormLayer) -> Tensor:
    """x by a layer's formula, without gain and shift, in float64."""
    y, dims = x.double(), layer.dims(x.dim())
    if layer.groups > 1:
        y, dims = y.unflatten(1, (layer.groups, -1)), tuple(range(2, x.dim() + 1))
    y = y - y.mean(dims, keepdim=True) if layer.kind != "rms" else y
    n = math.prod(y.shape[dim] for dim in dims)
    var = y.square().sum(dims, keepdim=True) / max(n - layer.correction, 1)
    if layer.eps_position == "inside":
        return (y * torch.rsqrt(var + layer.eps)).reshape(x.shape)
    outside, std = layer.eps_position == "outside", var.sqrt()
    return (y / (std + layer.eps if outside else std.clamp_min(layer.eps / n**0.5))).reshape(x.shape)


def fit(z: Tensor, y: Tensor, channel_dim: int, size: tuple[int, ...]) -> tuple[Tensor, Tensor] | None:
    """(gain, shift) of each channel with y = z * gain + shift; None if there are none."""
    rows, out = (t.double().movedim(channel_dim, -1).reshape(-1, math.prod(size)) for t in (z, y))
    centered = rows - rows.mean(0)
    if not bool(torch.isfinite(out).all()) or not bool((centered.square().sum(0) > 1e-9).all()):
        return None
    gain = (centered * out).sum(0) / centered.square().sum(0)
    shift = out.mean(0) - gain * rows.mean(0)
    return (gain, shift) if same_output((rows * gain + shift).to(y.dtype), out.to(y.dtype)) else None


def part_of(values: Tensor, constant: float, tensors: Tensors, forms: Sequence = FORMS) -> Part | None:
    """The tensor and the form that give these values; an empty name for the constant; None if nothing does."""
    near = lambda other: torch.allclose(values, other.double().to(values), rtol=2e-3, atol=2e-3)  # noqa: E731
    if near(torch.full_like(values, constant)):
        return NONE
    for name, value in tensors.items():
        for form, make in enumerate(forms):
            if value.numel() in (1, len(values)) and near(make(value, len(values))):
                return name, form
    return None


def made(part: Part | None, tensors: Tensors, constant: float, fitted: Tensor) -> Tensor:
    """The exact values of a part; the fitted ones where no tensor explains them."""
    if part is None:
        return fitted
    name, form = part
    return FORMS[form](tensors[name].double(), len(fitted)) if name else torch.full_like(fitted, constant)


@dataclass(frozen=True)
class Probe:
    """A twin of a module and what it makes of one random input, whose channels have this size."""

    module: nn.Module
    twin: nn.Module
    x: Tensor
    channel_dim: int
    size: tuple[int, ...]

    def answer(self, x: Tensor) -> Tensor | None:
        return answer(self.twin.forward, x)

    def wide(self, values: Tensor) -> Tensor:
        """Values of the channels, shaped to multiply x."""
        shape = self.size if self.channel_dim == -1 else (-1, *[1] * (self.x.dim() - 2))
        return values.view(shape) if values.numel() > 1 else values

    def layer(self, groups: int) -> NormLayer | None:
        """The layer over a statistic that explains the outputs."""
        tensors = tensors_of(self.twin)
        if (y := self.answer(self.x * LARGE)) is None:
            return None
        for layer in statistics(self.x.dim(), self.channel_dim, self.size, groups):
            fitted = fit(standardized(self.x * LARGE, layer), y, self.channel_dim, self.size)
            if fitted and (found := self._with_eps(layer, *fitted, tensors)):
                return found
        return None

    def _with_eps(self, layer: NormLayer, gain: Tensor, shift: Tensor, tensors: Tensors) -> NormLayer | None:
        """A layer whose statistic fits, with its eps, gain and shift. None if no eps explains the small outputs."""
        n, added = layer.values(self.x.shape), part_of(shift, 0.0, tensors, FORMS[:1])
        summand = self.wide(made(added, tensors, 0.0, shift))
        gains = (gain, gain * math.sqrt(n / max(n - 1, 1)))  # for a variance that divides by n, and by n - 1
        parts = [part_of(values, 1.0, tensors) for values in gains]
        named = [v for v in vars(self.module).values() if isinstance(v, float) and 0 <= v <= 1]
        small = [self.x * scale for scale in SMALLER]
        outputs = [self.answer(x) for x in small]
        positions = ("inside", "outside", "clamped") if layer.kind == "rms" else ("inside", "outside")
        for correction in [k for k in (0, 1) if parts[k]] or [0]:
            factor = self.wide(made(parts[correction], tensors, 1.0, gains[correction]))
            for where, eps in itertools.product(positions, (*named, *USUAL_EPS)):
                tried = replace(layer, correction=correction, eps=eps, eps_position=where)
                formula = (standardized(x, tried) * factor + summand for x in small)
                if all(same_output(a, b) for a, b in zip(formula, outputs, strict=True)):
                    return self._with_parts(self._safe(tried, n), parts[correction], added)
        return None

    def _safe(self, layer: NormLayer, n: int) -> NormLayer:
        """A layer that clamps |x| at eps, as F.normalize does, as one that adds eps^2 / n to the mean square: the same
        but where |x| is of the size of eps, and finite at 0."""
        at_zero = self.answer(torch.zeros_like(self.x))
        clamps = layer.eps_position == "clamped" or (
            layer.eps == 0 and at_zero is not None and bool(torch.isfinite(at_zero).all())
        )
        if layer.kind != "rms" or not clamps:
            return layer
        return replace(layer, eps_position="inside", eps=(layer.eps or 1e-12) ** 2 / n)

    def _with_parts(self, layer: NormLayer, gain: Part | None, shift: Part | None) -> NormLayer:
        of_module, size = tensors_of(self.module), math.prod(self.size)
        gains, shifts = (
            FORMS[form](of_module[name], size) if name else None
            for name, form in (gain or NONE, shift or NONE)
        )
        stays = ""
        if gain is None or shift is None:
            unknown = "multiplies" if gain is None else "adds"
            stays = f"{unknown} something that is none of its parameters"
        if len(self.size) > 1 and (gains is not None or shifts is not None):
            stays = f"has a gain of shape {self.size}, not one value a channel"
        return replace(layer, gain=gains, shift=shifts, stays=stays)

    def with_fit(self, layer: NormLayer, z: Tensor, y: Tensor, forms: Sequence = FORMS) -> NormLayer | None:
        """A layer with the gain and the shift of y = z * gain + shift; None where one is none of the tensors."""
        if (fitted := fit(z, y, self.channel_dim, self.size)) is None:
            return None
        gain, shift = (
            part_of(values, constant, tensors_of(self.twin), forms)
            for values, constant in zip(fitted, (1.0, 0.0), strict=True)
        )
        return None if gain is None or shift is None else self._with_parts(layer, gain, shift)

    def pointwise(self) -> NormLayer | None:
        """DyT, tanh(alpha x) * gain + shift, or another layer whose outputs each depend on one input."""
        base = NormLayer("pointwise", self.size[-1], self.channel_dim, 0.0)
        if (y := self.answer(self.x)) is None:
            return None
        for alpha in tensors_of(self.twin).values():
            if alpha.numel() in (1, math.prod(self.size)):
                z = torch.tanh(self.wide(alpha.flatten()) * self.x)
                if found := self.with_fit(base, z, y, FORMS[:1]):
                    return found
        changed = self.x.clone()
        changed.view(-1)[0] += 1
        if (other := self.answer(changed)) is None:
            return None
        alone = torch.equal(other.flatten()[1:], y.flatten()[1:])
        return replace(base, stays="takes no statistic") if alone else None


def match(
    module: nn.Module, sizes: Iterable[tuple[int, ...]], groups: int = 1
) -> tuple[NormLayer | None, bool]:
    """The layer that a module is in training mode, by its outputs, and whether it gives any of its input's shape."""
    twin, called = twin_of(module, training=True), False
    for size in sizes:
        for x, channel_dim in inputs(size, twin):
            probe = Probe(module, twin, x, channel_dim, size)
            found = probe.layer(groups)
            if not called and found is None and probe.answer(x) is not None:
                found, called = probe.pointwise(), True
            if found:
                return found, True
    return None, called
