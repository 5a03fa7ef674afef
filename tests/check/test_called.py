"""Norms that are called as functions or written by hand are found by what they compute."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normexp.check.inputs import CheckOptions, as_step
from normexp.check.network import Network
from normexp.check.run import check
from normexp.monitors.batches import Batches

X = torch.randn(16, 5, 8, generator=torch.Generator().manual_seed(0)) * 3 + 1


class Block(nn.Module):
    def __init__(self, function, rows=False):
        super().__init__()
        self.linear, self.output, self.function, self.rows = nn.Linear(8, 8), nn.Linear(8, 3), function, rows

    def forward(self, x):
        return self.output(self.function(self.linear(x)))


def calls_of(function, x=X):
    network = Network(as_step(Block(function), None), Batches(x, x), len(x), x, CheckOptions())
    assert network.attempt.error is None, network.attempt.error
    return network.attempt.calls


def by_hand(x):
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, correction=0) + 1e-5)


NORMS = {
    "layer_norm": (lambda x: F.layer_norm(x, (8,), eps=1e-3), 16 * 5, True, 1e-3),
    "layer_norm over all": (lambda x: F.layer_norm(x, (5, 8)), 16, True, 1e-5),
    "rms_norm": (lambda x: F.rms_norm(x, (8,), eps=1e-6), 16 * 5, False, 1e-6),
    "normalize": (lambda x: F.normalize(x, dim=-1), 16 * 5, False, 0.0),
    "batch_norm": (lambda x: F.batch_norm(x.mT, None, None, training=True).mT, 8, True, 1e-5),
    "group_norm": (lambda x: F.group_norm(x.mT, 4).mT, 16 * 4, True, 1e-5),
    "instance_norm": (lambda x: F.instance_norm(x.mT).mT, 16 * 8, True, 1e-5),
    "rsqrt": (lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-2), 16 * 5, False, 1e-2),
    "power": (lambda x: x * (x * x).mean(-1, keepdim=True).add(1e-2) ** -0.5, 16 * 5, False, 1e-2),
    "root": (lambda x: x / (x.square().mean(-1, keepdim=True) + 1e-2).sqrt(), 16 * 5, False, 1e-2),
    "deviation": (by_hand, 16 * 5, True, 1e-5),
    "std": (lambda x: (x - x.mean(-1, True)) / (x.std(-1, correction=0, keepdim=True) + 1e-6), 80, True, 0.0),
    "std, n - 1": (lambda x: (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + 1e-6), 80, True, 0.0),
    "length": (lambda x: x / x.norm(dim=-1, keepdim=True), 16 * 5, False, 0.0),
    "over the batch": (lambda x: (x - x.mean((0, 1))) / x.var((0, 1), correction=0).add(1e-5).sqrt()[None, None],
                       8, True, 1e-5),
}  # fmt: skip


@pytest.mark.parametrize("name", NORMS)
def test_norm_without_a_layer_is_found(name):
    function, statistics, centers, eps = NORMS[name]
    (call,) = calls_of(function)
    assert len(call.mean) == statistics
    assert call.place.centers == centers
    assert call.place.eps == pytest.approx(eps, abs=2e-5)
    assert call.place.kind == {"batch_norm": "batch", "over the batch": "batch", "group_norm": "group",
                               "instance_norm": "instance"}.get(name, "sample")  # fmt: skip


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 8**-0.5,
        lambda x: x / x.new_tensor([2.0]).sqrt(),
        lambda x: x * torch.sqrt(x.abs()),
        lambda x: torch.softmax(x @ x.mT / 8**0.5, -1) @ x,
        lambda x: x / (1 + x.norm(dim=-1, keepdim=True)),
        lambda x: x / x.abs().amax(-1, keepdim=True),
    ],
)
def test_other_arithmetic_is_no_norm(function):
    assert calls_of(function) == []


def test_weight_standardization_is_no_norm_of_the_network():
    class Standardized(nn.Linear):
        def forward(self, x):
            w = self.weight
            w = (w - w.mean(1, keepdim=True)) / (w.var(1, keepdim=True) + 1e-5).sqrt()
            return F.linear(x, w, self.bias)

    model = nn.Sequential(Standardized(8, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    assert [c.place.path for c in check_calls(model)] == ["1"]


def check_calls(model):
    return Network(as_step(model, None), Batches(X, X), len(X), X, CheckOptions()).attempt.calls


@pytest.mark.parametrize("precision", ["16-true", "16-mixed"])
def test_squares_in_half_precision_overflow(precision):
    """pytorch 133085: an RMSNorm by hand that squares in float16."""

    class Own(nn.Module):
        def __init__(self, wide):
            super().__init__()
            self.weight, self.wide = nn.Parameter(torch.ones(8)), wide

        def forward(self, x):
            y = x.float() if self.wide else x
            y = y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)
            return y.to(x.dtype) * self.weight.to(x.dtype)

    narrow, wide = (nn.Sequential(Own(w), nn.Linear(8, 3)) for w in (False, True))
    result = check(narrow, 300 * X, precision=precision)
    assert "norm" in result.facts[0]
    assert result["overflow"].severity == "error"
    assert result["overflow"].layers == ("0.norm()",)
    half = (300 * X).half()
    gone = (half * half).mean(-1).isinf()
    assert result["overflow"].number == pytest.approx(float(gone.float().mean()), abs=0.01)
    assert "overflow" in check(wide, 300 * X, precision=precision).healthy
    assert "overflow" in check(narrow, 300 * X, precision="bf16-mixed").healthy


def test_findings_of_layers_hold_for_functions():
    small = check(Block(lambda x: F.layer_norm(1e-4 * x, (8,))), X)
    assert small["eps"].layers == ("layer_norm()",)
    assert "one_value" in check(Block(lambda x: F.group_norm(x, 5)), X[:, :, :1].expand(16, 5, 8)).healthy
    with pytest.raises(ValueError, match="no normalization layer"):
        check(Block(torch.tanh), X)


class Causal(nn.Module):
    def __init__(self, axes, mixes=True):
        super().__init__()
        self.embedding, self.mix, self.output = (
            nn.Embedding(9, 6),
            nn.LSTM(6, 6, batch_first=True),
            nn.Linear(6, 9),
        )
        self.axes, self.mixes = axes, mixes

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = self.mix(x)[0] if self.mixes else x
        return self.output(F.layer_norm(x, x.shape[-self.axes :]))


def test_called_norm_over_positions_shows_a_causal_network_the_future():
    tokens = torch.randint(0, 9, (16, 7))
    finding = check(Causal(2), (tokens, tokens))["sees_future"]
    assert finding.layers == ("layer_norm()",)
    for network in (Causal(1), Causal(2, mixes=False)):  # of single tokens, of a network without a past
        assert "sees_future" in check(network, (tokens, tokens)).healthy


def test_called_norm_before_pooling_takes_the_input_away():
    class Pooled(nn.Module):
        def __init__(self, first):
            super().__init__()
            self.conv, self.norm, self.output = nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.Linear(8, 3)
            self.first = first

        def forward(self, x):
            x = self.norm(self.conv(x))
            x = F.instance_norm(F.relu(x)) if self.first else F.relu(F.instance_norm(x))
            return self.output(x.mean((2, 3)))

    images = torch.randn(16, 3, 8, 8)
    assert check(Pooled(True), images)["input_ignored"].layers == ("instance_norm()",)
    assert "input_ignored" in check(Pooled(False), images).healthy
