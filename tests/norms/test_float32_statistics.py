"""Given bfloat16 under autocast, every choice in configs/norm computes its statistics in float32.

The inputs have a mean of 96 deviations. A mean or a variance that was rounded to bfloat16 (8 bits) would move the
outputs by a tenth of a deviation and more. With statistics of float32, an output differs from that of the same layer in
float64 by rounding the output alone.
"""

import copy

import pytest
import torch
from norms.layers import CASES, LAYOUTS, norm_factory

HALF_ULP = 2.0**-8  # largest relative error of rounding to bfloat16
SHAPES = {"dense": (32, 8), "image": (6, 8, 7, 5), "tokens": (4, 16, 8)}


def far_from_zero(layout: str) -> torch.Tensor:
    """Values of mean 96 and deviation 1 that bfloat16 holds exactly: whole numbers of halves."""
    noise = torch.randn(SHAPES[layout], generator=torch.Generator().manual_seed(3))
    return 96 + (2 * noise).round() / 2


def under_autocast(name: str, layout: str) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    layer, x = norm_factory(name)(8, LAYOUTS[layout][1]), far_from_zero(layout)
    assert torch.equal(x.bfloat16().float(), x)  # so that both layers get the same numbers
    twin = copy.deepcopy(layer).double()
    expected = twin(x.double())
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x.bfloat16())
    for (key, found), wanted in zip(layer.named_buffers(), twin.buffers(), strict=True):
        assert found.dtype != torch.bfloat16
        torch.testing.assert_close(found.double(), wanted.double(), rtol=2e-5, atol=1e-5, msg=key)
    return layer, y, expected


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_outputs_lose_no_more_than_their_own_rounding(name, layout):
    _, y, expected = under_autocast(name, layout)
    assert y.dtype == torch.bfloat16
    bound = 2 * HALF_ULP * expected.abs().max()  # batchnorm_noisy rounds before its noise, and after it
    assert (y.double() - expected).abs().max() <= bound


def test_statistics_in_bfloat16_would_be_seen():
    """The bound of the test above is narrow enough: a layer with bfloat16 statistics breaks it."""
    x = far_from_zero("dense")
    rounded = x.bfloat16()
    mean = rounded.mean(0)
    wrong = (rounded - mean) * torch.rsqrt((rounded - mean).square().mean(0) + 1e-5)
    right = (x - x.mean(0)) * torch.rsqrt(x.var(0, correction=0) + 1e-5)
    assert (wrong.float() - right).abs().max() > 3 * 2 * HALF_ULP * right.abs().max()
