"""What measures have in common: leading axes are loops, bounds of arguments hold, defaults are those of the yaml."""

import inspect
from pathlib import Path

import pytest
import torch
from hydra.utils import get_class
from omegaconf import OmegaConf

from normexp.monitors import (
    activations,
    batch_statistics,
    covariate_shift,
    gradients,
    loss_landscape,
    representation,
)
from normexp.monitors.charts import by_statistic

CONFIGS = Path(__file__).parents[2] / "configs" / "monitor"
SINGLE = [path for path in sorted(CONFIGS.glob("*.yaml")) if "_target_" in path.read_text()]


def rows(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def of_distributions(now, before):
    one, other = (covariate_shift.Distribution.of(x, 100) for x in (now, before))
    return covariate_shift.drift(one, other)


X, V = rows(2, 3, 7, 5), rows(2, 3, 11)
FUNCTIONS = {  # a function, and its arguments with two leading axes
    "describe": (lambda x: activations.describe(x, ("mean", "std", "skew", "kurtosis", "max_abs", "l2_norm",
                                                    "channel_spread")), (X,)),
    "percentiles": (activations.percentiles, (V,)),
    "random_sample": (lambda x: activations.random_sample(x, 6, 3), (X,)),
    "random_sample of few": (lambda x: activations.random_sample(x, 10**6, 3), (X,)),
    "saturated_fraction": (lambda x: activations.saturated_fraction(x, -1.0, 1.0), (X,)),
    "flat_fractions": (activations.flat_fractions, (X * (rows(2, 3, 1, 5) > 0.4),)),
    "growth_rate": (gradients.growth_rate, (V.abs(),)),
    "angle": (gradients.angle, (V, rows(2, 3, 11) * V.abs())),
    "noise_and_signal": (lambda n, m: gradients.noise_and_signal(n, m, 4), (V.abs(), V.abs().mean(-1))),
    "discrepancy": (batch_statistics.discrepancy, (X, rows(2, 3, 5), rows(2, 3, 5).abs())),
    "geometry": (representation.geometry, (X.mT,)),
    "outliers": (representation.outliers, (X,)),
    "distribution": (lambda x: covariate_shift.Distribution.of(x, 4)._asdict(), (X,)),
    "drift": (of_distributions, (X, X * 2 + rows(2, 3, 7, 5))),
    "shift": (covariate_shift.shift, (V, V + 1)),
    "step_to_step": (covariate_shift.step_to_step, (V, V + 1, V * 2, V.square())),
}  # fmt: skip


def as_dict(value):
    if isinstance(value, torch.Tensor):
        return {"": value}
    return dict(value) if isinstance(value, dict) else dict(enumerate(value))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_leading_axes_are_loops(name):
    function, given = FUNCTIONS[name]
    together = as_dict(function(*given))
    for a in range(2):
        for b in range(3):
            alone = as_dict(function(*(x[a, b] for x in given)))
            assert alone.keys() == together.keys()
            for key, value in alone.items():
                assert torch.allclose(together[key][a, b], value, rtol=1e-9, atol=1e-12), key
    for key, value in together.items():
        assert value.shape[:2] == (2, 3), key


LOWEST = {  # what it may be at least; one less is refused
    "every_n_steps": 1, "batch_size": 1, "sample_size": {"Activations": 1, "CovariateShift": 2}, "chunks": 2,
    "iterations": 1, "steps": 1, "noise": 0, "max_vectors": 2,
}  # fmt: skip


@pytest.mark.parametrize("path", SINGLE, ids=lambda path: path.stem)
def test_arguments_have_bounds_and_the_defaults_of_the_yaml(path):
    (node,) = OmegaConf.to_container(OmegaConf.load(path), resolve=False).values()
    cls = get_class(node.pop("_target_"))
    parameters = inspect.signature(cls).parameters
    usual = {"every_n_steps": 2, "batch_size": 4} if "every_n_steps" in parameters else {}
    usual = {name: value for name, value in usual.items() if name in parameters}
    for name, value in node.items():
        default = parameters[name].default
        if name not in ("every_n_steps", "batch_size"):
            assert (list(default) if isinstance(default, tuple) else default) == value, name
    for name in LOWEST.keys() & parameters.keys():
        lowest = LOWEST[name][cls.__name__] if isinstance(LOWEST[name], dict) else LOWEST[name]
        lowest = 2 if (cls.__name__, name) == ("CovariateShiftProxies", "every_n_steps") else lowest
        made = cls(**usual | {name: lowest})
        assert made.every_n_steps == (usual | {name: lowest})["every_n_steps"]
        with pytest.raises(ValueError, match=name):
            cls(**usual | {name: lowest - 1})


def test_the_steps_along_the_gradient_are_those_of_the_paper():
    """Half to four times its learning rate of 0.1."""
    sizes = loss_landscape.Smoothness(every_n_steps=1).step_sizes
    assert sizes == pytest.approx([0.1 * factor for factor in (0.5, 1, 2, 3, 4)])
    for wrong in ([], [0.0], [0.1, -0.1]):
        with pytest.raises(ValueError, match="step_sizes"):
            loss_landscape.Smoothness(every_n_steps=1, step_sizes=wrong)


@pytest.mark.parametrize("name", ["places", "statistics"])
def test_an_unknown_place_or_statistic_is_refused(name):
    with pytest.raises(ValueError, match=name):
        activations.Activations(every_n_steps=1, **{name: ["mean" if name == "places" else "norm_input"]})


def test_a_distribution_keeps_as_many_rows_as_asked_and_the_same_ones():
    x = torch.arange(18.0).view(9, 2)
    for size in (2, 5, 8, 9, 20):
        kept = covariate_shift.Distribution.of(x, size).ordered
        assert len(kept) == min(size, 9)
        assert torch.equal(kept, covariate_shift.Distribution.of(x, size).ordered)
        assert torch.equal(kept[:, 0] + 1, kept[:, 1])  # whole rows, in order
        assert (kept[1:] > kept[:-1]).all()


def test_a_tag_is_cut_at_its_first_slash():
    assert by_statistic(["b/x", "a/b/c", "a/a"]) == {"a": ["a", "b/c"], "b": ["x"]}
