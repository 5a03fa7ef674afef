"""Members with batch statistics that torch does not have, in eval mode: what they remember and what they do with it.

Three training batches, then the running buffers, the output in eval mode and its gradients against slow loops.
"""

import pytest
import torch
from norms import references
from norms.layers import build, outcome, sample
from norms.test_against_papers import EPS, affine, assert_twin, places, small_sample

KEPT = {  # how the running estimate is made, and where eps stands
    "batchnorm_unbiased": {},
    "batchnorm_eps_outside": {"outside": True},
    "batchnorm_l1": {"outside": True, "spread": references.mean_absolute},
    "batchnorm_linf": {"outside": True, "spread": references.largest_absolute},
    "batchnorm_ghost": {"groups": 2},
    "batchrenorm": {"keep": 0.99},
    "switchablenorm": {"correction": 0},
    "switchablenorm_layer_batch": {"correction": 0},
}
CASES = [(name, layout) for name in KEPT for layout in ("dense", "image", "tokens")]
CASES = [case for case in CASES if case[0] != "switchablenorm" or case[1] == "image"]


def batches_of(layout):
    return [small_sample(layout) + 0.3 * seed for seed in range(3)]


def twin_in_eval(name, x, layer, population, outside):
    if not name.startswith("switchable"):
        return affine(references.with_population(x, *population, eps=EPS, outside=outside), layer)
    p, q = layer.mean_weight.softmax(0), layer.var_weight.softmax(0)
    return affine(references.switchable(x, p, q, layer.combine, eps=EPS, population=population), layer)


@pytest.mark.parametrize("native", [True, False], ids=["native", "formula"])
@pytest.mark.parametrize(("name", "layout"), CASES)
def test_buffers_and_eval_mode_equal_the_papers_equations(name, layout, native):
    layer, batches = build(name, layout, native=native), batches_of(layout)
    start = layer.running_mean.clone(), layer.running_var.clone()
    for batch in batches:
        layer(batch)
    options = {"keep": 0.9} | KEPT[name]
    outside = options.pop("outside", False)
    population = references.running_after([places(batch, layout) for batch in batches], *start, **options)
    torch.testing.assert_close(layer.running_mean, population[0])
    torch.testing.assert_close(layer.running_var, population[1])

    x = small_sample(layout) * 1.5 - 0.2
    ours = outcome(layer.eval(), x)
    x.requires_grad_()
    y = twin_in_eval(name, places(x, layout), layer, population, outside).reshape(x.shape)
    assert_twin([ours], y, x, layer)
    assert all(torch.equal(ours[key], buffer) for key, buffer in layer.named_buffers())  # eval moves nothing


@pytest.mark.parametrize("name", ["powernorm", "powernorm_unscaled"])
@pytest.mark.parametrize("layout", ["dense", "image", "tokens"])
def test_power_norm_remembers_the_average_of_its_warm_up_and_evaluates_with_it(name, layout):
    layer = build(name, layout, "warmup_steps=3")
    means = []
    for seed in range(3):
        layer(sample(layout, seed))
        inner = places(sample(layout, seed), layout)
        if layer.token_scaling:
            inner = references.divided_by_rms(inner, eps=EPS)
        means.append([sum(inner[:, c].flatten() ** 2) / inner[:, c].numel() for c in range(8)])
    phi = torch.stack([sum(of_channel) / 3 for of_channel in zip(*means, strict=True)])
    torch.testing.assert_close(layer.running_phi, phi)

    x = small_sample(layout)
    ours = outcome(layer.eval(), x)
    inner = places(x.requires_grad_(), layout)
    if layer.token_scaling:
        inner = references.divided_by_rms(inner, eps=EPS)
    y = affine(references.with_population(inner, 0 * phi, phi, eps=EPS), layer).reshape(x.shape)
    assert_twin([ours], y, x, layer)
