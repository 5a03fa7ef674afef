"""Rotational equilibrium: the angle by which decay and steps turn a weight vector, once its length has settled.

Kosson, Messmer, Jaggi 2023, Rotational Equilibrium, arXiv:2305.17212. Constants as in the authors' code, epfml/REQ.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from normexp.claims.laws.common import NormFactory, sample

ALPHA, BETA1, BETA2 = 0.9, 0.9, 0.99
UNITS = 16  # rows of W


def predicted(optimizer: str, rate_times_decay: float) -> float:
    """Angle per step in radians: sqrt(2 lr decay) times a constant of the optimizer."""
    constant = {
        "SGD": 1 / (1 + ALPHA),
        "AdamW": (1 - BETA1) / (1 + BETA1),
        "Lion": math.pi / 2 * ((1 - BETA1) ** 2 + BETA1**2 * (1 - BETA2) / (1 + BETA2)),
    }[optimizer]
    return math.sqrt(2 * rate_times_decay * constant)


class Lion(torch.optim.Optimizer):
    """w <- w - lr (sign(b1 m + (1 - b1) g) + decay w), then m <- b2 m + (1 - b2) g (Chen et al. 2023)."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all weights once."""
        for group in self.param_groups:
            for weight in group["params"]:
                mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
                direction = mean.lerp(weight.grad, 1 - BETA1).sign()
                mean.lerp_(weight.grad, 1 - BETA2)
                weight.mul_(1 - group["lr"] * group["weight_decay"]).sub_(direction, alpha=group["lr"])


def angle_ratio(
    norm: NormFactory,
    *,
    seed: int,
    optimizer: Literal["SGD", "AdamW", "Lion"],
    lr: float,
    decay: float,
    steps: int = 2500,
) -> float:
    """Mean angle per step of the rows of W in norm(W x), over the last fifth of a run, divided by the prediction. Each
    step has new inputs and new random directions for the output, so that gradients have mean 0."""
    rows, layer = nn.Parameter(sample(seed, UNITS, 32)), norm(UNITS).double().train()
    kinds = {
        "SGD": lambda: torch.optim.SGD([rows], lr, momentum=ALPHA, weight_decay=decay),
        "AdamW": lambda: torch.optim.AdamW([rows], lr, betas=(BETA1, BETA2), weight_decay=decay),
        "Lion": lambda: Lion([rows], {"lr": lr, "weight_decay": decay}),
    }
    update, generator = kinds[optimizer](), torch.Generator().manual_seed(seed)
    angles: list[Tensor] = []
    for index in range(steps):
        x, direction = torch.randn(2, 32, 32, generator=generator, dtype=torch.float64)
        before = rows.detach().clone()
        rows.grad = None
        (layer(x @ rows.T) * direction[:, :UNITS]).sum().backward()
        update.step()
        if index >= 0.8 * steps:
            cosine = nn.functional.cosine_similarity(rows.detach(), before, dim=1)
            angles.append(cosine.clamp(max=1.0).acos().mean())
    return float(torch.stack(angles).mean()) / predicted(optimizer, lr * decay)
