"""Slow twins, written from the papers' equations with loops over samples, channels and values; nothing of the package.

Each takes a list-like x in float64 and returns y of the same shape; gradients come from autograd through the loops.
"""

import itertools
import math

import torch


def over(indices):
    """mean, biased variance and count of the values."""
    n = len(indices)
    mean = sum(indices) / n
    return mean, sum((value - mean) ** 2 for value in indices) / n, n


def sites(x, kind, groups=1):
    """Lists of positions of x (N, C, P) that share statistics. Every position is in one list."""
    samples, channels, places = x.shape
    size = channels // groups
    if kind == "batch":
        return [[(i, c, p) for i in range(samples) for p in range(places)] for c in range(channels)]
    if kind == "channels":
        return [[(i, c, p) for c in range(channels)] for i in range(samples) for p in range(places)]
    members = [range(g * size, (g + 1) * size) for g in range(groups)]
    return [[(i, c, p) for c in own for p in range(places)] for i in range(samples) for own in members]


def normalized(x, kind, *, eps, correction=0, outside=False, groups=1, spread=None, detach=""):
    """(x - mean) / sqrt(var + eps), or / (std + eps); `spread` replaces the standard deviation."""
    y = torch.empty_like(x)
    for positions in sites(x, kind, groups):
        values = [x[position] for position in positions]
        mean, var, n = over(values)
        var = var * n / (n - correction)
        if spread is not None:
            var = spread([value - mean for value in values]) ** 2
        mean = mean.detach() if "mean" in detach else mean
        var = var.detach() if "std" in detach else var
        divisor = var.sqrt() + eps if outside else (var + eps).sqrt()
        for position, value in zip(positions, values, strict=True):
            y[position] = (value - mean) / divisor
    return y


def running_after(batches, mean, var, *, keep, correction=1, spread=None, groups=1):
    """Running mean and variance (C) once they have seen the batches, each (N, C, P), from where they start."""
    mean, var = mean.clone(), var.clone()
    for x in batches:
        for c in range(x.shape[1]):
            means, variances = [], []
            for group in x.chunk(groups):
                values = [group[i, c, p] for i in range(group.shape[0]) for p in range(group.shape[2])]
                group_mean, group_var, n = over(values)
                means.append(group_mean)
                if spread is None:
                    variances.append(group_var * n / (n - correction))
                else:
                    variances.append(spread([value - group_mean for value in values]) ** 2)
            mean[c] = keep * mean[c] + (1 - keep) * sum(means) / groups
            var[c] = keep * var[c] + (1 - keep) * sum(variances) / groups
    return mean, var


def with_population(x, mean, var, *, eps, outside=False):
    """What a batch norm computes in eval mode, from its running mean and variance (C)."""
    y = torch.empty_like(x)
    for i, c, p in itertools.product(*(range(size) for size in x.shape)):
        divisor = var[c].sqrt() + eps if outside else (var[c] + eps).sqrt()
        y[i, c, p] = (x[i, c, p] - mean[c]) / divisor
    return y


def mean_absolute(centered):
    return math.sqrt(math.pi / 2) * sum(abs(value) for value in centered) / len(centered)


def largest_absolute(centered):
    factor = 0.5 * (1 + math.sqrt(math.pi * math.log(4))) / math.sqrt(2 * math.log(len(centered)))
    return factor * torch.stack([abs(value) for value in centered]).max()


def divided_by_rms(x, *, eps, fraction=1.0):
    y = torch.empty_like(x)
    for i in range(len(x)):
        values = x[i].reshape(-1)
        first = values[: int(len(values) * fraction)]
        y[i] = x[i] / (sum(value**2 for value in first) / len(first) + eps).sqrt()
    return y


def scale_norm(x, gain, *, eps):
    y = torch.empty_like(x)
    for i in range(len(x)):
        y[i] = gain * x[i] / (sum(value**2 for value in x[i].reshape(-1)) + eps * x[i].numel()).sqrt()
    return y * math.sqrt(x.shape[2])


def ada_norm(x, *, eps, k, scale):
    y = normalized(x, "sample", eps=eps)
    return scale * (1 - k * y.detach()) * y


def switchable(x, p, q, kinds, *, eps, population=None):
    """In eval mode `population`, the running mean and variance (C), replaces the statistics of the batch."""
    samples, channels, places = x.shape
    y = torch.empty_like(x)
    for i in range(samples):
        for c in range(channels):
            of = {
                "instance": [x[i, c, u] for u in range(places)],
                "layer": [x[i, d, u] for d in range(channels) for u in range(places)],
                "batch": [x[j, c, u] for j in range(samples) for u in range(places)],
            }
            statistics = {kind: over(values)[:2] for kind, values in of.items()}
            if population is not None:
                statistics["batch"] = [of_channel[c] for of_channel in population]
            moments = [statistics[kind] for kind in kinds]
            mean = sum(weight * m for weight, (m, _) in zip(p, moments, strict=True))
            var = sum(weight * v for weight, (_, v) in zip(q, moments, strict=True))
            for u in range(places):
                y[i, c, u] = (x[i, c, u] - mean) / (var + eps).sqrt()
    return y


def batch_renorm(x, running_mean, running_var, *, eps, r_limit, d_limit):
    y = torch.empty_like(x)
    for c, positions in enumerate(sites(x, "batch")):
        mean, var, _ = over([x[position] for position in positions])
        std, running_std = (var + eps).sqrt(), (running_var[c] + eps).sqrt()
        r = min(max((std / running_std).item(), 1 / r_limit), r_limit)
        d = min(max(((mean - running_mean[c]) / running_std).item(), -d_limit), d_limit)
        for position in positions:
            y[position] = (x[position] - mean) / std * r + d
    return y


class PowerNormReference:
    """Algorithms 1 and 2 of the PowerNorm paper for one layer, step by step, with the gradient they define."""

    def __init__(self, phi, nu, *, eps, keep, gradient_keep):
        self.phi, self.nu, self.eps = phi.clone(), nu.clone(), eps
        self.keep, self.gradient_keep = keep, gradient_keep

    def step(self, x, gradient, warm):
        """z = x / psi and the gradient of x, from the gradient of z; x is (N, C, P)."""
        z, gradient_x = torch.empty_like(x), torch.empty_like(x)
        for c, positions in enumerate(sites(x, "batch")):
            batch = sum(x[position] ** 2 for position in positions) / len(positions)
            psi = ((batch if warm else self.phi[c]) + self.eps) ** 0.5
            self.phi[c] = batch if warm else self.keep * self.phi[c] + (1 - self.keep) * batch
            for position in positions:
                z[position] = x[position] / psi
            gamma = sum(z[position] ** 2 for position in positions) / len(positions)
            inner = sum(gradient[position] * z[position] for position in positions) / len(positions)
            for position in positions:
                gradient_x[position] = (gradient[position] - self.nu[c] * z[position]) / psi
            rest = 1 - self.gradient_keep
            self.nu[c] = self.nu[c] * (1 - rest * gamma) + rest * inner
        return z, gradient_x
