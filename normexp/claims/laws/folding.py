"""What a gain, a running estimate or a decay can be folded into, and what remains of it in training."""

from typing import Literal

import torch
from torch import Tensor, nn

from normexp.claims.laws.common import Half, NormFactory, draw_gain, relative, sample

Place = Literal["input", "output"]
Optimizer = Literal["SGD", "Adam", "AdamW"]
DType = Literal["float64", Half]


@torch.no_grad()
def fold_error(norm: NormFactory, *, seed: int, place: Place, features: int = 64) -> float:
    """What remains when the gain g of a norm is folded into a linear map W, relative to the output. At the `input` of a
    branch, W norm(x) against (W diag g) norm'(x), norm' without its gain. At the `output`, norm(W x) against
    c norm'(diag(g) W x) with the best number c: the only map there stands before the norm."""
    layer, plain = norm(features).double(), norm(features).double()
    gain = draw_gain(layer, seed)
    x, weight = sample(seed, 32, features), sample(seed + 1, features, features) / features**0.5
    if place == "input":
        return relative(plain(x) @ (gain[:, None] * weight), layer(x) @ weight)
    y, folded = layer(x @ weight), plain((x @ weight) * gain)
    return relative(folded * (y * folded).sum() / folded.square().sum(), y)


def trained_loss(
    norm: NormFactory, *, seed: int, optimizer: Optimizer, decay: float, steps: int = 60
) -> float:
    """Final loss of map, norm, map after some steps in float64. Weight decay is for the norm alone."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(8, 16), norm(16), nn.Linear(16, 4)).double()
    outside, inside = [*network[0].parameters(), *network[2].parameters()], list(network[1].parameters())
    groups = [{"params": outside, "weight_decay": 0.0}, {"params": inside, "weight_decay": decay}]
    step = getattr(torch.optim, optimizer)(groups, lr=0.03)
    x, y = sample(seed, 64, 8), sample(seed + 1, 64, 4)
    for _ in range(steps):
        step.zero_grad()
        (network(x) - y).square().mean().backward()
        step.step()
    return float((network(x) - y).detach().square().mean())


@torch.no_grad()
def convolution_error(norm: NormFactory, *, seed: int, dtype: DType = "float64", mean: float = 0.0) -> float:
    """BatchNorm behind a convolution, in eval mode, folded into it: W g / std and b - g mean / std. In float64 the
    distance to the two layers; in half precision the error of the folded map over that of the two layers, both against
    float64. Inputs have deviation 1 and this mean."""
    x = sample(seed, 8, 4, 10, 10) + mean
    weight, bias = sample(seed + 1, 16, 4, 3, 3) / 6, sample(seed + 2, 16)
    layer = norm(16).double()
    layer.get_parameter("weight").copy_(0.5 + sample(seed + 3, 16).abs())
    layer.get_parameter("bias").copy_(sample(seed + 4, 16))
    between = nn.functional.conv2d(x, weight, bias)
    layer.get_buffer("running_mean").copy_(between.mean((0, 2, 3)))
    layer.get_buffer("running_var").copy_(between.var((0, 2, 3)))
    exact = layer.eval()(between)
    factor = layer.get_parameter("weight") / (layer.get_buffer("running_var") + vars(layer)["eps"]).sqrt()
    shift = layer.get_parameter("bias") + (bias - layer.get_buffer("running_mean")) * factor
    half = getattr(torch, dtype)

    def convolved(weight: Tensor, bias: Tensor) -> Tensor:
        return nn.functional.conv2d(x.to(half), weight.to(half), bias.to(half))

    folded = relative(convolved(weight * factor[:, None, None, None], shift), exact)
    if half == torch.float64:
        return folded
    return folded / relative(layer.to(half)(convolved(weight, bias)), exact)
