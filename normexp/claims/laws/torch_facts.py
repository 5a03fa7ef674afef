"""Facts about torch on which sentences about normalization depend; they use no norm."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from normexp.claims.laws.common import apart, function_of, sample

Form = Literal["two passes", "mean of squares"]


def default_variance(*, seed: int, n: int) -> float:
    """torch.var(x) divided by the variance with n - 1, from its definition; 1 if n - 1 is the default."""
    x = sample(seed, n)
    return float(x.var() / (((x - x.mean()) ** 2).sum() / (n - 1)))


def correction_without_unbiased(*, seed: int, correction: int) -> float:
    """Relative distance between torch.var(correction=c) and the nearer of torch.var(unbiased=False) and
    torch.var(unbiased=True)."""
    x = sample(seed, 10)
    value = x.var(correction=correction)
    both = torch.stack([x.var(unbiased=False), x.var(unbiased=True)])
    return float(((both - value) / value).abs().min())


def expected_variance(*, seed: int, correction: int, n: int, samples: int = 200_000) -> float:
    """Mean variance over many samples of n standard normal values. The population value is 1."""
    return float(sample(seed, samples, n).var(1, correction=correction).mean())


def deviation_error(*, seed: int, correction: int, n: int) -> float:
    """Root mean square error of the standard deviation of n normal values of deviation 1, in closed form.

    With correction=1 its mean is c4 = sqrt(2 / (n - 1)) Gamma(n / 2) / Gamma((n - 1) / 2) and its mean square is 1.
    With correction=0 it is k = sqrt((n - 1) / n) times as large. So the error is sqrt(k^2 - 2 k c4 + 1).
    """
    c4 = math.sqrt(2 / (n - 1)) * math.exp(math.lgamma(n / 2) - math.lgamma((n - 1) / 2))
    k = 1.0 if correction else math.sqrt((n - 1) / n)
    return math.sqrt(k**2 - 2 * k * c4 + 1)


def std_against(*, seed: int, form: Form, mean: float, n: int = 768) -> float:
    """Relative distance between torch.std and a written formula, both in float32: root mean square over 64 rows.

    The values are normal with this mean and a deviation of 1. Two forms of the formula: `two passes` takes the mean,
    then the squared differences from it. `mean of squares` subtracts the square of the mean from the mean of squares.
    """
    x = (sample(seed, 64, n) + mean).float()
    if form == "two passes":
        written = (x - x.mean(1, keepdim=True)).square().sum(1).div(n - 1).sqrt()
    else:
        written = (x.square().mean(1) - x.mean(1).square()).clamp_min(0).mul(n / (n - 1)).sqrt()
    return float((written / x.std(1) - 1).square().mean().sqrt())


def parameter_of(*, seed: int, dtype: str) -> float:
    """1 if torch.nn.Parameter takes a tensor of this type, 0 if it raises."""
    try:
        nn.Parameter(torch.zeros(3, dtype=getattr(torch, dtype)))
    except RuntimeError:
        return 0.0
    return 1.0


def document_statistic(*, seed: int, statistic: str) -> float:
    """One of the numbers in document 004, which are statistics of [[1, 2], [3, 4]]."""
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    columns, row = x.mean(0), x[0]
    statistics = {
        "mean": x.mean(),
        "mean of column 1": columns[0],
        "mean of column 2": columns[1],
        "std": x.std(),
        "std of row 1": row.std(),
        "biased std of row 1": row.std(correction=0),
    }
    return statistics[statistic].item()


# Document 003: seed 0, randint(0, 10, (2, 3, 4)).
DOCUMENT_INPUT = [
    [[4, 9, 3, 0], [3, 9, 7, 3], [7, 3, 1, 6]],
    [[6, 9, 8, 6], [6, 8, 4, 3], [6, 9, 1, 4]],
]


def document_input(*, seed: int) -> float:
    """Largest difference between torch's randint at seed 0 and the input that document 003 prints."""
    drawn = torch.randint(0, 10, (2, 3, 4), generator=torch.Generator().manual_seed(0))
    return apart(drawn, torch.tensor(DOCUMENT_INPUT))


def document_moment(*, seed: int, which: str) -> float:
    """`mean 1 2`: the mean of row 2 of sample 1 of document 003's input; `std 1`: the biased deviation of sample 1."""
    name, *indices = which.split()
    x = torch.tensor(DOCUMENT_INPUT, dtype=torch.float64)[tuple(map(int, indices))]
    return float(x.mean() if name == "mean" else x.std(correction=0))


def with_unbiased_deviation(*, seed: int, value: float, n: int) -> float:
    """A value that was divided by the biased deviation of n values, divided by the unbiased one instead."""
    return value * math.sqrt((n - 1) / n)


def parameter_facts(*, seed: int) -> float:
    """1 if nn.Parameter(a plain tensor) is a Tensor that requires a gradient."""
    parameter = nn.Parameter(torch.zeros(3))
    return float(isinstance(parameter, Tensor) and parameter.requires_grad)


def attribute_after_step(*, seed: int, parameter: bool) -> float:
    """How far an attribute of a module moves in one step of Adam over `module.parameters()`."""
    module = nn.Linear(3, 3).double()
    start = sample(seed, 3)
    module.gain = nn.Parameter(start.clone()) if parameter else start.clone().requires_grad_()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    (module(sample(seed + 1, 5, 3)) * module.gain).sum().backward()
    optimizer.step()
    return apart(module.gain.detach(), start)


def activation_at(*, seed: int, function: str, at: float = 100.0) -> float:
    """max(|f(at)|, |f(-at)|). It stays small if the activation is bounded."""
    return apart(function_of(function)(torch.tensor([at, -at], dtype=torch.float64)))


def flat_share(*, seed: int, function: str, slope: float = 0.01, scale: float = 1.0) -> float:
    """Share of normal inputs of deviation `scale` at which |f'| is below `slope`."""
    x = (scale * sample(seed, 100_000)).requires_grad_()
    (found,) = torch.autograd.grad(function_of(function)(x).sum(), x)
    return float((found.abs() < slope).double().mean())
