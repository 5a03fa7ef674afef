"""The output of a norm for given numbers, compared with the formula of a document or a paper."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from normexp.claims.laws.common import NormFactory, apart, output, sample
from normexp.claims.laws.torch_facts import DOCUMENT_INPUT


def formula(
    x: Tensor, *, divide_by: str = "std", correction: int = 0, eps: float = 1e-5, eps_position: str = "inside"
) -> Tensor:
    """(x - mean) divided by the std or variance of each row of (N, C), with eps inside or outside the root."""
    var = x.var(1, correction=correction, keepdim=True)
    root = {"inside": (var + eps).sqrt(), "outside": var.sqrt() + eps}[eps_position]
    return (x - x.mean(1, keepdim=True)) / {"std": root, "variance": var + eps}[divide_by]


def distance_to_formula(
    norm: NormFactory, *, seed: int, features: int = 768, std: float = 1.0, **options: Any
) -> float:
    """Largest difference between the norm and the written `formula` with options on 16 rows of normal values."""
    x = std * sample(seed, 16, features)
    return apart(output(norm, x), formula(x, **options))


def distance_to_torch(norm: NormFactory, *, seed: int, features: int = 768) -> float:
    """Largest difference between the norm and torch.nn.LayerNorm."""
    x = sample(seed, 16, features)
    return apart(output(norm, x), output(nn.LayerNorm, x))


def over_norm(written: Tensor, norm: NormFactory, x: Tensor) -> float:
    """Written outputs divided by the norm's: the factor with the least squared error."""
    y = output(norm, x)
    return float((written * y).sum() / y.square().sum())


def hand_over_norm(norm: NormFactory, *, seed: int, correction: int, features: int = 768) -> float:
    """Output of a hand-written layer normalization with torch.var(correction=...), divided by the norm's output. As in
    document 000, x is uniform with shape (16, 768)."""
    x = torch.rand(16, features, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return over_norm(formula(x, correction=correction), norm, x)


def unbiased_over_biased(norm: NormFactory, *, seed: int, features: int) -> float:
    """Output with the variance divided by n - 1, divided by the norm's output; sqrt((n - 1) / n) in theory (eps 0)."""
    x = sample(seed, 16, features)
    return over_norm(formula(x, correction=1, eps=0.0), norm, x)


def inside_over_outside(norm: NormFactory, *, seed: int, std: float, features: int = 256) -> float:
    """Output with eps = 1e-5 outside the root, divided by the norm's output, on rows with exactly this biased std."""
    x = sample(seed, 16, features)
    x = std * (x - x.mean(1, keepdim=True)) / x.std(1, correction=0, keepdim=True)
    return over_norm(formula(x, eps_position="outside"), norm, x)


def output_std(norm: NormFactory, *, seed: int, correction: int, features: int = 3) -> float:
    """Standard deviation of the output's rows: the value farthest from 1 among 16 rows."""
    found = output(norm, sample(seed, 16, features)).std(1, correction=correction)
    return float(found[(found - 1).abs().argmax()])


def largest_output(norm: NormFactory, *, seed: int, features: int) -> float:
    """The largest |y| over random rows and the worst case, in which one value is far from equal others."""
    rows = torch.cat([100 * sample(seed, 1000, features), 1e6 * torch.eye(features, dtype=torch.float64)])
    return apart(output(norm, rows))


@torch.no_grad()
def output_size(norm: NormFactory, *, seed: int) -> float:
    """Size of the last axis of the output on randn(1, 3, 3)."""
    return float(norm(3, channel_dim=-1).double()(sample(seed, 1, 3, 3)).shape[-1])


def scale_variability(norm: NormFactory, *, seed: int, features: int = 64) -> float:
    """Coefficient of variation over 2,000 samples of |x - mean| / |y|, the scale by which the norm divides."""
    x = sample(seed, 2000, features)
    scale = (x - x.mean(1, keepdim=True)).norm(dim=1) / output(norm, x).norm(dim=1)
    return float(scale.std() / scale.mean())


@torch.no_grad()
def document_row(norm: NormFactory, *, seed: int, entry: str) -> float:
    """An entry of the result that document 003 prints: `LayerNorm(4)` over the last axis, or `LayerNorm([3, 4])`."""
    x = torch.tensor(DOCUMENT_INPUT, dtype=torch.float64)
    kind, sample_index, row, column = entry.split()
    last = norm(4, channel_dim=-1).double()(x)  # (2, 3, 4) as tokens
    both = output(norm, x.flatten(1)).view(x.shape)  # (2, 12) and back
    return float((last if kind == "last" else both)[int(sample_index), int(row), int(column)])


def range_ratio(norm: NormFactory, *, seed: int, std: float, features: int = 16) -> float:
    """Distance from the smallest to the largest output over that of the inputs, of 64 samples of this deviation."""
    x = std * sample(seed, 64, features)
    y = output(norm, x)
    return float((y.max() - y.min()) / (x.max() - x.min()))


def written_badly(*, seed: int, slip: Literal["no keepdim", "wrong axis", "no axis"], shape: str) -> float:
    """Largest difference between LayerNorm and its formula with a slip: no keepdim, or the wrong axis (the batch's) or
    none in mean and std; 0 where the slip raises an error. `shape` is such as 4x8."""
    x = sample(seed, *map(int, shape.split("x")))

    def written(dim: int | None, *, keepdim: bool) -> Tensor:
        return (x - x.mean(dim, keepdim=keepdim)) / (x.std(dim, correction=0, keepdim=keepdim) + 1e-5)

    right, dim = written(-1, keepdim=True), {"no keepdim": -1, "wrong axis": 0}.get(slip)
    try:
        y = written(dim, keepdim=slip != "no keepdim")
    except RuntimeError:
        return 0.0
    return apart(y, right)


@torch.no_grad()
def affine_start(norm: NormFactory, *, seed: int, features: int = 4) -> float:
    """Largest distance of the gain from 1 and the shift from 0 at the start, plus 1 for each of them that does not have
    one trained value per feature."""
    layer = norm(features)
    wrong = 0.0
    for name, start in (("weight", 1.0), ("bias", 0.0)):
        parameter = layer.get_parameter(name)
        wrong += apart(parameter.detach(), start)
        wrong += float(parameter.shape != (features,)) + float(not parameter.requires_grad)
    return wrong


@torch.no_grad()
def affine_effect(norm: NormFactory, *, seed: int, features: int = 16) -> float:
    """Largest difference between the output with random gain and shift, and gain * plain output + shift."""
    x = sample(seed, 8, features)
    layer = norm(features).double()
    plain = layer(x)
    gain, shift = sample(seed + 1, features), sample(seed + 2, features)
    layer.get_parameter("weight").copy_(gain)
    layer.get_parameter("bias").copy_(shift)
    return apart(layer(x), gain * plain + shift)


@torch.no_grad()
def float32_error(norm: NormFactory, *, seed: int, mean: float, features: int = 768) -> float:
    """Largest error of the norm in float32 against float64, on values shifted by `mean`."""
    x = (sample(seed, 16, features) + mean).float()
    return apart(norm(features)(x).double(), norm(features).double()(x.double()))
