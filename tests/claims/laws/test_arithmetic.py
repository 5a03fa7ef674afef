"""Arithmetic behind sentences of claims, by the laws that compute it. These were claims once, with the ids below."""

import math

import pytest
import torch

from normexp.claims.evidence.initial import norm_factory
from normexp.claims.laws import gradients, half_precision, population, values
from normexp.claims.laws.common import sample

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
