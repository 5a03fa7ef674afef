"""A/A comparisons of networks that were really trained: the same norm in both arms, different seeds."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from tables import table_of
from torch import nn

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.one_setting import judge_one_setting
from normexp.claims.pages.error_rates import most_errors
from normexp.models import MLP
from normexp.norms import BatchNorm

COMPARISONS, SEEDS, STEPS, BATCH = 40, 5, 40, 64


def accuracy_of_run(seed: int, x: torch.Tensor, y: torch.Tensor) -> float:
    """Accuracy on 360 digits after 40 steps on the others."""
    torch.manual_seed(seed)
    network = MLP((1, 8, 8), 10, BatchNorm, depth=2, width=32)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for rows in torch.randperm(1437).repeat(2)[: STEPS * BATCH].split(BATCH):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x[rows]), y[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        return float((network.eval()(x[1437:]).argmax(1) == y[1437:]).double().mean())


@pytest.mark.slow
def test_equal_arms_of_real_runs_are_called_different_in_at_most_five_percent():
    digits = load_digits()
    x = torch.from_numpy(digits.images).float().unsqueeze(1) / 16  # (N, 1, 8, 8)
    y = torch.from_numpy(digits.target)
    values = np.array([accuracy_of_run(seed, x, y) for seed in range(2 * SEEDS * COMPARISONS)])
    assert len(set(values)) > 20  # seeds do differ
    pairs = values.reshape(COMPARISONS, 2, SEEDS)
    comparison = Comparison(kind="different", arm="a", baseline="b")
    errors = sum(
        judge_one_setting(table_of({"a": a, "b": b}), [comparison])[0].verdict == "supported"
        for a, b in pairs
    )
    assert errors <= most_errors(COMPARISONS) == 4
