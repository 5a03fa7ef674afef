"""One training pass, watched: what every norm, activation and linear map gets, gives, and gets back as a gradient."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn

from normexp.check.places import Place, paths_of
from normexp.check.result import Layer
from normexp.monitors.activations import bounds, derivative, flat_fractions, saturated_fraction
from normexp.monitors.gradients import norms_of as gradient_norms
from normexp.monitors.guard import step_output
from normexp.monitors.sites import (
    CalledFunction,
    Site,
    channel_dim,
    first_tensor,
    listen,
    sites_of,
    to_rows,
    unheard,
)

MANY = 2**22  # values; a larger activation is measured on as many of its first samples as stay below


@dataclass
class Call:
    """One call of a norm in the training pass.

    Attributes:
        run: which call of the whole network it belongs to.
        mean, var: of each statistic (correction 0), before the layer adds eps, (statistics,).
        values: how many values enter one statistic.
        largest: largest absolute value that arrives.
        x: what arrived; shares its memory with the pass.
        masked: whether the layer was told what is padding.
        training: the mode of the layer.
    """

    place: Place
    run: int
    shape: torch.Size
    mean: Tensor
    var: Tensor
    values: int
    largest: float
    x: Tensor
    masked: bool
    training: bool

    @property
    def spread(self) -> Tensor:
        """What eps is added to: the variance, or for layers that do not center the mean square, (statistics,)."""
        return self.var if self.place.centers else self.var + self.mean.square()


@dataclass
class Unit:
    """An activation right behind a norm: the share of units that are flat everywhere, and of saturated outputs."""

    path: str
    behind: str
    dead: float
    saturated: float | None


@dataclass
class Trace:
    """What one training pass showed.

    Attributes:
        cancelled: path of a linear map with a bias right before a norm -> |sum of dL/dy| / sum of |dL/dy|, its largest
            channel; 0 up to rounding if the norm subtracts whatever the bias adds.
        sensitivity: path of a linear map -> |dL/dW| |W|, which does not change if the weights are rescaled.
    """

    loss: float = float("nan")
    calls: list[Call] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    cancelled: dict[str, float] = field(default_factory=dict)
    sensitivity: dict[str, float] = field(default_factory=dict)
    runs: int = 0
    error: Exception | None = None
    inside: str = ""  # path of the norm in which the pass failed


class _Watch:
    """The hooks of one pass."""

    def __init__(self, step: nn.Module, places: list[Place]) -> None:
        self.step, self.trace, self.depth = step, Trace(), 0
        self.places = {place.module: place for place in places}
        self.paths = paths_of(step)
        self.kept: list[Tensor] = []  # keeps memory from being used again, so that an address names its maker
        self.maker: dict[int, tuple[str, nn.Module]] = {}
        self.seen: dict[str, dict[str, Any]] = {}
        self.handles: list[Any] = []

    def attach(self) -> None:
        root = getattr(self.step, "model", self.step) if type(self.step).__name__ == "Step" else self.step
        kinds = {site.module: site.kind for site in sites_of(self.step)}
        for module in root.modules():
            before = functools.partial(self._enter, kinds.get(module))
            self._add(module.register_forward_pre_hook(before, with_kwargs=True))
            after = functools.partial(self._leave, kinds.get(module))
            self._add(module.register_forward_hook(after, with_kwargs=True))
        if callable(getattr(self.step, "training_step", None)):
            self._add(listen(self.step, sites_of(self.step), self._called))

    def _add(self, handle: Any) -> None:
        self.handles.append(handle)

    def _enter(self, kind: str | None, module: nn.Module, args: tuple, kwargs: dict) -> None:
        if self.depth == 0:
            self.trace.runs += 1
        self.depth += 1
        x = first_tensor(args, kwargs)
        if x is None or kind is None:
            return
        path = self.paths[module]
        if module in self.places:
            self.trace.inside = path
            with unheard(), torch.no_grad():
                self._norm(self.places[module], x, args, kwargs)
        if kind == "activation":
            self._unit(Site(path, "activation", module), x)
        if kind in ("norm", "activation", "linear") and x.is_floating_point():
            self.seen.setdefault(path, {"kind": kind}).setdefault("input_rms", rms(x))

    def _leave(self, kind: str | None, module: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
        self.depth -= 1
        if not isinstance(output, Tensor):
            return
        path = self.paths[module]
        if not any(True for _ in module.children()) or module in self.places:
            self._made(path, module, output)
        if module in self.places:
            self.trace.inside = ""
        if kind not in ("norm", "activation", "linear") or not output.is_floating_point():
            return
        record = self.seen.setdefault(path, {"kind": kind})
        if "output_rms" not in record:
            record["output_rms"] = rms(output)
            if kind != "linear" and output.requires_grad:
                output.register_hook(lambda g: record.update(gradient=float(gradient_norms([g])[0])))
        if kind == "linear" and getattr(module, "bias", None) is not None and output.requires_grad:
            output.register_hook(functools.partial(self._sum_of_gradients, path, module))

    def _made(self, path: str, module: nn.Module, output: Tensor) -> None:
        self.kept.append(output)
        self.maker[output.untyped_storage().data_ptr()] = (path, module)

    def _maker(self, x: Tensor) -> tuple[str, nn.Module] | None:
        return self.maker.get(x.untyped_storage().data_ptr())

    def _norm(self, place: Place, x: Tensor, args: tuple, kwargs: dict) -> None:
        if place.kind == "none" or x.numel() == 0 or not x.is_floating_point():
            return
        masked = any(isinstance(m, Tensor) and m.dtype == torch.bool for m in (*args, *kwargs.values()))
        rows = place.groups(x)
        mean, values = rows.mean(1), rows.shape[1]
        var = rows.var(1, correction=0) if values > 1 else torch.zeros_like(mean)
        call = Call(
            place, self.trace.runs, x.shape, mean, var, values, float(x.abs().amax()), x.detach(), masked,
            place.module.training,
        )  # fmt: skip
        self.trace.calls.append(call)
        maker = self._maker(x)
        if maker is not None and getattr(maker[1], "bias", None) is not None:
            self.seen.setdefault(maker[0], {"kind": "linear"})["before"] = place

    def _unit(self, site: Site, x: Tensor) -> Callable[[Tensor], None] | None:
        maker = self._maker(x)
        if (
            maker is None
            or maker[1] not in self.places
            or any(unit.path == site.layer for unit in self.trace.units)
        ):
            return None
        axis = channel_dim(self.places[maker[1]].module, x.ndim)
        part = few(x)
        with unheard():
            rows = to_rows(derivative(site.module, part), axis)
            limits = bounds(site.module)
            if limits and limits[0] == 0 and limits[1] > 1:  # ReLU6: its lower end is that of ReLU
                limits = None
            saturated = None
            if limits:
                with torch.no_grad():
                    y = site.module.forward(part.detach().clone())
                saturated = float(saturated_fraction(to_rows(y, axis), *limits))
        dead = float(flat_fractions(rows)["dead_fraction"])
        self.trace.units.append(Unit(site.layer, maker[0], dead, saturated))
        return None

    def _called(self, site: Site, x: Tensor) -> None:
        if isinstance(site.module, CalledFunction):
            self._unit(site, x)

    def _sum_of_gradients(self, path: str, module: nn.Module, gradient: Tensor) -> None:
        if "before" in self.seen.get(path, {}):
            rows = to_rows(gradient, channel_dim(module, gradient.ndim))
            total = rows.abs().sum(0)
            share = rows.sum(0).abs() / total.clamp_min(torch.finfo(rows.dtype).tiny)
            self.trace.cancelled[path] = float(share[total > 0].amax()) if bool((total > 0).any()) else 0.0

    def finish(self, parameters: dict[str, nn.Parameter], loss: Tensor) -> None:
        if loss.requires_grad and parameters:
            found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
            gradients = {path: g for path, g in zip(parameters, found, strict=True) if g is not None}
            for path, record in self.seen.items():  # in forward order
                if path in gradients and record["kind"] == "linear":
                    record["gradient"] = float(gradient_norms([gradients[path]])[0])
                    size = float(gradient_norms([parameters[path].detach()])[0])
                    self.trace.sensitivity[path] = record["gradient"] * size
        keep = ("kind", "input_rms", "output_rms", "gradient")
        self.trace.layers = [
            Layer(path, **{name: value for name, value in record.items() if name in keep})
            for path, record in self.seen.items()
        ]


def few(x: Tensor) -> Tensor:
    """The first samples of a large tensor."""
    return x if x.numel() <= MANY else x[: max(1, MANY * len(x) // x.numel())]


def rms(x: Tensor) -> float:
    """Root mean square of a tensor, of its first samples if it is large."""
    part = few(x.detach()).float()
    return float(torch.linalg.vector_norm(part) / max(part.numel(), 1) ** 0.5)


@contextmanager
def hooks(watch: _Watch) -> Iterator[None]:
    """The hooks are there inside this context."""
    try:
        watch.attach()
        yield
    finally:
        for handle in watch.handles:
            handle.remove()


def trace(step: nn.Module, batch: Any, places: list[Place]) -> Trace:
    """Run one training pass, forward and backward, on the module as it is: call it in `untouched`.

    An error of the pass is part of the result, with the norm in which it came.
    """
    watch = _Watch(step, places)
    weights = {
        path: module.weight
        for module, path in watch.paths.items()
        if isinstance(getattr(module, "weight", None), nn.Parameter)
        and module.weight.requires_grad
        and module not in watch.places
    }
    with hooks(watch):
        try:
            loss = step_output(step, copied(batch))["loss"]
        except Exception as error:  # any error of a user's network is what we report
            watch.trace.error = error
            return watch.trace
        watch.trace.loss = float(loss.detach())
        watch.finish(weights, loss)
    return watch.trace


def copied(batch: Any) -> Any:
    """A batch that a network may write into."""
    return apply_to_collection(batch, Tensor, torch.clone)
