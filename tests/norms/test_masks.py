"""Statistics under a mask: the same as where the padding had been cut away."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from norms.layers import NAMES, norm_factory, randomized, values

from normexp.norms import BatchNorm, InstanceNorm, LayerNorm, norm_named, recompute_population_statistics

BATCH = [
    name for name in NAMES if name.startswith(("batchnorm", "batchrenorm")) and name != "batchnorm_ghost"
]
OWN = [
    "adanorm",
    "affine",
    "derf",
    "dyt",
    "groupnorm",
    "hardtanh",
    "none",
    "rmsnorm",
    "rmsnorm_gain_free",
    "scalenorm",
    "rmsnorm_partial",
]
OWN += [name for name in NAMES if name.startswith("layernorm")]
OF_TOKENS = ["batchnorm", "instancenorm", "powernorm", "switchablenorm_layer_batch", *OWN]


def layer(name, channel_dim):
    made = randomized(norm_factory(name)(8, channel_dim, layer=2).double())
    return made


def mask_of(lengths, longest):
    return torch.arange(longest) < torch.tensor(lengths)[:, None]


LENGTHS = st.lists(st.integers(2, 6), min_size=2, max_size=4)


@settings(max_examples=12, deadline=None)
@given(lengths=LENGTHS, padding=st.sampled_from([0.0, 1e3, float("inf"), float("nan")]))
@pytest.mark.parametrize("name", [*OWN, "instancenorm"])
@pytest.mark.parametrize("channel_dim", [1, -1])
def test_norms_of_a_sample_give_what_each_sample_alone_would(name, channel_dim, lengths, padding):
    if channel_dim == 1 and name in ("adanorm", "rmsnorm_partial"):
        return  # refused, below
    x = values((len(lengths), 6, 8))
    x[~mask_of(lengths, 6)] = padding
    for training in (True, False):
        norm = layer(name, channel_dim).train(training)
        y = norm(x.movedim(-1, channel_dim), mask=mask_of(lengths, 6)).movedim(channel_dim, -1)
        for sample, length, result in zip(x, lengths, y, strict=True):
            cut = sample[None, :length].movedim(-1, channel_dim)
            torch.testing.assert_close(result[None, :length], norm(cut).movedim(channel_dim, -1))
            assert (result[length:] == 0).all()


@settings(max_examples=12, deadline=None)
@given(lengths=LENGTHS)
@pytest.mark.parametrize("name", BATCH)
@pytest.mark.parametrize("channel_dim", [1, -1])
def test_norms_of_the_batch_give_what_the_real_positions_alone_would(name, channel_dim, lengths):
    """Output, gradients, and the running estimate afterwards."""
    x, mask = values((len(lengths), 6, 8)), mask_of(lengths, 6)
    x[~mask] = 1e6
    for training in (True, False):
        norm = layer(name, channel_dim).train(training)
        cut = layer(name, 1).train(training)
        real = x[mask].clone().requires_grad_()
        padded = x.clone().requires_grad_()
        y = norm(padded.movedim(-1, channel_dim), mask=mask).movedim(channel_dim, -1)
        expected = cut(real)
        torch.testing.assert_close(y[mask], expected)
        direction = values(expected.shape, seed=4)
        y[mask].backward(direction)
        expected.backward(direction)
        torch.testing.assert_close(padded.grad[mask], real.grad)
        assert (padded.grad[~mask] == 0).all()
        for a, b in zip(norm.buffers(), cut.buffers(), strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", OF_TOKENS)
def test_a_mask_of_ones_changes_nothing_but_rounding(name):
    x = values((4, 6, 8))
    plain, masked = layer(name, -1), layer(name, -1)
    a = plain(x)
    b = masked(x, mask=torch.ones(4, 6, dtype=torch.bool))
    torch.testing.assert_close(a, b)
    for p, q in zip(plain.buffers(), masked.buffers(), strict=True):
        torch.testing.assert_close(p, q)


def test_images_with_unequal_sides():
    """A mask over two axes, (N, H, W)."""
    x = values((2, 8, 5, 4))
    mask = torch.zeros(2, 5, 4, dtype=torch.bool)
    mask[0, :3, :2], mask[1, :5, :3] = True, True
    for name in ("instancenorm", "groupnorm", "layernorm", "rmsnorm", "layernorm_channels"):
        norm = layer(name, 1)
        y = norm(x, mask=mask)
        torch.testing.assert_close(y[:1, :, :3, :2], norm(x[:1, :, :3, :2]))
        torch.testing.assert_close(y[1:, :, :5, :3], norm(x[1:, :, :5, :3]))


def test_gradients_under_a_mask_are_right():
    x, mask = values((2, 4, 3)).requires_grad_(), mask_of([2, 4], 4)
    for make in (InstanceNorm, BatchNorm, LayerNorm):
        norm = make(3, channel_dim=-1).double()
        assert torch.autograd.gradcheck(lambda x, norm=norm: copy.deepcopy(norm)(x, mask=mask), x)
    norm = LayerNorm(4, channel_dim=1).double()
    assert torch.autograd.gradcheck(lambda x: norm(x, mask=mask_of([2, 3], 3)), x)


def test_precise_statistics_leave_padding_out():
    norm = BatchNorm(8, -1).double()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = norm

        def forward(self, x):
            return self.norm(x, mask=x[..., 0] < 100)

    x, mask = values((3, 6, 8)), mask_of([2, 5, 6], 6)
    x[~mask] = 1e3
    recompute_population_statistics(Net(), [x])
    torch.testing.assert_close(norm.running_mean, x[mask].mean(0))
    torch.testing.assert_close(norm.running_var, x[mask].var(0))


@pytest.mark.parametrize(
    ("make", "x", "mask", "message"),
    [
        (
            lambda: LayerNorm(8, -1),
            (2, 5, 8),
            torch.ones(2, 4, dtype=torch.bool),
            r"must be torch.bool of \(2, 5\)",
        ),
        (lambda: LayerNorm(8, -1), (2, 5, 8), torch.ones(2, 5), "is torch.float32"),
        (lambda: BatchNorm(8, -1), (2, 5, 8), torch.zeros(2, 5, dtype=torch.bool), "no real position"),
        (lambda: BatchNorm(8, virtual_batch_size=1), (2, 8, 5), mask_of([3, 4], 5), "no form under a mask"),
        (
            lambda: norm_named("adanorm")(8),
            (2, 8, 5),
            mask_of([3, 4], 5),
            "AdaNorm with these options has no form",
        ),
        (lambda: InstanceNorm(8), (2, 8, 5), mask_of([1, 4], 5), "nothing to normalize over"),
    ],
)
def test_what_has_no_meaning_is_refused_in_one_line(make, x, mask, message):
    with pytest.raises(ValueError, match=message) as error:
        make()(torch.randn(x), mask=mask)
    assert "\n" not in str(error.value)
