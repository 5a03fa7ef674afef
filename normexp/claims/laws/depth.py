"""How signals and gradients change with depth in a network at its initialization.

The caller builds and initializes the network, which names its `sites()`. The input is standard normal noise, random
tokens, or a batch of the data set that the caller set. The loss is a random linear function of the output.
"""

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from normexp.claims.laws.common import function_of, gradient_of
from normexp.claims.laws.sites import SiteNetwork, input_batch, linear_outputs, observed

Place = Literal["last", "first"]
Order = Literal["norm last", "norm first"]


def gradient_profile(network: SiteNetwork, *, seed: int, batch_size: int) -> Tensor:
    """log of the squared norm of dL/dh for the output h of each hidden linear map, in forward order, (L,)."""
    found = linear_outputs(network, seed, batch_size)[:-1]  # without the last map, which gives the logits
    return torch.stack([gradient_of(h).double().square().sum() for h in found]).log()


def gradient_growth(network: SiteNetwork, *, seed: int, batch_size: int) -> float:
    """Factor by which the squared gradient grows from one layer to the layer before it: the geometric mean over the
    inner layers. The first and last quarter are omitted, because input and loss are near. For BatchNorm and ReLU it is
    pi / (pi - 1) = 1.467 in the limit of large width and batch (Yang et al. 2019).

    The monitor `gradients` logs `gradient_growth_rate` in training. That is a least-squares slope over all layers, of
    the gradients by activations or weights, so the two differ on the same network.
    """
    profile = gradient_profile(network, seed=seed, batch_size=batch_size)
    cut = len(profile) // 4
    inner = -profile[cut : len(profile) - cut]
    return float(((inner[-1] - inner[0]) / (len(inner) - 1)).exp())


def gradient_instability(network: SiteNetwork, *, seed: int, batch_size: int) -> float:
    """|log of `gradient_growth`|: 0 if gradients neither vanish nor explode, nan if they are 0 throughout."""
    growth = gradient_growth(network, seed=seed, batch_size=batch_size)
    return abs(math.log(growth)) if growth > 0 else math.nan


def gradient_imbalance(network: SiteNetwork, *, seed: int, batch_size: int) -> float:
    """|log10(gradient of the first hidden layer / gradient of the last)|."""
    profile = gradient_profile(network, seed=seed, batch_size=batch_size)
    return float((profile[0] - profile[-1]).abs() / 2 / math.log(10))


def signal_magnitude(network: SiteNetwork, *, seed: int, batch_size: int) -> float:
    """|log10 of the root mean square| of the last hidden linear map's output: 0 is a healthy scale of 1."""
    last = observed(network, input_batch(network, seed, batch_size), "linear")[-2]
    return float((last.double().square().mean().log() / 2 / math.log(10)).abs())


def cosine_similarity(network: SiteNetwork, *, seed: int, batch_size: int, place: Place = "last") -> float:
    """Mean |cosine| between different samples at the last (or first) activation. It is 1 if depth has made all samples
    parallel (rank collapse)."""
    found = observed(network, input_batch(network, seed, batch_size), "activation")
    x = found[-1 if place == "last" else 0].flatten(1).double()
    cosine = nn.functional.normalize(x, dim=1) @ nn.functional.normalize(x, dim=1).T
    n = len(x)
    return float((cosine.abs().sum() - n) / (n * (n - 1)))


def orthogonality_gap(network: SiteNetwork, *, seed: int, batch_size: int) -> float:
    """V = ||K / tr K - I / n||_F of the last activation's Gram matrix K (Daneshmand et al. 2021); 0 is orthogonal."""
    last = observed(network, input_batch(network, seed, batch_size), "activation")[-1]
    x = last.flatten(1).double()  # (N, C)
    gram = x @ x.T
    return float((gram / gram.trace() - torch.eye(len(x), dtype=x.dtype) / len(x)).norm())


def direction(network: SiteNetwork, *, seed: int, batch_size: int, **others: Any) -> float:
    """A number that tells networks apart, however their weights are scaled: the output of each linear map as a unit
    vector, seen along a random direction, summed over the maps. Networks whose measure is saturated differ in it."""
    total = torch.zeros((), dtype=torch.float64)
    for layer, h in enumerate(observed(network, input_batch(network, seed, batch_size), "linear")):
        generator = torch.Generator().manual_seed(seed + 1000 * (layer + 1) + 3_000_000)
        along = torch.randn(h.numel(), generator=generator, dtype=torch.float64)
        total += nn.functional.normalize(h.double().flatten(), dim=0) @ along
    return float(total)


def isometry_gap(x: Tensor) -> float:
    """-log(det(K)^(1/n) / (tr K / n)) of the Gram matrix K of the rows of x (n, d); 0 where K is the identity."""
    gram = x.double() @ x.double().T
    return float((gram.trace() / len(x)).log() - gram.logdet() / len(x))


def cosine_map(activation: str, cosine: float) -> float:
    """The cosine between f(a) - mean and f(b) - mean for standard normal a and b of this cosine: sum_k c_k^2 cosine^k
    over sum_k c_k^2, k from 1, with the coefficients c_k of f in normalized Hermite polynomials."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(160)
    values = function_of(activation)(torch.from_numpy(nodes)).numpy()
    before, now, squares = np.zeros_like(nodes), np.ones_like(nodes), []
    for k in range(40):
        squares.append(float((weights * values * now).sum() / math.sqrt(2 * math.pi)) ** 2)
        before, now = now, (nodes * now - math.sqrt(k) * before) / math.sqrt(k + 1)
    return sum(c * cosine**k for k, c in enumerate(squares) if k) / sum(squares[1:])


@torch.no_grad()
def isometry_decay(
    norm: Callable[..., nn.Module], *, seed: int, activation: str, order: Order = "norm last", depth: int = 4
) -> float:
    """How fast the isometry gap of 16 inputs of cosine 0.5 falls in an MLP with normal weights: the logarithm of its
    fall, over that of the Hermite expansion's `cosine_map`. Layers are norm(f(W x)) for `norm last`, and f(norm(W x))
    for `norm first`; of the latter, log(first gap / last gap) a layer is returned. For normal weights, W x has
    independent units of covariance x x^T / d, and is drawn so. The width d is 65,536, with hardly any noise."""
    width, cosine = 65_536, 0.5
    generator = torch.Generator().manual_seed(seed)

    def drawn_with(covariance: Tensor) -> Tensor:
        z = torch.randn(len(covariance), width, generator=generator, dtype=torch.float64)
        return torch.linalg.cholesky(covariance) @ z

    def same(cosine: float) -> Tensor:
        return torch.full((16, 16), cosine, dtype=torch.float64).fill_diagonal_(1.0)

    layer, f = norm(width).double(), function_of(activation)
    x = layer(drawn_with(same(cosine)))
    gaps = [isometry_gap(x)]
    for _ in range(depth):
        h = drawn_with(x @ x.T / width)
        x = layer(f(h)) if order == "norm last" else f(layer(h))
        gaps.append(isometry_gap(x))
        cosine = cosine_map(activation, cosine)
    fall = math.log(gaps[0] / gaps[-1])
    if order == "norm first":
        return fall / depth
    return fall / math.log(gaps[0] / isometry_gap(torch.linalg.cholesky(same(cosine))))
