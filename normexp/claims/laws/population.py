"""BatchNorm's two modes: the batch's statistics in training, a running estimate of the population's in evaluation."""

import functools
from typing import Literal

import torch
from scipy import stats
from torch import Tensor, nn

from normexp.claims.laws.common import NormFactory, apart, gradient_of, output, sample

Distance = Literal["start", "last batch", "all batches"]
Mode = Literal["eval", "training"]
Case = Literal["training", "eval mode", "trained gain and shift"]
Compared = Literal["marginals", "correlation"]
Gain = Literal["as written", "with eps"]
Batch = Literal["same", "other"]
Distribution = Literal["normal", "uniform", "exponential", "Cauchy"]
Statistic = Literal["mean", "variance"]


@torch.no_grad()
def eval_change(norm: NormFactory, *, seed: int, features: int = 8) -> float:
    """Change of the output in eval mode after the layer was trained on other batches: not 0 if the layer keeps an
    estimate of the population."""
    x = sample(seed, 16, features)
    layer = norm(features).double()
    before = layer.eval()(x)
    layer.train()
    for step in range(10):
        layer(3 * sample(seed + 1 + step, 16, features) + 5)
    return apart(layer.eval()(x), before)


@torch.no_grad()
def batch_dependence(norm: NormFactory, *, seed: int, mode: Mode = "eval", features: int = 8) -> float:
    """Largest change of one sample's output when the other samples of its batch change, in training or in eval mode; 0
    if the layer uses no statistics of the batch."""
    layer = norm(features).double().train(mode == "training")
    first = sample(seed, 16, features)
    second = torch.cat([first[:1], 3 * sample(seed + 1, 15, features) + 5])
    return apart(layer(first)[0], layer(second)[0])


@torch.no_grad()
def standardized(
    norm: NormFactory, *, seed: int, case: Case = "training", std: float = 1.0, features: int = 8
) -> float:
    """Largest |mean| and |variance - 1| over a batch of exactly this std, in training, in eval mode, or after a trained
    gain and shift; 1 - std^2 / (std^2 + eps) in theory, while training."""
    layer = norm(features).double().train()
    x = exact_std(seed, std, features)
    if case == "trained gain and shift":
        layer.get_parameter("weight").fill_(2.0)
        layer.get_parameter("bias").fill_(1.0)
    y = layer.eval()(x) if case == "eval mode" else layer(x)
    return max(apart(y.mean(0)), apart(y.var(0, correction=0), 1.0))


def exact_std(seed: int, std: float, features: int) -> Tensor:
    """A batch (64, features) of mean 2 and exactly this biased std in each feature."""
    x = sample(seed, 64, features)
    return std * (x - x.mean(0)) / x.std(0, correction=0) + 2


def std_over_divisor(norm: NormFactory, *, seed: int, std: float, features: int = 8) -> float:
    """The norm's output in units of (x - mean) / std, for a batch of exactly this std; sqrt(std^2 / (std^2 + eps))."""
    return float(output(norm, exact_std(seed, std, features)).std(0, correction=0).mean())


def gaussian_batches(norm: NormFactory, *, seed: int, compare: Compared, batch: int = 4096) -> float:
    """Compares two Gaussian batches after the norm, one with independent and one with strongly correlated features: the
    Kolmogorov-Smirnov distance of one feature's values (marginals), or the difference of the features' correlation."""
    z = sample(seed, 2, batch, 2)  # two batches
    first = 3 * z[0] + 1
    second = torch.stack([z[1, :, 0], 0.9 * z[1, :, 0] + 0.436 * z[1, :, 1]], 1) - 2
    a, b = output(norm, first), output(norm, second)
    if compare == "marginals":
        return float(stats.ks_2samp(a[:, 1].numpy(), b[:, 1].numpy()).statistic)
    return abs(float(torch.corrcoef(a.T)[0, 1] - torch.corrcoef(b.T)[0, 1]))


@torch.no_grad()
def recovery_error(norm: NormFactory, *, seed: int, std: float, gain: Gain, batch: Batch = "same") -> float:
    """Largest error, in units of the channel's std, if gain and shift recover x from BatchNorm. The gain is sqrt(Var)
    or sqrt(Var + eps) and the shift is the mean, both of one batch. They are applied to this or to another batch. In
    float32."""
    first = (std * sample(seed, 64, 8) + 1).float()
    second = (std * sample(seed + 1, 64, 8) + 1).float()
    layer = norm(8).train()
    var = first.var(0, correction=0)
    inside = var + vars(layer)["eps"] if gain == "with eps" else var
    layer.get_parameter("weight").copy_(inside.sqrt())
    layer.get_parameter("bias").copy_(first.mean(0))
    x = first if batch == "same" else second
    return float((layer(x) - x).abs().max() / std)


DISTRIBUTIONS = {
    "normal": torch.distributions.Normal(0.0, 1.0),
    "uniform": torch.distributions.Uniform(-(3**0.5), 3**0.5),
    "exponential": torch.distributions.Exponential(1.0),
    "Cauchy": torch.distributions.Cauchy(0.0, 1.0),
}


@functools.lru_cache(maxsize=8)  # all batch sizes share the seeds of a distribution
def million(distribution: str, seed: int) -> Tensor:
    """A million values of a distribution, as its population. Callers share them and must not change them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return DISTRIBUTIONS[distribution].sample((1_000_000,)).double()


def batch_estimate_error(*, seed: int, distribution: Distribution, of: Statistic, batch_size: int) -> float:
    """Median over 4,000 batches of the error of a batch's `mean` or biased `variance` as an estimate of that of a
    million values."""
    values = million(distribution, seed)
    generator = torch.Generator().manual_seed(seed)
    batches = values[torch.randint(len(values), (4000, batch_size), generator=generator)]
    estimates, truth = (x.mean(-1) if of == "mean" else x.var(-1, correction=0) for x in (batches, values))
    return float((estimates - truth).abs().median())


def batch_mean_error(*, seed: int, batch_size: int, batches: int = 4000) -> float:
    """Root mean square error of a batch's mean as an estimate of the population's mean. The population has std 1."""
    return float(sample(seed, batches, batch_size).mean(1).square().mean().sqrt())


@torch.no_grad()
def running_share(*, seed: int, momentum: float, of: Literal["batch", "old"]) -> float:
    """Share of the new batch, or of the old estimate, in torch.nn.BatchNorm1d's running mean after one update."""
    layer, x = nn.BatchNorm1d(4, momentum=momentum).double(), sample(seed, 16, 4) + 5
    layer.get_buffer("running_mean").fill_(1.0)
    layer(x)
    share = ((layer.get_buffer("running_mean") - 1) / (x.mean(0) - 1)).mean()
    return float(share if of == "batch" else 1 - share)


@torch.no_grad()
def torch_running_mean(*, seed: int, momentum: float | None, distance_to: Distance) -> float:
    """`running_mean` below, of torch.nn.BatchNorm1d."""
    return running_mean(lambda n: nn.BatchNorm1d(n, momentum=momentum), seed=seed, distance_to=distance_to)


@torch.no_grad()
def running_mean(norm: NormFactory, *, seed: int, distance_to: Distance) -> float:
    """Distance of the running mean after ten batches whose mean drifts, so that first, last and average differ: from
    its `start` (0), from the mean of the `last batch`, or of `all batches`. `ema_keep` is the momentum of document 002
    and cs231n."""
    batches = sample(seed, 10, 16) + torch.linspace(1, 4, 10, dtype=torch.float64)[:, None]
    means = {"start": 0.0, "last batch": float(batches[-1].mean()), "all batches": float(batches.mean())}
    return abs(_running_mean(norm, batches) - means[distance_to])


def _running_mean(norm: NormFactory, batches: Tensor) -> float:
    layer = norm(1).double().train()
    for batch in batches:
        layer(batch[:, None])
    return float(layer.get_buffer("running_mean")[0])


@torch.no_grad()
def estimate_error(norm: NormFactory, *, seed: int, steps: int, batch_size: int = 32) -> float:
    """|running mean - population mean| after `steps` batches from a population with mean 2 and std 1."""
    return abs(_running_mean(norm, sample(seed, steps, batch_size) + 2) - 2)


@torch.no_grad()
def eval_over_train(norm: NormFactory, *, seed: int, n: int) -> float:
    """Size of the output in eval mode divided by that in training mode, on the batch of n samples from which the
    running estimate came (`ema_keep` 0)."""
    x = 100 * sample(seed, n, 4)
    layer = norm(4).double().train()
    trained = layer(x)
    return float(layer.eval()(x).norm() / trained.norm())


def accumulation_error(norm: NormFactory, *, seed: int, micro_batches: int, features: int = 8) -> float:
    """Largest relative difference, in outputs and the gradient of a map's weight, between `micro_batches` passes whose
    gradients add up and one pass that takes the statistics of each group of samples apart (ghost BatchNorm)."""
    x, upstream = sample(seed, 64, features), sample(seed + 1, 64, features)
    split, ghost = (nn.Parameter(sample(seed + 2, features, features)) for _ in range(2))
    layer = norm(features).double().train()
    found = []
    for part, gradient in zip(x.chunk(micro_batches), upstream.chunk(micro_batches), strict=True):
        found.append(layer(part @ split.T))
        (found[-1] * gradient).sum().backward()
    h = (x @ ghost.T).unflatten(0, (micro_batches, -1))  # (k, N / k, C)
    std = (h.var(1, correction=0, keepdim=True) + vars(layer)["eps"]).sqrt()
    y = ((h - h.mean(1, keepdim=True)) / std).flatten(0, 1)
    (y * upstream).sum().backward()
    pairs = ((torch.cat(found), y), (gradient_of(split), gradient_of(ghost)))
    return max(apart(a.detach(), b.detach()) / apart(b.detach()) for a, b in pairs)
