"""The CIFAR residual network, with and without skip connections, and its scaled form."""

import math

import pytest
import torch
import torch.nn.functional as F
from small_models import model_factory, norm_factory


def resnet(norm="none", input_shape=(3, 32, 32), seed=0, **options):
    torch.manual_seed(seed)
    return model_factory("resnet", **options)(input_shape, 10, norm_factory(norm))


def conv(x, module):
    return F.conv2d(x, module.weight, stride=module.stride, padding=1)


def padded(x, like):
    """He's option A written out: every second pixel if the branch has that, channels of zeros at the end."""
    out = torch.zeros_like(like)
    step = x.shape[2] // like.shape[2]
    out[:, : x.shape[1]] = x[:, :, ::step, ::step]
    return out


@pytest.mark.parametrize(("depth", "millions"), [(20, 0.27), (32, 0.46), (44, 0.66), (56, 0.85), (110, 1.7)])
def test_depth_and_size_match_the_papers_table(depth, millions):
    with torch.device("meta"):
        model = resnet("batchnorm", depth=depth)
    linear = [site.module for site in model.sites() if site.kind == "linear"]
    assert len(linear) == depth
    n, w = (depth - 2) // 6, 16
    weights = 27 * w + 9 * w * w * (2 * n + (2 + 4 * (2 * n - 1)) + (8 + 16 * (2 * n - 1))) + 10 * 4 * w
    assert sum(module.weight.numel() for module in linear) == weights
    assert weights / 1e6 == pytest.approx(millions, rel=0.02)


def usual(x, first, second, skip):
    branch = conv(conv(x.relu(), first).relu(), second)
    return branch + padded(x.relu(), branch) if skip else branch


def scaled(x, first, second, variance):
    branch = conv(conv((x / math.sqrt(variance)).relu(), first).relu(), second)
    return padded(x, branch) + 0.3 * branch


VARIANCES = [1.0, 1 + 0.09, (1 + 0.09) / 2 + 0.09]  # predicted before each block, on average


@pytest.mark.parametrize(
    ("options", "block", "given"),
    [({}, usual, [True] * 3), ({"skip": False}, usual, [False] * 3), ({"alpha": 0.3}, scaled, VARIANCES)],
)
def test_resnet_matches_its_formula(options, block, given):
    model = resnet(input_shape=(1, 8, 8), depth=8, width=4, **options).double()
    images = torch.randn(3, 1, 8, 8, dtype=torch.float64)
    stem, *branches, output = [site.module for site in model.sites() if site.kind == "linear"]
    x = conv(images, stem)
    for first, second, own in zip(branches[::2], branches[1::2], given, strict=True):
        x = block(x, first, second, own)
    assert torch.allclose(model(images), x.relu().mean(dim=(2, 3)) @ output.weight.T, atol=1e-12)


def test_removing_the_skip_connections_keeps_weights_and_sites():
    with_skip, without = resnet(depth=8), resnet(depth=8, skip=False)
    assert all(torch.equal(a, b) for a, b in zip(with_skip.parameters(), without.parameters(), strict=True))
    names = [[(site.layer, site.kind) for site in model.sites()] for model in (with_skip, without)]
    assert names[0] == names[1]
