"""Weight standardization and weight normalization of linear maps and convolutions."""

import copy
import math

import pytest
import torch
from norms.layers import values
from refusals import refused
from torch import nn
from torch.autograd import gradcheck
from torch.func import functional_call

from normexp.norms import WeightNormalization, WeightStandardization


def modules():
    torch.manual_seed(0)
    return {"linear": nn.Linear(6, 4).double(), "conv": nn.Conv2d(3, 4, 2).double()}


KINDS = ["linear", "conv"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
def test_weight_standardization_equals_a_loop(kind, scaled):
    plain = modules()[kind]
    original = plain.weight.detach().clone()
    module = WeightStandardization(eps=1e-5, scaled=scaled)(copy.deepcopy(plain))
    gains = torch.linspace(0.5, 2, 4, dtype=torch.float64)
    if scaled:
        module.parametrizations.weight[0].gain.data.copy_(gains)
    for k, row in enumerate(original):
        entries = row.flatten().tolist()
        mean = sum(entries) / len(entries)
        std = math.sqrt(sum((v - mean) ** 2 for v in entries) / len(entries) + 1e-5)
        factor = gains[k].item() / math.sqrt(len(entries)) if scaled else 1.0
        torch.testing.assert_close(module.weight[k], (row - mean) / std * factor)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("activation", ["identity", "relu"])
def test_scaled_standardization_keeps_the_variance_of_its_input(kind, activation):
    """Through a ReLU with its gain of Brock et al. 2021."""
    relu = activation == "relu"
    gain = {"gain": math.sqrt(2 / (1 - 1 / math.pi))} if relu else {}
    module = WeightStandardization(scaled=True, **gain)(modules()[kind])
    x = values((4000, 6)) if kind == "linear" else values((1000, 3, 3, 3))
    x = (x - x.mean()) / x.std()
    z = module(x.relu() if relu else x) - module.bias.view(-1, *[1] * (x.dim() - 2))
    assert z.var().item() == pytest.approx(1, abs=0.15)


def test_gain_without_scaled_is_refused():
    with refused("gain=2: plain weight standardization has none"):
        WeightStandardization(gain=2)


@pytest.mark.parametrize("kind", KINDS)
def test_weight_normalization_starts_as_it_was_and_separates_length_from_direction(kind):
    plain = modules()[kind]
    module = WeightNormalization()(copy.deepcopy(plain))
    torch.testing.assert_close(module.weight, plain.weight)
    length, direction = module.parametrizations.weight.original0, module.parametrizations.weight.original1
    assert length.numel() == 4
    with torch.no_grad():
        direction.mul_(7.0)
    torch.testing.assert_close(module.weight, plain.weight)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factory", [WeightStandardization, WeightNormalization])
def test_parametrizations_draw_nothing_return_the_module_and_differentiate(kind, factory):
    module = modules()[kind]
    before, rng = module.weight.detach().clone(), torch.get_rng_state()
    assert factory()(module) is module
    assert torch.equal(rng, torch.get_rng_state())
    assert any(torch.equal(before, p) for p in module.parameters())  # the initialized weight is still there
    x = values((2, 6)) if kind == "linear" else values((2, 3, 3, 3))
    names = [name for name, _ in module.named_parameters()]

    def function(*parameters):
        return functional_call(module, dict(zip(names, parameters, strict=True)), (x,))

    assert gradcheck(function, tuple(p.detach().clone().requires_grad_() for p in module.parameters()))
