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
    """Layers before an activation that knows nothing of axes. `C` channels, of which some are dead, in `at`."""

    def __init__(self, at, *layers):
        super().__init__()
        self.at = at
        self.layers = nn.Sequential(*layers)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.layers(x))


class Do(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def dead(layer, channels=3, of=8):
    """The layer with a shift that keeps some channels below zero."""
    with torch.no_grad():
        layer.bias.copy_(torch.linspace(-0.5, 0.5, of))
        layer.bias[:channels] = -50.0
    return layer


def windows(x):  # (N, H, W, C) -> (windows, places, C), as in Swin
    n, h, w, c = x.shape
    return x.view(n, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


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
        self.weight, self.eps, self.bias = (
            nn.Parameter(torch.ones(size)),
            1e-5,
            nn.Parameter(torch.zeros(size)),
        )

    def forward(self, x):
        return OwnKernel.apply(x) * self.weight + self.bias


# Sizes are equal on purpose: shapes alone tell nothing. `at` is the axis where the twin looks.
SQUARE = (8, 8, 8, 8)
LAYOUTS = {
    "rows": (lambda: Layout(1, nn.Linear(8, 8), dead(nn.BatchNorm1d(8))), (8, 8)),
    "Conv1d, BatchNorm1d": (lambda: Layout(1, nn.Conv1d(8, 8, 1), dead(nn.BatchNorm1d(8))), (8, 8, 8)),
    "Conv2d, GroupNorm": (lambda: Layout(1, nn.Conv2d(8, 8, 1), dead(nn.GroupNorm(2, 8))), SQUARE),
    "Conv3d": (lambda: Layout(1, dead(nn.Conv3d(8, 8, 1))), (8, 8, 2, 2, 2)),
    "tokens": (lambda: Layout(-1, nn.LayerNorm(8), dead(nn.Linear(8, 8))), (8, 8, 8)),
    "channels last, as ConvNeXt": (
        lambda: Layout(
            -1, nn.Conv2d(8, 8, 1), Do(lambda x: x.permute(0, 2, 3, 1)), nn.LayerNorm(8), dead(nn.Linear(8, 8))
        ),
        SQUARE,
    ),
    "channels last without another layer": (
        lambda: Layout(-1, dead(nn.Conv2d(8, 8, 1)), Do(lambda x: x.movedim(1, -1).contiguous())), SQUARE,
    ),
    "back to channels first": (
        lambda: Layout(1, dead(nn.Linear(8, 8)), Do(lambda x: x.permute(0, 3, 1, 2) * 2)), SQUARE,
    ),
    "tokens to Conv1d and back": (
        lambda: Layout(-1, Do(lambda x: x.mT), dead(nn.Conv1d(8, 8, 1)), Do(lambda x: x.transpose(1, 2))), (8, 8, 8),
    ),
    "patches of an image": (
        lambda: Layout(-1, dead(nn.Conv2d(8, 8, 1)), Do(lambda x: x.flatten(2).transpose(1, 2))), SQUARE,
    ),
    "an image of patches": (
        lambda: Layout(1, dead(nn.Linear(8, 8)), Do(lambda x: x.mT.reshape(8, 8, 4, 2))), (8, 8, 8),
    ),
    "a norm of what arrives": (lambda: Layout(-1, dead(nn.LayerNorm(8))), (8, 8, 8)),
    "windows": (lambda: Layout(-1, dead(nn.Linear(8, 8)), Do(windows)), (2, 4, 4, 8)),
    "a residual sum, pooled": (
        lambda: Layout(1, Residual(nn.Conv2d(8, 8, 1)), Residual(dead(nn.Conv2d(8, 8, 1))), nn.MaxPool2d(2)), SQUARE,
    ),
    "joined along channels, half of them": (
        lambda: Layout(
            1, dead(nn.Conv1d(8, 8, 1)), Do(lambda x: torch.cat([x, x], 1)), Do(lambda x: x.chunk(2, 1)[1])
        ),
        (8, 8, 8),
    ),
    "a product with a matrix": (
        lambda: Layout(-1, Do(lambda x: x @ torch.eye(8) + torch.linspace(-9, 1, 8))), (8, 8, 8)
    ),
    "a functional convolution": (
        lambda: Layout(1, Do(lambda x: F.conv2d(x, torch.eye(8)[..., None, None], torch.linspace(-9, 1, 8)))), SQUARE,
    ),
    "a norm over positions": (lambda: Layout(1, dead(nn.Conv1d(8, 8, 1)), nn.LayerNorm(8)), (8, 8, 8)),
    "a norm with a kernel of its own": (lambda: Layout(-1, nn.Linear(8, 8), dead(FusedNorm(8))), (8, 8, 8)),
} | {
    f"tokens of {kind.__name__}, {more}": (
        lambda kind=kind, more=more: Layout(
            -1, kind(8, 8, batch_first=True, **more), Do(lambda out: out[0] + torch.linspace(-9, 1, 8))
        ),
        (8, 8, 8),
    )
    for kind, more in ((nn.GRU, {}), (nn.LSTM, {}), (nn.RNN, {}), (nn.RNN, {"nonlinearity": "relu"}))
} | {
    kind.__name__: (lambda kind=kind: Layout(1, dead(kind(8, 8, 1))), (8, 8, *sizes))
    for kind, sizes in ((nn.ConvTranspose1d, [8]), (nn.ConvTranspose2d, [8, 8]), (nn.ConvTranspose3d, [2, 2, 2]))
}  # fmt: skip
UNKNOWN = {
    "heads": (lambda: Layout(0, nn.Linear(8, 8), Do(lambda x: x.unflatten(-1, (2, 4)).transpose(1, 2))), (4, 4, 8)),
    "einsum": (lambda: Layout(0, nn.Conv1d(8, 8, 1), Do(lambda x: torch.einsum("nct->ntc", x))), (8, 8, 8)),
    "weights of attention": (lambda: Layout(0, nn.Linear(8, 8), Do(lambda x: x @ x.mT)), (8, 8, 8)),
    "what arrives": (lambda: Layout(0), (8, 8, 8)),
    "a norm of it over two axes": (lambda: Layout(0, nn.LayerNorm((8, 8))), (8, 8, 8)),
    "channels and places in one": (
        lambda: Layout(0, nn.Conv2d(8, 8, 1), Do(lambda x: x.reshape(8, 1, -1))), SQUARE
    ),
    "two layouts at once": (
        lambda: Layout(0, nn.Conv1d(8, 8, 1), Do(lambda x: x + x.mT)), (8, 8, 8),
    ),
    "the mean of channels": (
        lambda: Layout(0, nn.Conv1d(8, 8, 1), Do(lambda x: x.mean(1, keepdim=True))), (8, 8, 8),
    ),
} | {
    name: (lambda function=function: Layout(0, nn.Conv1d(8, 8, 1), Do(function)), (8, 8, 8))
    for name, function in {
        "transpose_": lambda x: x.clone().transpose_(1, 2), "swapaxes_": lambda x: x.clone().swapaxes_(1, 2),
        "swapdims_": lambda x: x.clone().swapdims_(1, 2), "bmm": lambda x: torch.bmm(torch.ones_like(x), x),
        "baddbmm": lambda x: torch.baddbmm(x, torch.ones_like(x), x),
        "tensordot": lambda x: torch.tensordot(x, torch.eye(8), 1),
        "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    }.items()
}  # fmt: skip


def measured(make, shape, functional):
    torch.manual_seed(0)
    net = make()
    if functional:
        del net.act
        net.act = torch.relu
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    monitor = Activations(
        every_n_steps=1, places=["activation", "preactivation"], statistics=["mean", *STATISTICS]
    )
    found = monitor.measure(Step(net), x)
    with torch.no_grad():
        before = net.layers(x)
    return net, before, {tag.split("/")[0]: value for tag, value in found.items()}


@pytest.mark.parametrize("functional", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_statistics_of_channels_equal_hooks_of_our_own(layout, functional):
    net, before, found = measured(*LAYOUTS[layout], functional)
    for place, x in (("preactivation", before), ("activation", before.relu())):
        channels = x.movedim(net.at, 0).flatten(1).double()
        assert found[f"{place}_channel_spread"] == pytest.approx(
            (channels.mean(1).std(correction=0) / channels.std(correction=0)).item(), rel=1e-3, abs=1e-5
        )
        assert found[f"{place}_l2_norm"] == pytest.approx(channels.norm(dim=0).mean().item(), rel=1e-5)
        assert found[f"{place}_mean"] == pytest.approx(x.mean().item(), rel=1e-3, abs=1e-6)
    dead_channels = (before.movedim(net.at, 0).flatten(1) <= 0).all(1)
    assert found["dead_fraction"] == pytest.approx(dead_channels.float().mean().item())


def test_the_layouts_tell_axes_apart():
    """In most, another axis would give another number."""
    told = 0
    for make, shape in LAYOUTS.values():
        net, before, found = measured(make, shape, False)
        others = set(range(before.ndim)) - {net.at % before.ndim}
        wrong = [(before.movedim(at, 0).flatten(1) <= 0).all(1).float().mean().item() for at in others]
        told += all(abs(one - found["dead_fraction"]) > 0.1 for one in wrong)
    assert told >= 12


@pytest.mark.parametrize("functional", [False, True])
@pytest.mark.parametrize("layout", UNKNOWN)
def test_where_the_axis_is_unknown_statistics_of_channels_are_left_out(layout, functional):
    _, before, found = measured(*UNKNOWN[layout], functional)
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
