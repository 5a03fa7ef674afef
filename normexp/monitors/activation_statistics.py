"""Statistics of activations, as functions of tensors.

`rows` are (..., n, C): n places (samples, pixels or tokens) of C channels. Every axis before them is kept, so replicas
of a network are measured together.
"""

import contextlib
import functools
import math
from collections.abc import Sequence

import torch
from pytorch_lightning.utilities.seed import isolate_rng
from torch import Tensor, nn

from normexp.monitors.guard import untouched

PERCENTILES = {"p15": 0.15, "p50": 0.5, "p85": 0.85}  # as in Figure 1 of Ioffe & Szegedy 2015
MARGIN = 0.05  # of the range: an output this close to a bound is saturated (sigmoid below 0.05 or above 0.95)
FLAT = 0.05  # a smaller derivative counts as zero


def to_rows(x: Tensor, channel_dim: int, mask: Tensor | None = None) -> Tensor:
    """(N, C, ...) or (N, T, C) -> (n, C). `mask` (N, T) is True at real tokens; padding is omitted."""
    x = x.detach()
    if not x.is_floating_point() or x.element_size() < 4:
        x = x.float()
    if mask is not None and mask.shape == x.shape[:-1]:
        return x[mask]
    return x.movedim(channel_dim, -1).flatten(0, -2)


def wide(x: Tensor) -> Tensor:
    """x in float64, if the device has it."""
    return x.float() if x.device.type == "mps" else x.double()


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
    """`size` values of `rows` (..., n, C) at random places, (..., size), or all values if there are fewer.

    Places are random because a fixed stride meets few channels, and its result is off by two standard deviations. They
    depend only on `seed` and the number of values, so all arms are measured at the same places.
    """
    flat = rows.flatten(-2)
    if flat.shape[-1] <= size:
        return flat
    places = _random_places(flat.shape[-1], size, seed)
    return flat.index_select(-1, places.to(flat.device, non_blocking=True))


@functools.lru_cache(maxsize=16)  # layers of equal size share their places
def _random_places(total: int, size: int, seed: int) -> Tensor:
    return torch.randint(total, (size,), generator=torch.Generator().manual_seed(seed))


def percentiles(values: Tensor) -> dict[str, Tensor]:
    """The 15th, 50th and 85th percentile of `values` (..., k), linearly interpolated, each (...)."""
    ordered = values.sort(-1).values  # torch.quantile takes three times as long
    found = {}
    for name, level in PERCENTILES.items():
        place = level * (values.shape[-1] - 1)
        below, above = ordered[..., math.floor(place)], ordered[..., math.ceil(place)]
        found[name] = torch.lerp(below, above, place - math.floor(place))
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
            stack.enter_context(isolate_rng())
            stack.enter_context(untouched(activation))
        stack.enter_context(torch.enable_grad())
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
