"""The CIFAR residual network, with and without skip connections, and its scaled form."""

import math

import pytest
import torch
import torch.nn.functional as F
from small_models import model_factory, norm_factory
from torch import nn
from torch.nn.utils import parametrize


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


@pytest.mark.parametrize("skip", [True, False])
def test_resnet_matches_its_formula(skip):
    model = resnet(input_shape=(1, 8, 8), depth=8, width=4, skip=skip).double()
    images = torch.randn(3, 1, 8, 8, dtype=torch.float64)
    stem, *branches, output = [site.module for site in model.sites() if site.kind == "linear"]
    x = conv(images, stem).relu()
    for first, second in zip(branches[::2], branches[1::2], strict=True):
        branch = conv(conv(x, first).relu(), second)
        x = (branch + padded(x, branch)).relu() if skip else branch.relu()
    assert torch.allclose(model(images), x.mean(dim=(2, 3)) @ output.weight.T, atol=1e-12)


def test_scaled_resnet_matches_its_formula():
    model = resnet(input_shape=(1, 8, 8), depth=8, width=4, alpha=0.3).double()
    images = torch.randn(3, 1, 8, 8, dtype=torch.float64)
    stem, *branches, output = [site.module for site in model.sites() if site.kind == "linear"]
    x = conv(images, stem)
    predicted = [1.0, 1 + 0.09, (1 + 0.09) / 2 + 0.09]  # the average variance before each block
    for first, second, variance in zip(branches[::2], branches[1::2], predicted, strict=True):
        branch = conv(conv((x / math.sqrt(variance)).relu(), first).relu(), second)
        x = padded(x, branch) + 0.3 * branch
    assert torch.allclose(model(images), x.relu().mean(dim=(2, 3)) @ output.weight.T, atol=1e-12)


class StandardizedWeight(nn.Module):
    """Scaled weight standardization with the gain that makes the variance of relu(N(0, 1)) 1 (Brock et al. 2021)."""

    def forward(self, weight):
        rows = weight.flatten(1)
        rows = (rows - rows.mean(1, keepdim=True)) / rows.std(1, correction=0, keepdim=True)
        return rows.view_as(weight) * math.sqrt(2 / (1 - 1 / math.pi) / rows.shape[1])


def standardized(module):
    return parametrize.register_parametrization(module, "weight", StandardizedWeight())


@pytest.mark.integration
@pytest.mark.parametrize("weight_norm", [None, standardized], ids=["he", "scaled_weight_standardization"])
def test_scaled_residual_stream_has_its_predicted_variance_at_initialization(weight_norm):
    measured = []
    for seed in range(16):
        squares = []
        model = resnet("none", (3, 8, 8), seed, depth=14, width=32, alpha=1.0, weight_norm=weight_norm)
        for site in model.sites():
            if site.kind == "linear" and isinstance(site.module, nn.Conv2d):
                site.module.padding_mode = "circular"  # zeros at the border would take some variance away
            if site.kind == "residual":
                site.module.register_forward_hook(
                    lambda m, i, x, squares=squares: squares.append(x.square().mean())
                )
        with torch.no_grad():
            model(torch.randn(4, 3, 8, 8))
        measured.append(torch.stack(squares) / squares[0])
    # each block adds alpha^2 = 1; where channels double, half of them are zeros first
    expected = [1, 2, 3, 2.5, 3.5, 2.75, 3.75]
    assert torch.stack(measured).mean(0).tolist() == pytest.approx(expected, rel=0.15)


def test_removing_the_skip_connections_keeps_weights_and_sites():
    with_skip, without = resnet(depth=8), resnet(depth=8, skip=False)
    assert all(torch.equal(a, b) for a, b in zip(with_skip.parameters(), without.parameters(), strict=True))
    names = [[(site.layer, site.kind) for site in model.sites()] for model in (with_skip, without)]
    assert names[0] == names[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 18}, r"depth=18: must be 6n \+ 2; use 8, 14, 20"),
        ({"depth": 2}, r"depth=2: must be 6n \+ 2"),
        ({"width": 0}, "width=0: too small; use 1 or more"),
        ({"alpha": 0.0}, "alpha=0.0: must be positive; use 0.2"),
        (
            {"alpha": 0.2, "skip": False},
            "alpha=0.2: scales what is added to a skip connection; set skip=true",
        ),
    ],
)
def test_bad_option_is_refused_in_one_line(options, message):
    with pytest.raises(ValueError, match=message) as refusal:
        resnet(**options)
    assert "\n" not in str(refusal.value)
