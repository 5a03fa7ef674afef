"""Statistics of activations, as functions of tensors.

`rows` are (..., n, C): n places (samples, pixels or tokens) of C channels. Every axis before them is kept, so that
replicas of a network are measured together.
"""

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

PERCENTILES = {"p15": 0.15, "p50": 0.5, "p85": 0.85}  # the three of Figure 1 in Ioffe & Szegedy 2015
MARGIN = 0.05  # how near to a bound is saturated, in units of the range: sigmoid below 0.05 or above 0.95
FLAT = 0.05  # a derivative smaller than this counts as zero


def to_rows(x: Tensor, channel_dim: int, mask: Tensor | None = None) -> Tensor:
    """(N, C, ...) or (N, T, C) -> (n, C). `mask` (N, T) is True at real tokens: padding is left out."""
    x = x.detach()
    if not x.is_floating_point() or x.element_size() < 4:
        x = x.float()
    if mask is not None and mask.shape == x.shape[:-1]:
        return x[mask]
    return x.movedim(channel_dim, -1).flatten(0, -2)


def wide(x: Tensor) -> Tensor:
    """In float64, where the device has it."""
    return x.float() if x.device.type == "mps" else x.double()


def describe(rows: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
    """Statistics over all values of `rows` (..., n, C), each (...), in the units of the activation unless noted.

    mean, std (correction 0); skew E z^3 and kurtosis E z^4 of the standardized value z, without unit (Gaussian: 0
    and 3); max_abs; l2_norm, the mean over places of the norm over channels; channel_spread, the std over channels of
    the channel means in units of std, so its square is the share of the variance that lies between channels.
    A statistic in units of std is nan where the std is zero.
    """
    flat = rows.flatten(-2)  # (..., n C)
    mean = flat.mean(-1)
    centered = flat - mean[..., None]  # never E x^2 - (E x)^2, which loses its digits when |mean| >> std
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
    """`size` values of `rows` (..., n, C) at random places, (..., size); all of them where there are no more.

    Random, since a stride through memory meets few channels and is off by two standard deviations. The places are a
    function of `seed` and of the number of values alone, so that arms are measured at the same places.
    """
    flat = rows.flatten(-2)
    if flat.shape[-1] <= size:
        return flat
    places = _random_places(flat.shape[-1], size, seed)
    return flat.index_select(-1, places.to(flat.device, non_blocking=True))


@functools.lru_cache(maxsize=16)  # the layers of one measurement share their places
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
    if isinstance(activation, nn.Hardtanh):  # also ReLU6
        return float(activation.min_val), float(activation.max_val)
    if isinstance(activation, (nn.Sigmoid, nn.Hardsigmoid)):
        return 0.0, 1.0
    return (-1.0, 1.0) if isinstance(activation, (nn.Tanh, nn.Softsign)) else None


def saturated_fraction(rows: Tensor, low: float, high: float) -> Tensor:
    """Share of outputs within 5 % of the range [low, high] from one of its ends, (...)."""
    margin = MARGIN * (high - low)
    return ((rows < low + margin) | (rows > high - margin)).float().mean((-2, -1))


def derivative(activation: nn.Module, inputs: Tensor) -> Tensor:
    """f'(z) of an elementwise activation, in the shape of z. `forward` is called directly, which runs no hooks."""
    with torch.enable_grad():
        z = inputs.detach().requires_grad_()
        # The copy lets an in-place activation work.
        return torch.autograd.grad(activation.forward(z.clone()).sum(), z)[0]


def flat_fractions(derivatives: Tensor) -> dict[str, Tensor]:
    """Share of places where |f'| < 0.05, and of dead units: channels where that holds at every place.

    `derivatives` is (..., n, C). For ReLU a dead unit is one that is never positive.
    """
    flat = derivatives.abs() < FLAT
    return {
        "derivative_near_zero_fraction": flat.float().mean((-2, -1)),
        "dead_fraction": flat.all(-2).float().mean(-1),
    }
