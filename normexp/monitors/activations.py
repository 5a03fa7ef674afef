"""Activation statistics of training batches at norms, non-linearities and the residual stream."""

import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn

from normexp.format import require_at_least, require_choice
from normexp.models.sites import names_its_sites, sites_of
from normexp.monitors.base import StepMonitor
from normexp.monitors.batches import Batches, all_gather
from normexp.monitors.guard import NoLoss, guard_depth, loss_of, same_random, untouched
from normexp.monitors.listen import listen, unheard
from normexp.monitors.sites import Site, axis_at, to_rows

PERCENTILES = {"p15": 0.15, "p50": 0.5, "p85": 0.85}  # as in Figure 1 of Ioffe & Szegedy 2015
MARGIN = 0.05  # of the range: an output this close to a bound is saturated (sigmoid below 0.05 or above 0.95)
FLAT = 0.05  # a smaller derivative counts as zero


def describe(rows: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
    """Statistics over all values of `rows` (..., n, C), each of shape (...), in units of the activation unless noted:

    - mean, std (correction 0)
    - skew E z^3 and kurtosis E z^4 of the standardized value z, without unit (Gaussian: 0 and 3)
    - max_abs
    - l2_norm: mean over places of the norm over channels
    - channel_spread: std over channels of the channel means, in units of std. Its square is the share of the variance
      between channels.

    A statistic in units of std is nan if the std is zero.
    """
    flat = rows.flatten(-2)  # (..., n C)
    mean = flat.mean(-1)
    centered = flat - mean[..., None]  # never E x^2 - (E x)^2, which loses its digits if |mean| >> std
    std = torch.linalg.vector_norm(centered, dim=-1) / flat.shape[-1] ** 0.5
    formulas = {
        "mean": lambda: mean,
        "std": lambda: std,
        "skew": lambda: (centered**3).mean(-1) / std**3,
        "kurtosis": lambda: (centered**4).mean(-1) / std**4,
        "max_abs": lambda: flat.abs().amax(-1),
        "l2_norm": lambda: torch.linalg.vector_norm(rows, dim=-1).mean(-1),
        "channel_spread": lambda: rows.mean(-2).std(-1, correction=0) / std,
    }
    return {name: formula() for name, formula in formulas.items() if name in names}


def random_sample(rows: Tensor, size: int, seed: int) -> Tensor:
    """`size` values of `rows` (..., n, C) at random positions, (..., size), or all values if there are fewer.

    They are random because a fixed stride meets few channels, and its result is off by two standard deviations. They
    depend only on `seed` and the number of values, so all arms are measured at the same ones.
    """
    flat = rows.flatten(-2)
    if flat.shape[-1] <= size:
        return flat
    indices = torch.randint(flat.shape[-1], (size,), generator=torch.Generator().manual_seed(seed))
    return flat.index_select(-1, indices.to(flat.device, non_blocking=True))


def percentiles(values: Tensor) -> dict[str, Tensor]:
    """The 15th, 50th and 85th percentile of `values` (..., k), linearly interpolated, each (...)."""
    ordered = values.sort(-1).values  # torch.quantile takes three times as long
    found = {}
    for name, level in PERCENTILES.items():
        position = level * (values.shape[-1] - 1)
        below, above = ordered[..., math.floor(position)], ordered[..., math.ceil(position)]
        found[name] = torch.lerp(below, above, position - math.floor(position))
    return found


def bounds(activation: nn.Module) -> tuple[float, float] | None:
    """Lower and upper bound of an activation's output, None if it is not bounded on both sides."""
    if hasattr(activation, "bounds"):  # of a function that was called
        return activation.bounds
    if isinstance(activation, nn.Hardtanh):  # also ReLU6
        return float(activation.min_val), float(activation.max_val)
    if isinstance(activation, (nn.Sigmoid, nn.Hardsigmoid)):
        return 0.0, 1.0
    return (-1.0, 1.0) if isinstance(activation, (nn.Tanh, nn.Softsign)) else None


def saturated_fraction(rows: Tensor, low: float, high: float) -> Tensor:
    """Share of outputs that lie within 5 % of the range [low, high] from one of its ends, (...)."""
    margin = MARGIN * (high - low)
    return ((rows < low + margin) | (rows > high - margin)).float().mean((-2, -1))


def derivative(activation: nn.Module, inputs: Tensor) -> Tensor:
    """f'(z) of an elementwise activation, in the shape of z. Calls `forward` directly, so no hooks run. A user's
    activation may draw numbers or keep a state: it draws the same ones again in its own pass."""
    known = type(activation).__module__.startswith(("torch.", "normexp.")) and not isinstance(
        activation, nn.RReLU
    )
    with contextlib.ExitStack() as stack:
        if not known:
            stack.enter_context(same_random())
            stack.enter_context(untouched(activation))
        stack.enter_context(torch.enable_grad())
        # What is saved here belongs to no checkpoint or offloading that is open around the layer.
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x))
        z = inputs.detach().requires_grad_()
        # A copy, because the activation may work in place.
        return torch.autograd.grad(activation.forward(z.clone()).sum(), z)[0]


def flat_fractions(derivatives: Tensor) -> dict[str, Tensor]:
    """Share of places where |f'| < 0.05, and share of dead units: channels where this holds at every place.

    `derivatives` is (..., n, C). A dead unit of ReLU is never positive.
    """
    flat = derivatives.abs() < FLAT
    return {
        "derivative_near_zero_fraction": flat.float().mean((-2, -1)),
        "dead_fraction": flat.all(-2).float().mean(-1),
    }


Place = Literal["norm_input", "norm_output", "preactivation", "activation", "residual"]
Statistic = Literal[
    "mean", "std", "skew", "kurtosis", "max_abs", "l2_norm", "channel_spread",
    "p15", "p50", "p85", "saturated_fraction", "derivative_near_zero_fraction", "dead_fraction",
]  # fmt: skip
OF_CHANNELS = ("l2_norm", "channel_spread", "dead_fraction")
OF_ACTIVATIONS = ("saturated_fraction", "derivative_near_zero_fraction", "dead_fraction")
PLACES = {
    "norm_input": ("norm", "input"), "norm_output": ("norm", "output"), "preactivation": ("activation", "input"),
    "activation": ("activation", "output"), "residual": ("residual", "output"),
}  # fmt: skip


class Activations(StepMonitor):
    """Statistics (see `describe` and `percentiles`) at each chosen place, as `<place>_<statistic>/<layer>`. For each
    activation also `saturated_fraction`, `derivative_near_zero_fraction` and `dead_fraction`, each `/<layer>`.

    Args:
        places: preactivation and activation are the input and output of a non-linearity.
        sample_size: number of random values for percentiles. Other statistics use every value.

    Saturation is measured only for activations that are bounded on both sides. Where no layer says which axis holds the
    channels (see `monitors.sites`), there is no `l2_norm`, `channel_spread` and `dead_fraction`. After the last step,
    the last training batch is measured again.
    """

    def __init__(
        self,
        *,
        every_n_steps: int | None,
        places: Sequence[Place] = ("preactivation", "activation"),
        statistics: Sequence[Statistic] = ("mean", "std", "p15", "p50", "p85", *OF_ACTIVATIONS),
        sample_size: int = 1024,
    ) -> None:
        super().__init__(every_n_steps=every_n_steps)
        for place in places:
            require_choice("places", place, get_args(Place))
        for statistic in statistics:
            require_choice("statistics", statistic, get_args(Statistic))
        require_at_least("sample_size", sample_size, 1)
        self.places, self.statistics, self.sample_size = list(places), list(statistics), sample_size
        self._values: dict[str, Tensor] = {}

    def keys(self) -> set[str]:
        of_places = [name for name in self.statistics if name not in OF_ACTIVATIONS]
        return {f"{place}_{name}" for place in self.places for name in of_places} | (
            set(self.statistics) & set(OF_ACTIVATIONS)
        )

    def watch(self, module: LightningModule, batch: Any, step: int) -> None:
        self._values, self._step = {}, step
        sites, self._declared = sites_of(module), names_its_sites(module)
        kinds = {PLACES[place][0] for place in self.places}
        kinds |= {"activation"} if set(self.statistics) & set(OF_ACTIVATIONS) else set()
        for site in sites:
            for end in ("input", "output") if site.kind in kinds else ():
                self.hear(site.module, functools.partial(self._record, site, end), before=end == "input")
        self.handles.append(listen(module, sites, None if self._declared else self._called))

    def _called(self, site: Site, x: Tensor) -> Callable[[Tensor], None]:
        self._record(site, "input", x)  # before it runs: it may work in place
        return functools.partial(self._record, site, "output")

    def _record(self, site: Site, end: str, x: Any) -> None:
        """Record one end of a site. A module that runs twice in a step counts once, also in accumulation."""
        if not isinstance(x, Tensor):
            return
        wanted = set(self.statistics) if site.kind == "activation" else set()
        with self.attempt(), unheard():
            for place in self.places:
                if PLACES[place] == (site.kind, end):
                    self._describe(site, place, x)
            if end == "input" and wanted & {"derivative_near_zero_fraction", "dead_fraction"}:
                self._flat(site, x)
            if end == "output" and "saturated_fraction" in wanted and bounds(site.module):
                self._saturated(site, x)

    def _rows(self, site: Site, x: Tensor, values: Tensor | None = None) -> tuple[Tensor, Sequence[str]]:
        """The rows of x, or of `values` in its shape, and the statistics that can be computed of them."""
        axis = axis_at(site, x, self._declared)
        values = x if values is None else values
        # An extra pass already has the batch of all processes.
        rows = to_rows(values if guard_depth() else all_gather(values), -1 if axis is None else axis)
        names = [name for name in self.statistics if axis is not None or name not in OF_CHANNELS]
        return rows, names

    def _describe(self, site: Site, place: str, x: Tensor) -> None:
        rows, names = self._rows(site, x)
        found = describe(rows, names)
        if set(names) & set(PERCENTILES):
            found |= percentiles(random_sample(rows, self.sample_size, seed=self._step))
        self._values |= {f"{place}_{name}/{site.layer}": found[name] for name in names if name in found}

    def _flat(self, site: Site, x: Tensor) -> None:
        rows, names = self._rows(site, x, derivative(site.module, x))
        fractions = flat_fractions(rows)
        self._values |= {f"{name}/{site.layer}": fractions[name] for name in names if name in fractions}

    def _saturated(self, site: Site, x: Tensor) -> None:
        fraction = saturated_fraction(self._rows(site, x)[0], *bounds(site.module))  # type: ignore[misc]
        self._values[f"saturated_fraction/{site.layer}"] = fraction

    def collect(self, module: LightningModule) -> Mapping[str, Tensor]:
        values, self._values = self._values, {}
        return values

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        self.watch(module, batches.training, step)
        with contextlib.suppress(NoLoss):  # of which it needs none
            loss_of(module, batches.training)
        return self.collect(module)
