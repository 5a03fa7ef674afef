"""Losses that tell nothing of single layers: what rests on them is not checked, and no norm is blamed."""

import pytest
import torch
from torch import nn

import normexp

X, Y = torch.randn(32, 8, generator=torch.manual_seed(0)), torch.arange(32) % 4


def network(norm: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), norm, nn.ReLU(), nn.Linear(16, 4))


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda output, _: output.sum() * float("nan"), "gradients that are no numbers"),
        (lambda output, _: (output * 0).sum(), "gradients of 0"),
        (lambda output, _: output.detach().sum().requires_grad_(), "no gradient"),
    ],
    ids=["nan", "zero", "apart"],
)
def test_a_loss_without_gradients_is_said_and_no_norm_blamed(loss, said):
    net = network(nn.BatchNorm1d(16))
    net(X)  # running statistics that have seen a batch
    result = normexp.check(net, (X, Y), loss=loss)
    assert {"nothing_learns", "bias_cancelled"} <= {*result.not_checked}
    assert said in result.not_checked["nothing_learns"]
    assert "nothing_learns" not in result
    assert "mode_gap" not in result


def test_a_network_whose_parameters_are_frozen_is_said():
    result = normexp.check(network(nn.LayerNorm(16)).requires_grad_(False), (X, Y))
    assert "no parameter is trained" in result.not_checked["nothing_learns"]


def test_spectral_norm_is_no_norm_of_activations():
    net = network(nn.LayerNorm(16))
    net[3] = nn.utils.parametrizations.spectral_norm(net[3])
    norms = normexp.check(net, (X, Y)).norms
    assert "LayerNorm" in str(norms)
    assert "normalize" not in str(norms)
