"""The multilayer perceptron and what it shares with the CNN: layers, initialization."""

import math

import pytest
import torch
from small_models import model_factory, norm_factory, small_batch
from torch import nn

from normexp.models.layers import initialized


def mlp(norm="none", input_shape=(1, 8, 8), **options):
    torch.manual_seed(0)
    return model_factory("mlp", **options)(input_shape, 10, norm_factory(norm))


@pytest.mark.parametrize("norm_output", [False, True])
@pytest.mark.parametrize("norm_position", ["pre_activation", "post_activation"])
def test_mlp_matches_its_formula(norm_position, norm_output):
    options = {"depth": 2, "width": 12, "activation": "tanh", "norm_output": norm_output}
    model = mlp("layernorm", norm_position=norm_position, **options).double()
    images = small_batch("mlp")[0].double()

    def normalized(x):
        centred = x - x.mean(1, keepdim=True)
        return centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()

    x = images.flatten(1)
    *hidden, output = [site.module for site in model.sites() if site.kind == "linear"]
    for linear in hidden:
        x = x @ linear.weight.T
        x = normalized(x).tanh() if norm_position == "pre_activation" else normalized(x.tanh())
    logits = x @ output.weight.T
    assert torch.allclose(model(images), normalized(logits) if norm_output else logits, atol=1e-12)


@pytest.mark.parametrize("module", [nn.Linear(300, 500), nn.Conv2d(40, 60, 3)], ids=["dense", "convolution"])
@pytest.mark.parametrize("initialization", ["he", "xavier", "small_gaussian"])
def test_initialization_has_the_variance_of_its_paper(initialization, module):
    torch.manual_seed(0)
    kernel = math.prod(module.weight.shape[2:])
    fan_out, fan_in = (n * kernel for n in module.weight.shape[:2])
    variance = {"he": 2 / fan_in, "xavier": 2 / (fan_in + fan_out), "small_gaussian": 0.1**2}[initialization]
    weight = initialized(module, initialization).weight.detach().double()
    n = weight.numel()
    assert weight.mean().abs() < 4 * math.sqrt(variance / n)
    assert weight.var().item() / variance == pytest.approx(1, abs=4 * math.sqrt(2 / n))


@pytest.mark.parametrize("fan_out", [10, 80])
def test_orthogonal_initialization_has_orthonormal_rows_or_columns(fan_out):
    weight = initialized(nn.Linear(30, fan_out), "orthogonal").weight.double()
    gram = weight @ weight.T if fan_out < 30 else weight.T @ weight
    assert torch.allclose(gram, torch.eye(len(gram), dtype=torch.float64), atol=1e-5)
