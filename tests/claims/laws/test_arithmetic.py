"""Arithmetic behind sentences of claims, and what norms of this project do by definition. These were claims once; each
test names the id that it had."""

import math

import pytest
import torch

from normexp.claims.evidence.initial import norm_factory
from normexp.claims.laws import gradients, half_precision, population, values
from normexp.claims.laws.common import function_of, sample
from normexp.norms import BatchNorm

SEEDS = range(3)


def made(*words: str):
    return norm_factory(words)


LAYER, BATCH, NONE = ("norm=layernorm",), ("norm=batchnorm",), ("norm=none",)
ANNOTATED = ("norm=layernorm_annotated",)
STORED = (*BATCH, "norm.running_correction=0"), ("norm=batchnorm_unbiased",)  # the variance that normalizes
FACTS = {  # id -> rows of a law, the overrides of its norm, its options, its value, and within what
    "S05b": [(values.unbiased_over_biased, (*LAYER, "eps=0"), {"features": n}, math.sqrt((n - 1) / n), 1e-6)
             for n in (2, 3, 4, 64, 768)],
    "S20a": [(gradients.saturated_share, NONE, {"scale": scale}, share, 0.012)
             for scale, share in ((1, 0.0032), (2, 0.141), (5, 0.556), (10, 0.768))],
    "S23a": [(population.recovery_error, BATCH, {"std": std, "gain": "with eps"}, 0, 0.002)
             for std in (1, 0.01, 0.001)],
    "S31b": [(population.eval_over_train, (*words, "norm.ema_keep=0"), {"n": n}, 1, 1e-5)
             for words in STORED for n in (2, 3, 8, 64)],
    "S35a": [(values.distance_to_formula, LAYER, {"std": std}, 0, 1e-9) for std in (0.5, 2)],
    "S45a": [(values.inside_over_outside, LAYER, {"std": std}, ratio, 1e-3)
             for std, ratio in ((0.1, 1.0004), (0.01, 1.04776), (0.001, 3.28378), (1e-4, 28.7623))],
    "S54a": [(values.output_std, ANNOTATED, {"correction": correction}, std, 1e-3)
             for correction, std in ((0, math.sqrt(2 / 3)), (1, 1.0))],
    "S58a": [(values.largest_output, norm, {"features": n}, (n - 1) / math.sqrt(scale(n)), 1e-4)
             for norm, scale in ((ANNOTATED, lambda n: n), (LAYER, lambda n: n - 1)) for n in (3, 8)],
}  # fmt: skip


@pytest.mark.parametrize("name", FACTS)
def test_a_law_has_the_value_of_its_formula(name):
    for law, words, options, expected, within in FACTS[name]:
        for seed in SEEDS:
            found = law(made(*words), seed=seed, **options)
            assert found == pytest.approx(expected, abs=within), (words, options)


@pytest.mark.parametrize(("function", "mean"), [("sigmoid", 0.2066), ("tanh", 0.6057)])
def test_mean_derivative_of_normal_inputs(function, mean):
    """S16a."""
    x = sample(0, 400_000).requires_grad_()
    (slope,) = torch.autograd.grad(function_of(function)(x).sum(), x)
    assert float(slope.mean()) == pytest.approx(mean, abs=0.002)


@pytest.mark.parametrize("keep", [0.9, 0.1])
@torch.no_grad()
def test_ema_keep_is_the_share_of_the_old_estimate(keep):
    """S27b."""
    layer, x = made("norm=batchnorm", f"norm.ema_keep={keep}")(4).double().train(), sample(0, 16, 4) + 5
    layer.running_mean.fill_(1.0)
    layer(x)
    kept = 1 - (layer.running_mean - 1) / (x.mean(0) - 1)
    assert kept.tolist() == pytest.approx([keep] * 4, abs=1e-6)


@pytest.mark.parametrize("value", [0.0, 1.0, 5.0])
def test_gradient_of_a_constant_input(value):
    """S52a: 1.5 / sqrt(1e-5) at an upstream gradient of 0, 1, 2, 3."""
    x = torch.full((1, 4), value, dtype=torch.float64, requires_grad=True)
    (made("norm=layernorm")(4).double()(x) * gradients.UPSTREAM).sum().backward()
    assert float(x.grad.abs().max()) == pytest.approx(474.3416, abs=1e-3)


def mean(x):
    return x.mean(-1, keepdim=True)


FORMULAS = {  # each step rounds to the type of x
    "layernorm, two passes": lambda x: (x - mean(x)) * torch.rsqrt(mean((x - mean(x)).square()) + 1e-5),
    "layernorm, one pass": lambda x: (x - mean(x)) * torch.rsqrt(mean(x.square()) - mean(x).square() + 1e-5),
    "rmsnorm": lambda x: x * torch.rsqrt(mean(x.square()) + 1e-5),
}


@pytest.mark.parametrize("formula", FORMULAS)
def test_squares_of_float16_overflow_beyond_256(formula):
    """X05: 256^2 is the first square above 65,504. The mean of a row moves the limit of two passes by up to 8."""
    row = sample(0, 1, 768)
    row = row / row.abs().max()
    exact = FORMULAS[formula](1e6 * row)
    assert half_precision.largest_right(FORMULAS[formula], row, "float16", exact) == pytest.approx(256, abs=8)


def test_jacobian_of_rmsnorm():
    """X06a: (I - x x^T / (d rms^2)) / rms."""
    x, layer = sample(0, 16), made("norm=rmsnorm", "eps=0")(16).double()
    found = torch.autograd.functional.jacobian(lambda row: layer(row[None])[0], x)
    rms = x.square().mean().sqrt()
    written = (torch.eye(16, dtype=x.dtype) - torch.outer(x, x) / (16 * rms**2)) / rms
    assert torch.allclose(found, written, rtol=0, atol=1e-12 * float(written.abs().max()))


@pytest.mark.parametrize("k", [1, 2, 4, 8])
@torch.no_grad()
def test_micro_batches_in_the_running_mean(k):
    """X09a, X09b: k of them replace 1 - 0.9^k of it, and the last weighs 0.9^-(k - 1) times as much as the first."""
    shares = []
    for chosen in range(k):
        layer = BatchNorm(4).double().train()
        for index in range(k):
            x = sample(index, 32, 4)
            layer(x - x.mean(0) + float(index == chosen))
        shares.append(float(layer.running_mean.mean()))
    assert sum(shares) == pytest.approx(1 - 0.9**k, abs=1e-9)
    assert shares[-1] / shares[0] == pytest.approx(0.9 ** -(k - 1))
