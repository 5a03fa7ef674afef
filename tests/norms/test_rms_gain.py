"""RMSNorm's forms of the gain, where half precision is rounded, and layers that know their site."""

import pytest
import torch
from norms.layers import outcome, sample, values
from refusals import refused
from torch import nn

from normexp.models import GPT
from normexp.norms import RMSNorm, norm_named, swap

HALF = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("rounding", ["after_gain", "before_gain"])
@pytest.mark.parametrize("gain", ["vector", "scalar", "one_plus"])
@pytest.mark.parametrize("channel_dim", [1, -1])
def test_rounding_is_where_it_says(gain, rounding, dtype, channel_dim):
    """Against float64, rounded once or twice. float32 in between may move a value that lies between two numbers."""
    layer = RMSNorm(64, channel_dim, eps=1e-6, gain=gain, rounding=rounding).to(dtype)
    layer.weight.data.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(0))
    x = values((32, 64) if channel_dim == 1 else (4, 8, 64), dtype=dtype)
    w = layer.weight.detach().double() + (gain == "one_plus")
    divided = x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-6).sqrt()
    twins = {"after_gain": (divided * w).to(dtype), "before_gain": (divided.to(dtype).double() * w).to(dtype)}
    for native in (True, False):
        layer.native = native
        y = layer(x)
        equal = {name: (y == twin).float().mean().item() for name, twin in twins.items()}
        assert equal[rounding] > 0.995
        assert min(equal.values()) < 0.9


def test_rounding_makes_no_difference_without_half_precision():
    for dtype in (torch.float32, torch.float64):
        layers = [RMSNorm(8, rounding=rounding).to(dtype) for rounding in ("after_gain", "before_gain")]
        a, b = (outcome(layer, sample("image", dtype=dtype)) for layer in layers)
        assert all(torch.equal(a[key], b[key]) for key in a)


def test_no_gain_leaves_no_parameter_and_one_plus_starts_as_a_gain_of_one():
    assert not list(RMSNorm(8, gain="none").parameters())
    x = sample("dense")
    assert torch.equal(RMSNorm(8, gain="one_plus").double()(x), RMSNorm(8).double()(x))
    assert RMSNorm(8, gain="scalar").weight.shape == (1,)
    for option in ({"gain": "matrix"}, {"rounding": "never"}):
        with refused(r"unknown; use one of"):
            RMSNorm(8, **option)


@pytest.mark.parametrize("name", ["rmsnorm", "rmsnorm_one_plus"])
def test_a_swap_carries_the_gain_in_either_form(name):
    net = nn.Sequential(nn.RMSNorm(8, eps=1e-5)).double()
    net[0].weight.data.copy_(torch.linspace(0.5, 2, 8))
    x = sample("dense")
    before = net(x)
    swap(net, name)
    torch.testing.assert_close(net(x), before)
    swap(net, "rmsnorm")
    torch.testing.assert_close(net(x), before)


@pytest.mark.parametrize("name", ["dyt", "derf"])
def test_alpha_starts_by_the_site_of_a_language_model(name):
    norm = norm_named(name, alpha=0.2, alpha_attention=0.8, alpha_final=0.4)
    model = GPT((6,), 11, norm, depth=1, width=8, heads=2, norm_position="sandwich", qk_norm=True)
    found = {site.layer: round(site.module.alpha.item(), 3) for site in model.sites() if site.kind == "norm"}
    assert found == {
        "layer01_attention": 0.8, "layer01_attention_key": 0.8, "layer01_attention_query": 0.8,
        "layer01_attention_sandwich": 0.8, "layer01_mlp": 0.2, "layer01_mlp_sandwich": 0.2, "layer02_output": 0.4,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("width", "attention", "elsewhere"),
    [(64, 1.0, 1.0), (768, 1.0, 1.0), (4096, 0.8, 0.2), (8192, 0.2, 0.05)],
)
def test_alpha_by_width_is_that_of_published_language_models(width, attention, elsewhere):
    for site, expected in (("layer01_attention", attention), ("layer01_mlp", elsewhere)):
        layer = norm_named("dyt", alpha="by_width")(width)
        layer.place(site)
        assert layer.alpha.item() == pytest.approx(expected)
