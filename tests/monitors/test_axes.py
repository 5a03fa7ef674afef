"""Statistics of channels know where the channels are: hooks of our own as twins, in many layouts."""

import pytest
import torch
from test_listen import Step
from torch import nn
from torch.nn import functional as F

from normexp.monitors import Activations, Representation
from normexp.monitors.sites import channel_axis, channel_dim

STATISTICS = ("dead_fraction", "channel_spread", "l2_norm")


class Layout(nn.Module):
    """Layers before an activation that knows nothing of axes."""

    def __init__(self, layers, functional):
        super().__init__()
        self.layers, self.act = nn.Sequential(*layers), torch.relu if functional else nn.ReLU()

    def forward(self, x):
        return self.act(self.layers(x))


class Do(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def dead(layer):
    """The layer with a shift that keeps three of eight channels below zero."""
    with torch.no_grad():
        layer.bias.copy_(torch.linspace(-0.5, 0.5, 8))
        layer.bias[:3] = -50.0
    return layer


def linear():
    return dead(nn.Linear(8, 8))


def conv1d():
    return dead(nn.Conv1d(8, 8, 1))


def conv2d():
    return dead(nn.Conv2d(8, 8, 1))


def windows(x):  # (N, H, W, C) -> (windows, places, C), as in Swin
    n, h, w, c = x.shape
    return x.view(n, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)


class OwnKernel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x / x.norm(dim=-1, keepdim=True)

    @staticmethod
    def backward(ctx, g):
        return g


class FusedNorm(nn.Module):
    """A norm with a kernel that torch's functions do not show."""

    def __init__(self, size):
        super().__init__()
        self.eps, self.weight = 1e-5, nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return OwnKernel.apply(x) * self.weight + self.bias


ROWS, TOKENS, IMAGES, VOLUMES = (8, 8), (8, 8, 8), (8, 8, 8, 8), (8, 8, 2, 2, 2)
RAMP, EYE = torch.linspace(-9, 1, 8), torch.eye(8)
# The axis at which the twin looks, the shape of the input, the layers. Sizes are equal: shapes alone tell nothing.
LAYOUTS = {
    "rows": (1, ROWS, lambda: [nn.Linear(8, 8), dead(nn.BatchNorm1d(8))]),
    "Conv1d, BatchNorm1d": (1, TOKENS, lambda: [nn.Conv1d(8, 8, 1), dead(nn.BatchNorm1d(8))]),
    "Conv2d, GroupNorm": (1, IMAGES, lambda: [nn.Conv2d(8, 8, 1), dead(nn.GroupNorm(2, 8))]),
    "Conv3d": (1, VOLUMES, lambda: [dead(nn.Conv3d(8, 8, 1))]),
    "ConvTranspose1d": (1, TOKENS, lambda: [dead(nn.ConvTranspose1d(8, 8, 1))]),
    "ConvTranspose2d": (1, IMAGES, lambda: [dead(nn.ConvTranspose2d(8, 8, 1))]),
    "ConvTranspose3d": (1, VOLUMES, lambda: [dead(nn.ConvTranspose3d(8, 8, 1))]),
    "tokens": (-1, TOKENS, lambda: [nn.LayerNorm(8), linear()]),
    "as ConvNeXt": (-1, IMAGES, lambda: [conv2d(), Do(lambda x: x.permute(0, 2, 3, 1)), nn.LayerNorm(8), linear()]),
    "channels last": (-1, IMAGES, lambda: [conv2d(), Do(lambda x: x.movedim(1, -1).contiguous())]),
    "back to channels first": (1, IMAGES, lambda: [linear(), Do(lambda x: x.permute(0, 3, 1, 2) * 2)]),
    "tokens to Conv1d": (-1, TOKENS, lambda: [Do(lambda x: x.mT), conv1d(), Do(lambda x: x.transpose(1, 2))]),
    "patches of an image": (-1, IMAGES, lambda: [conv2d(), Do(lambda x: x.flatten(2).transpose(1, 2))]),
    "an image of patches": (1, TOKENS, lambda: [linear(), Do(lambda x: x.mT.reshape(8, 8, 4, 2))]),
    "a norm of what arrives": (-1, TOKENS, lambda: [dead(nn.LayerNorm(8))]),
    "windows": (-1, (2, 4, 4, 8), lambda: [linear(), Do(windows)]),
    "a sum, pooled": (1, IMAGES, lambda: [conv2d(), Do(lambda x: x + x.flip(-1)), nn.MaxPool2d(2)]),
    "half of a join": (1, TOKENS, lambda: [conv1d(), Do(lambda x: torch.cat([x, x], 1).chunk(2, 1)[1])]),
    "a product with a matrix": (-1, TOKENS, lambda: [Do(lambda x: x @ EYE + RAMP)]),
    "a function": (1, IMAGES, lambda: [Do(lambda x: F.conv2d(x, EYE[..., None, None], RAMP))]),
    "a norm over positions": (1, TOKENS, lambda: [conv1d(), nn.LayerNorm(8)]),
    "a norm with its own kernel": (-1, TOKENS, lambda: [nn.Linear(8, 8), dead(FusedNorm(8))]),
    **{
        f"{kind.__name__} {more}": (
            -1, TOKENS, lambda kind=kind, more=more: [kind(8, 8, batch_first=True, **more), Do(lambda y: y[0] + RAMP)]
        )
        for kind, more in ((nn.GRU, {}), (nn.LSTM, {}), (nn.RNN, {}), (nn.RNN, {"nonlinearity": "relu"}))
    },
}  # fmt: skip
UNKNOWN = {
    "heads": ((4, 4, 8), lambda: [linear(), Do(lambda x: x.unflatten(-1, (2, 4)).transpose(1, 2))]),
    "weights of attention": (TOKENS, lambda: [linear(), Do(lambda x: x @ x.mT)]),
    "what arrives": (TOKENS, lambda: []),
    "a norm of it over two axes": (TOKENS, lambda: [nn.LayerNorm((8, 8))]),
    "channels and places in one": (IMAGES, lambda: [conv2d(), Do(lambda x: x.reshape(8, 1, -1))]),
    **{
        name: (TOKENS, lambda function=function: [conv1d(), Do(function)])
        for name, function in {
            "two layouts at once": lambda x: x + x.mT, "the mean of channels": lambda x: x.mean(1, keepdim=True),
            "einsum": lambda x: torch.einsum("nct->ntc", x), "transpose_": lambda x: x.clone().transpose_(1, 2),
            "swapaxes_": lambda x: x.clone().swapaxes_(1, 2), "swapdims_": lambda x: x.clone().swapdims_(1, 2),
            "bmm": lambda x: torch.bmm(torch.ones_like(x), x),
            "baddbmm": lambda x: torch.baddbmm(x, torch.ones_like(x), x),
            "tensordot": lambda x: torch.tensordot(x, EYE, 1),
            "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
        }.items()
    },
}  # fmt: skip


def measured(shape, make, functional):
    torch.manual_seed(0)
    net = Layout(make(), functional)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    places = ["activation", "preactivation"]
    found = Activations(every_n_steps=1, places=places, statistics=["mean", *STATISTICS]).measure(
        Step(net), x
    )
    with torch.no_grad():
        before = net.layers(x)
    return before, {tag.split("/")[0]: value for tag, value in found.items()}


@pytest.mark.parametrize("functional", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_statistics_of_channels_equal_hooks_of_our_own(layout, functional):
    at, shape, make = LAYOUTS[layout]
    before, found = measured(shape, make, functional)
    for place, x in (("preactivation", before), ("activation", before.relu())):
        channels = x.movedim(at, 0).flatten(1).double()
        spread = (channels.mean(1).std(correction=0) / channels.std(correction=0)).item()
        assert found[f"{place}_channel_spread"] == pytest.approx(spread, rel=1e-3, abs=1e-5)
        assert found[f"{place}_l2_norm"] == pytest.approx(channels.norm(dim=0).mean().item(), rel=1e-5)
        assert found[f"{place}_mean"] == pytest.approx(x.mean().item(), rel=1e-3, abs=1e-6)
    dead_channels = (before.movedim(at, 0).flatten(1) <= 0).all(1)
    assert found["dead_fraction"] == pytest.approx(dead_channels.float().mean().item())


@pytest.mark.parametrize("functional", [False, True])
@pytest.mark.parametrize("layout", UNKNOWN)
def test_where_the_axis_is_unknown_statistics_of_channels_are_left_out(layout, functional):
    before, found = measured(*UNKNOWN[layout], functional)
    assert found.keys() == {"activation_mean", "preactivation_mean"}
    assert found["preactivation_mean"] == pytest.approx(before.mean().item(), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(("layer", "vectors"), [(nn.Conv1d(6, 6, 1), 4), (nn.Linear(5, 5), 4 * 6)])
def test_vectors_are_tokens_or_whole_maps(layer, vectors):
    monitor = Representation(every_n_steps=1)
    seen = []
    monitor._vectors = lambda *given: seen.append(Representation._vectors(monitor, *given)) or seen[-1]
    monitor.measure(Step(nn.Sequential(layer, nn.ReLU())), torch.randn(4, 6, 5))
    assert [len(rows) for rows in seen] == [vectors]


def test_channels_at_a_norm_over_positions_are_those_of_the_layer_before():
    net, x = nn.Sequential(nn.Conv1d(8, 8, 1), nn.LayerNorm(8)), torch.randn(8, 8, 8)
    found = Activations(every_n_steps=1, places=["norm_input"], statistics=["l2_norm"]).measure(Step(net), x)
    assert list(found.values()) == [pytest.approx(net[0](x).norm(dim=1).mean().item(), rel=1e-5)]


def test_nothing_is_known_of_a_tensor_that_was_not_followed():
    assert channel_axis(torch.randn(2, 3, 4)) is None
    assert channel_axis(torch.randn(2, 3)) == -1


def test_a_norm_of_images_by_its_name_has_channels_first_there_alone():
    of_images = type("LayerNorm2d", (nn.LayerNorm,), {})(8)
    assert [channel_dim(of_images, ndim) for ndim in (2, 3, 4)] == [-1, -1, 1]
    assert [channel_dim(nn.LayerNorm(8), ndim) for ndim in (2, 3, 4)] == [-1, -1, -1]
    assert [channel_dim(nn.ReLU(), ndim) for ndim in (2, 3, 4)] == [1, -1, 1]
