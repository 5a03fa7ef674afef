"""Gradients through a norm: of a constant input, through its statistics, and of its gain and shift."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from normexp.claims.laws.common import NormFactory, apart, function_of, gradient_of, output, sample

UPSTREAM = torch.tensor([[0.0, 1.0, 2.0, 3.0]], dtype=torch.float64)


def constant_input_of_formula(*, seed: int, form: Literal["std", "root of var"]) -> float:
    """Largest |dL/dx| at a constant row of 4 values with upstream gradient 0, 1, 2, 3 (474 for nn.LayerNorm) of a
    formula of document 004: (x - mean) / (x.std() + 1e-6), or with var().sqrt() for std(); nan if the gradient is."""
    x = torch.full((1, 4), float(seed), dtype=torch.float64, requires_grad=True)
    std = x.std(1, keepdim=True) if form == "std" else x.var(1, keepdim=True).sqrt()
    ((x - x.mean(1, keepdim=True)) / (std + 1e-6) * UPSTREAM).sum().backward()
    return apart(gradient_of(x))


def constant_output(norm: NormFactory, *, seed: int) -> float:
    """Largest |y| for a constant row: 0 if eps keeps the division finite."""
    return apart(output(norm, torch.full((2, 8), float(seed), dtype=torch.float64)))


def width_one(norm: NormFactory, *, seed: int) -> float:
    """|y| for a single feature, 0 for torch's LayerNorm; nan if the norm refuses it or divides 0 by 0."""
    try:
        return apart(output(norm, sample(seed, 4, 1)))
    except ValueError:
        return float("nan")


def detached_mean_gradient(norm: NormFactory, *, seed: int) -> float:
    """Mean of dL/dx divided by (mean upstream gradient / std): 1 if no gradient flows through mean and std (Theorem
    1)."""
    x, upstream = sample(seed, 16, 64).requires_grad_(), sample(seed + 1, 16, 64)
    (norm(64).double()(x) * upstream).sum().backward()
    std = (x.detach().var(1, correction=0) + 1e-5).sqrt()
    return float((gradient_of(x).mean(1) * std / upstream.mean(1)).mean())


def affine_step(norm: NormFactory, *, seed: int, features: int = 16) -> float:
    """How far gain and shift move in one step of gradient descent (lr 0.1) on a random loss: the smaller of the two."""
    layer = norm(features).double()
    affine = [layer.get_parameter(name) for name in ("weight", "bias")]
    start = [p.detach().clone() for p in affine]
    trained = [p for p in layer.parameters() if p.requires_grad]
    ((layer(sample(seed, 8, features)) - sample(seed + 1, 8, features)) ** 2).mean().backward()
    if trained:
        torch.optim.SGD(trained, lr=0.1).step()
    return min(apart(p.detach(), before) for p, before in zip(affine, start, strict=True))


def saturated_weight_gradient(*, seed: int, function: str, scale: float, features: int = 256) -> float:
    """The share of the gradient that an activation passes: the norm of a dense layer's weight gradient, divided by its
    norm without the activation. Pre-activations have standard deviation `scale`."""
    x, upstream = sample(seed, 64, features), sample(seed + 1, 64, features)
    weight = sample(seed + 2, features, features) * scale / features**0.5
    activated = gradient_norm(lambda w: function_of(function)(x @ w.T), weight, upstream)
    return float(activated / gradient_norm(lambda w: x @ w.T, weight, upstream))


def gradient_norm(function: Callable[[Tensor], Tensor], x: Tensor, upstream: Tensor) -> Tensor:
    """Norm of the gradient by x, where `upstream` is the gradient by the function's output."""
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad((function(x) * upstream).sum(), x)
    return gradient.norm()


def saturated_share(norm: NormFactory, *, seed: int, scale: float, features: int = 64) -> float:
    """Share of sigmoid outputs below 0.05 or above 0.95 for pre-activations of standard deviation `scale`."""
    y = torch.sigmoid(output(norm, scale * sample(seed, 512, features)))
    return float(((y < 0.05) | (y > 0.95)).double().mean())


def gradient_at_scale(norm: NormFactory, *, seed: int, scale: float, features: int = 64) -> float:
    """Norm of dL/dx at `scale` x, divided by that at x; the upstream gradient is the same. Each row has length 1."""
    x, upstream = nn.functional.normalize(sample(seed, 16, features)), sample(seed + 1, 16, features)
    layer = norm(features).double()
    return float(gradient_norm(layer, scale * x, upstream) / gradient_norm(layer, x, upstream))


def bias_gradient(norm: NormFactory, *, seed: int, features: int = 32) -> float:
    """Norm of the gradient by the bias of a linear map before the norm, divided by that by its weight."""
    torch.manual_seed(seed)
    linear, layer = nn.Linear(16, features).double(), norm(features).double().train()
    (layer(linear(sample(seed, 64, 16))) * sample(seed + 1, 64, features)).sum().backward()
    return float(gradient_of(linear.bias).norm() / gradient_of(linear.weight).norm())
