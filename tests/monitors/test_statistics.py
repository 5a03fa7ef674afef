import numpy as np
import pytest
import torch
from scipy import stats as scipy_stats
from torch import nn

from normexp.monitors import activations as stats

EVERY = ("mean", "std", "skew", "kurtosis", "max_abs", "l2_norm", "channel_spread")


def gaussian(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("layout", ["NC", "NCHW", "NTC"])
def test_statistics_match_a_loop_in_every_layout(layout):
    shape, channel_dim = {"NC": ((7, 3), 1), "NCHW": ((4, 3, 5, 2), 1), "NTC": ((4, 5, 3), -1)}[layout]
    x = gaussian(*shape) * 2 + 1
    by_channel = [x.select(channel_dim, c).flatten().tolist() for c in range(3)]
    everything = np.array([value for channel in by_channel for value in channel])
    places = np.array(by_channel).T  # (n, C)
    assert stats.to_rows(x.bfloat16(), channel_dim).dtype == torch.float32
    rows = stats.to_rows(x, channel_dim)
    values = stats.describe(rows, EVERY)
    assert values["mean"].item() == pytest.approx(everything.mean())
    assert values["std"].item() == pytest.approx(everything.std())
    assert values["skew"].item() == pytest.approx(scipy_stats.skew(everything))
    assert values["kurtosis"].item() == pytest.approx(scipy_stats.kurtosis(everything, fisher=False))
    assert values["max_abs"].item() == pytest.approx(np.abs(everything).max())
    assert values["l2_norm"].item() == pytest.approx(np.mean([np.linalg.norm(place) for place in places]))
    channel_means = np.array([np.mean(channel) for channel in by_channel])
    assert values["channel_spread"].item() == pytest.approx(channel_means.std() / everything.std())
    for name, value in stats.percentiles(rows.flatten()).items():
        assert value.item() == pytest.approx(np.quantile(everything, int(name[1:]) / 100)), name


def test_std_keeps_its_digits_where_the_mean_is_a_thousand_times_larger():
    rows = (1000 + gaussian(500, 40)).float()
    wrong = (rows.square().mean() - rows.mean() ** 2).clamp_min(0).sqrt()
    assert abs(wrong - 1) > 0.01
    exact = rows.double().std(correction=0).item()
    assert stats.describe(rows, ["std"])["std"].item() == pytest.approx(exact, abs=1e-4)


def test_percentiles_of_a_random_sample_are_right_where_a_stride_meets_few_channels():
    channels = torch.linspace(-3, 3, 64, dtype=torch.float64)
    rows = channels + 0.1 * gaussian(512, 64)  # what a channel holds depends on the channel
    exact = stats.percentiles(rows.flatten())
    strided = stats.percentiles(rows.flatten()[:: rows.numel() // 256])
    assert max(abs(strided[name] - exact[name]) for name in exact) > 1.5  # half the channel range off
    sampled = [stats.percentiles(stats.random_sample(rows, 1024, seed=step)) for step in range(16)]
    for name in exact:
        errors = torch.stack([sample[name] - exact[name] for sample in sampled]) / rows.std()
        assert errors.mean().abs() < 0.05
        assert errors.abs().max() < 0.2


@pytest.mark.parametrize(("std", "fraction"), [(1, 0.003), (2, 0.14), (5, 0.56), (10, 0.77)])
def test_saturated_fraction_of_sigmoid_is_the_integral(std, fraction):
    outputs = torch.sigmoid(std * gaussian(2000, 50))
    limit = np.log(19)  # sigmoid(log 19) = 0.95
    integral = 2 * scipy_stats.norm.sf(limit / std)
    assert integral == pytest.approx(fraction, abs=0.01)
    assert stats.saturated_fraction(outputs, 0, 1).item() == pytest.approx(integral, abs=0.005)


@pytest.mark.parametrize(
    "activation", [nn.Sigmoid(), nn.Tanh(), nn.ReLU(inplace=True), nn.GELU(), nn.Identity()]
)
def test_share_of_flat_derivatives_is_the_integral(activation):
    z = torch.linspace(-9, 9, 200_001, dtype=torch.float64)
    difference = (activation(z + 1e-6) - activation(z - 1e-6)).abs() / 2e-6  # a second derivation of f'
    density = torch.exp(-((z / 2) ** 2) / 2) / (2 * np.sqrt(2 * np.pi))
    integral = (density * (difference < stats.FLAT)).sum() * (z[1] - z[0])
    rows = stats.derivative(activation, 2 * gaussian(2000, 50))
    measured = stats.flat_fractions(rows)["derivative_near_zero_fraction"]
    assert measured.item() == pytest.approx(integral.item(), abs=0.005)


def test_a_value_at_the_margin_is_not_saturated_and_a_slope_at_the_limit_is_not_flat():
    rows = torch.tensor([[1.0, 19.0], [0.5, 19.5]])  # of a range from 0 to 20
    assert stats.saturated_fraction(rows, 0, 20).item() == 0.5
    fractions = stats.flat_fractions(torch.tensor([[0.05, -0.04], [-0.05, 0.04]]))
    assert [fractions[key].item() for key in fractions] == [0.5, 0.5]


def test_a_dead_unit_is_flat_at_every_place():
    z = torch.ones(4, 3, 2, 2)
    z[:, 1] = -1  # dead
    z[:-1, 2] = -1  # alive for the last sample
    slopes = stats.derivative(nn.ReLU(), z)
    fractions = stats.flat_fractions(stats.to_rows(slopes, 1))
    assert fractions["dead_fraction"].item() == pytest.approx(1 / 3)
    assert fractions["derivative_near_zero_fraction"].item() == pytest.approx((1 + 3 / 4) / 3)
