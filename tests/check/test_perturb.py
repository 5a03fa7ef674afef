"""Passes with other numbers in a part of the batch: what is changed, what is kept, and how far they are apart."""

import math

import pytest
import torch
from torch import nn

import normexp.norms
from normexp.check.findings.perturb import altered, least_moved, moved
from normexp.check.findings.tokens import parted, rest
from normexp.check.run import check


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


def test_norm_over_positions_is_named_where_channels_and_positions_may_stand_either_way():
    class Global(nn.Module):
        """Over channels and positions, of a network of signals (N, C, T)."""

        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(8, 1))

        def forward(self, x):
            centered = x - x.mean((1, 2), keepdim=True)
            return self.gain * centered / (centered.square().mean((1, 2), keepdim=True) + 1e-8).sqrt()

    class Repeated(nn.Identity):
        """Calls a layer as often as its input says."""

        def forward(self, x):
            for _ in range(int((x[..., -1] > 0).sum())):
                x = self.again(x)
            return x

    torch.manual_seed(0)
    x, repeated = torch.randn(8, 4, 20), Repeated()
    repeated.again = nn.Identity()
    for norm in (Global(), normexp.norms.LayerNorm(8, per_position=True)):
        net = nn.Sequential(nn.Conv1d(4, 8, 1), norm, nn.ReLU(), nn.Conv1d(8, 4, 1), repeated)
        result = check(net, (x, x), causal=True)
        if isinstance(norm, Global):
            assert "They enter in 1." in result["sees_future"].sentence
        else:
            assert "sees_future" in result.healthy
