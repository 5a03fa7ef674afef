"""Later positions that change earlier ones, however the norm, the layer or the mask is written."""

import math

import pytest
import torch
from small_networks import Called, Own, Sequence, found, tokens
from torch import nn
from torch.nn import functional as F

import normexp.norms
from normexp.check.findings.causal import Attention
from normexp.check.findings.perturb import altered, least_moved, moved
from normexp.check.findings.tokens import parted, rest
from normexp.check.run import check


def changed_later(x):
    """Other numbers behind the middle of 12 positions."""
    later = x.clone()
    later[:, 7:] = x[:, 7:].flip(0)
    return later


def test_sees_future():
    data = tokens()
    healthy = check(Sequence(nn.LayerNorm(8)), data)
    finding = found("sees_future", healthy, check(model := Sequence(nn.BatchNorm1d(8)), data))
    x = data[0]
    assert not torch.allclose(model(x)[:, 6], model(changed_later(x))[:, 6], atol=1e-3)
    assert 0 < finding.number < 1
    assert "sees_future" in check(model, (x[:, :3], x[:, :3]))  # one position behind the middle
    for norm in (nn.LayerNorm(8), nn.BatchNorm1d(8)):
        model = Sequence(norm, causal=False)  # by design, which only its author knows
        assert "causal=True" in check(model, data).not_checked["sees_future"]
        assert "sees_future" in check(model, data, causal=False).healthy
        assert "sees_future" in check(model, data, causal=True)


class Looks(Sequence):
    """It forgets its mask in eval mode."""

    def forward(self, x):
        x = self.embedding(x) if not x.is_floating_point() else x
        x = x.cumsum(1) if self.training else x + x.mean(1, keepdim=True)
        return self.output(self.norm(x))


@pytest.mark.parametrize("inputs", [tokens()[0], torch.randn(16, 12, 8)], ids=["tokens", "vectors"])
def test_sees_future_in_eval_mode_alone(inputs):
    finding = check(model := Looks(nn.LayerNorm(8)), inputs)["sees_future"]
    assert finding.sentence.startswith("In eval mode, and not in training")
    later = changed_later(inputs)
    first, second = (model.eval()(x)[:, :7].detach() for x in (inputs, later))
    assert finding.number == pytest.approx(float((first - second).norm() / first.norm()), rel=1)
    model.train()
    torch.testing.assert_close(model(inputs)[:, :7], model(later)[:, :7])


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("vectors", [True, False])
def test_a_sequence_without_later_positions_is_not_checked(length, vectors):
    """The channels of one token mix, and are no positions."""
    x = torch.randn(16, length, 8) if vectors else tokens(length=length)[0]
    for options in ({"causal": True}, {}):
        model = Sequence(nn.LayerNorm(8))
        model.embedding = nn.Identity() if vectors else model.embedding
        assert "sequences of 3 and more" in check(model, x, **options).not_checked["sees_future"]


def test_one_channel_of_many_positions_is_a_sequence():
    def sound(norm):
        left = nn.ConstantPad1d((2, 0), 0.0)
        return nn.Sequential(left, nn.Conv1d(1, 4, 3), norm, nn.Conv1d(4, 1, 1))

    x = torch.randn(8, 1, 30)
    assert check(sound(nn.GroupNorm(1, 4)), x, causal=True)["sees_future"].layers == ("2",)
    frozen = sound(nn.BatchNorm1d(4))
    frozen[2].eval()
    assert "sees_future" in check(frozen, x, causal=True).healthy


def by_channel(norm):
    """A causal convolution of each channel by itself, as forecasts of several series take it."""
    net = Own(
        lambda net, x: net.norm(net.conv(F.pad(x, (2, 0)))), conv=nn.Conv1d(4, 4, 3, groups=4), norm=norm
    )
    net.mix = nn.GroupNorm(4, 4)  # is not called
    return net


def by_position(norm):
    return nn.Sequential(nn.Linear(6, 6), norm, nn.Linear(6, 6))


@pytest.mark.parametrize(
    "norm", [nn.InstanceNorm1d(4), nn.BatchNorm1d(4), normexp.norms.GroupNorm(4, num_groups=4)]
)
def test_channels_that_do_not_mix_are_no_positions(norm):
    x, model = torch.randn(6, 4, 9), by_channel(norm)
    later = x.clone()
    later[..., 7:] += 1
    assert (model(x) - model(later))[..., :7].abs().max() > 0.01
    assert check(model, x, causal=True)["sees_future"].layers == ("norm",)
    positions = by_position(nn.LayerNorm(6)), torch.randn(5, 9, 6)
    for healthy, inputs in ((by_channel(nn.Identity()), x), positions):
        assert "sees_future" in check(healthy, inputs, causal=True).healthy


class Hidden(torch.autograd.Function):
    """A norm over positions whose backward pass treats the statistics as constants."""

    @staticmethod
    def forward(ctx, x):
        std = x.std(1, keepdim=True) + 1e-5
        ctx.save_for_backward(std)
        return (x - x.mean(1, keepdim=True)) / std

    @staticmethod
    def backward(ctx, g):
        return g / ctx.saved_tensors[0]


class HiddenNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(8)), 1e-5

    def forward(self, x):
        return Hidden.apply(x) * self.weight


def over_time(x):
    return F.layer_norm(x, x.shape[1:])


LEAKS = {  # of (N, T, 8)
    "backward that hides it": HiddenNorm,
    "rows": lambda: Own(lambda net, x: net.norm(x.flatten(0, 1)).view(x.shape), norm=nn.BatchNorm1d(8)),
    "function in a layer": lambda: Called(over_time),
    "function": lambda: over_time,
    "function over another axis": lambda: lambda x: F.batch_norm(x.mT, None, None, training=True).mT,
    "eps of 0": lambda: normexp.norms.BatchNorm(8, channel_dim=-1, eps=0.0),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_leak_is_seen_however_it_is_written(leak):
    def last(norm):
        parts = {"embedding": nn.Embedding(11, 8), "norm": norm, "output": nn.Linear(8, 11)}
        return Own(lambda net, x: net.output(net.norm(net.embedding(x).cumsum(1))), **parts)

    data = tokens()
    model = last(LEAKS[leak]())
    finding = found("sees_future", check(last(nn.LayerNorm(8)), data), check(model, data))
    assert all(layer.startswith(("norm", "self:F.")) for layer in finding.layers)
    assert not torch.allclose(model(data[0])[:, :7], model(changed_later(data[0]))[:, :7], atol=1e-3)


class Causal(nn.Module):
    """One layer of attention, and a part that may show it the future."""

    def __init__(self, part, attention="module", hides=True):
        super().__init__()
        self.embedding, self.norm, self.part = nn.Embedding(11, 16), nn.LayerNorm(16), part
        self.attends, self.output = nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, 11)
        self.attention, self.hides = attention, hides

    def forward(self, tokens):
        x = self.part(self.norm(self.embedding(tokens)))
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) if self.hides else None
        if self.attention == "module":
            x = x + self.attends(x, x, x, attn_mask=later, need_weights=False)[0]
        elif self.attention == "function":
            x = x + F.scaled_dot_product_attention(x, x, x, is_causal=self.hides)
        elif self.attention == "softmax":
            scores = x @ x.transpose(1, 2)
            x = x + (scores.masked_fill(later, -1e9) if self.hides else scores).softmax(-1) @ x
        else:
            x = x.cumsum(1)
        return self.output(x)


def convolved(padding):
    return Own(
        lambda net, x: net.conv(F.pad(x.transpose(1, 2), padding)).transpose(1, 2), conv=nn.Conv1d(16, 16, 3)
    )


PARTS = {  # one that leaks, and one that does not
    "normalize": (lambda: Called(lambda x: F.normalize(x, dim=1)), lambda: Called(lambda x: F.normalize(x, dim=-1))),
    "mean": (lambda: Called(lambda x: x - x.mean(1, keepdim=True)), lambda: Called(lambda x: x)),
    "sum": (lambda: Called(lambda x: x.flip(1).cumsum(1).flip(1)), lambda: Called(lambda x: x.cumsum(1))),
    "convolution": (lambda: convolved((1, 1)), lambda: convolved((2, 0))),
}  # fmt: skip


@pytest.mark.parametrize("attention", ["module", "function", "softmax", "none"])
@pytest.mark.parametrize("part", PARTS)
def test_leak_beside_attention_that_hides_the_future_is_found(part, attention):
    data, (leaks, tight) = tokens(length=6), PARTS[part]
    result = check(Causal(leaks(), attention), data)
    if attention == "none" and part != "normalize":  # without the norm it is causal, which says enough
        assert "causal=True" in result.not_checked["sees_future"]
        result = check(Causal(leaks(), attention), data, causal=True)
    where = "part:F.normalize" if part == "normalize" else "part"
    assert found("sees_future", check(Causal(tight(), attention), data, causal=True), result).layers == (
        where,
    )
    if attention != "none":
        assert "sees_future" not in check(Causal(leaks(), attention, hides=False), data)
        open_ = Causal(tight(), attention, hides=False)
        assert "causal=True" in check(open_, data).not_checked["sees_future"]
        assert "sees_future" in check(open_, data, causal=False).healthy
        assert "sees_future" in check(open_, data, causal=True)


def attends(x, mask):
    return nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x, attn_mask=mask)


WAYS = {  # attention over (2, 4, 8) with a mask of which True is seen
    "module": lambda x, seen, _: attends(x, ~seen),
    "module, numbers": lambda x, _, added: attends(x, added),
    "function": lambda x, seen, _: F.scaled_dot_product_attention(x, x, x, seen),
    "function, numbers": lambda x, _, added: F.scaled_dot_product_attention(x, x, x, attn_mask=added),
    "softmax": lambda x, _, added: (x @ x.mT + added).softmax(-1) @ x,
}


@pytest.mark.parametrize("ahead", [-1, 0, 1, 3])
@pytest.mark.parametrize("way", WAYS)
def test_attention_is_heard_to_hide_what_comes_later_and_no_more(way, ahead):
    seen = torch.ones(4, 4, dtype=torch.bool).tril(ahead)
    with Attention() as attention:
        WAYS[way](torch.randn(2, 4, 8), seen, torch.zeros(4, 4).masked_fill(~seen, -torch.inf))
    assert attention.hides == [ahead == 0]


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("positions", [3, 4, 7])
@pytest.mark.parametrize("axis", [1, 2])
def test_what_is_kept_is_what_is_not_changed(positions, earlier, axis):
    shape = (2, positions, 5) if axis == 1 else (2, 5, positions)
    x = torch.arange(math.prod(shape)).view(shape)
    changed = parted(x, axis, earlier)
    (kept,) = rest(x, positions, earlier)
    assert kept.flatten().tolist() == x[~changed].tolist()
    middle = positions // 2
    assert not changed.movedim(axis, 0)[middle].any()
    assert int(changed.movedim(axis, 0).all((1, 2)).sum()) == (middle if earlier else positions - 1 - middle)
    assert not rest(x, 11)


@pytest.mark.parametrize(
    "x",
    [torch.randint(0, 9, (6, 10)), torch.arange(60).view(6, 10), torch.randn(6, 10, 4), torch.ones(6, 10)],
)
def test_other_numbers_stand_where_they_are_asked(x):
    where = parted(x, 1)
    other = altered(x, where)
    assert torch.equal(other[~where], x[~where])
    assert bool((other != x)[where].float().mean() > 0.5)
    if x.is_floating_point():  # by noise of its size
        noise = altered(3 * x, where) - 3 * x
        assert noise[where].std().item() == pytest.approx(1 + 3 * x.std(correction=0).item(), rel=0.2)
    else:
        assert set(other.flatten().tolist()) <= set(x.flatten().tolist())  # of the vocabulary
    assert torch.equal(altered(x, where), other)


def test_distance_is_a_share_of_the_first_ones_size():
    a, b = torch.tensor([3.0, 4.0]), torch.tensor([3.0, 5.0])
    assert moved(a, b) == pytest.approx(1 / 5)
    assert least_moved([a, a], [b, a]) == 0
    assert least_moved([a, b], [b, a]) == pytest.approx(1 / math.sqrt(34))
    assert least_moved([a], [a[:1]]) == least_moved([], []) == math.inf
    assert moved(torch.zeros(2), b) > 1e6


class Global(nn.Module):
    """Over channels and positions, of a network of signals (N, C, T)."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(8, 1))

    def forward(self, x):
        centered = x - x.mean((1, 2), keepdim=True)
        return self.gain * centered / (centered.square().mean((1, 2), keepdim=True) + 1e-8).sqrt()


def test_norm_over_positions_is_named_where_channels_and_positions_may_stand_either_way():
    def repeat(net, x):
        """Calls a layer as often as its input says."""
        for _ in range(int((x[..., -1] > 0).sum())):
            x = net.again(x)
        return x

    def signals(norm):
        return nn.Sequential(
            nn.Conv1d(4, 8, 1), norm, nn.ReLU(), nn.Conv1d(8, 4, 1), Own(repeat, again=nn.Identity())
        )

    x = torch.randn(8, 4, 20)
    healthy = check(signals(normexp.norms.LayerNorm(8, per_position=True)), (x, x), causal=True)
    finding = found("sees_future", healthy, check(signals(Global()), (x, x), causal=True))
    assert "They enter in 1." in finding.sentence
