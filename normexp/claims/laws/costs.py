"""The time that a statistic costs. Only these laws are not deterministic, so repeat them, with one thread."""

import timeit
from collections.abc import Callable

import torch
from torch import nn

from normexp.claims.laws.common import NormFactory, sample


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Shortest of several timings, which other processes disturbed least."""
    work()  # the first call also fills caches and allocates memory
    return min(timeit.repeat(work, number=1, repeat=repeats))


def variance_seconds(*, seed: int, correction: int) -> float:
    """Seconds of torch.var over the last axis of (512, 768)."""
    x = sample(seed, 512, 768).float()
    return seconds(lambda: x.var(1, correction=correction), repeats=20)


def population_over_step(norm: NormFactory, *, seed: int, rows: int = 10_000, batch_size: int = 60) -> float:
    """Time to recompute the statistics of a training set (a forward pass over `rows`) divided by the time of one
    training step on a batch, for a network with one hidden layer of 100."""
    model = nn.Sequential(nn.Linear(64, 100), norm(100), nn.Sigmoid(), nn.Linear(100, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = sample(seed, rows, 64).float()

    def step() -> None:
        optimizer.zero_grad()
        model(data[:batch_size]).square().mean().backward()
        optimizer.step()

    with torch.no_grad():
        whole = seconds(lambda: model(data), repeats=5)
    return whole / seconds(step, repeats=20)
