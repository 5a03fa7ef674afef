"""Gradient growth at initialization, out of the monitor, against mean-field theory (Yang et al. 2019)."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normexp.models import MLP
from normexp.monitors import Gradients
from normexp.norms import BatchNorm, Identity


class Loss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def training_step(self, batch):
        return F.cross_entropy(self.model(batch[0]), batch[1])


def growth(activation, *, batch, width, depth, norm=BatchNorm, seeds=2, side=8):
    """Mean over seeds of the factor of the squared gradient norm per layer, fitted over all hidden layers."""
    rates = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        model = MLP((1, side, side), 10, norm, depth=depth, width=width, activation=activation).double()
        x, y = torch.randn(batch, 1, side, side, dtype=torch.float64), torch.randint(10, (batch,))
        values = Gradients(every_n_steps=1).measure(Loss(model), (x, y))
        rates.append(values["gradient_growth_rate/activation"])
    return sum(rates) / seeds


def test_linear_batchnorm_explodes_by_the_batch_size():
    """(B - 2) / (B - 3) for a batch of B."""
    assert growth("identity", batch=8, width=256, depth=30) == pytest.approx(6 / 5, rel=0.02)


@pytest.mark.slow
def test_relu_batchnorm_explodes_by_pi_over_pi_minus_one():
    assert growth("relu", batch=256, width=512, depth=40) == pytest.approx(math.pi / (math.pi - 1), rel=0.015)


def test_without_a_norm_sigmoid_vanishes_and_relu_keeps_its_gradients():
    """The squared norm per layer of a sigmoid network, E[sigma'^2] times the weights' scale of 2 / width per unit."""
    relu = growth("relu", batch=64, width=256, depth=20, norm=Identity)
    assert relu == pytest.approx(1, abs=0.05)
    assert growth("sigmoid", batch=64, width=256, depth=10, norm=Identity) < 0.2
