"""Members that torch does not have, against loops written from the papers' equations: values and gradients."""

from pathlib import Path

import pytest
import torch
from norms import references
from norms.layers import LAYOUTS, assert_same, build, outcome, sample, values

EPS = 1e-5
ROOT = Path(__file__).parents[2]


def places(x, layout):
    """(N, C, P) with the positions that are normalized with a sample; a token is a sample of one position."""
    return x.reshape(-1, 8, 1) if layout == "tokens" else x.reshape(x.shape[0], 8, -1)


def small_sample(layout):
    x = sample(layout)
    if layout == "image":
        return x[:, :, :2, :2].clone()
    return x[:, :2].clone() if layout == "tokens" else x


def affine(y, layer):
    y = y if layer.weight is None else y * layer.weight[:, None]
    return y if layer.bias is None else y + layer.bias[:, None]


def assert_twin(outcomes, y, x, layer):
    """Outcomes of a layer are a twin's output y of x, and its gradients by x and by the layer's parameters."""
    y.backward(values(x.shape, seed=1))
    twin = {"output": y.detach(), "gradient of x": x.grad}
    twin |= {f"gradient of {key}": parameter.grad for key, parameter in layer.named_parameters()}
    for ours in outcomes:
        assert_same({key: ours[key] for key in twin}, twin, rtol=1e-9, atol=1e-10)


def of(kind, **options):
    return lambda x, layer: affine(references.normalized(x, kind, eps=layer.eps, **options), layer)


def switchable(x, layer):
    p, q = layer.mean_weight.softmax(0), layer.var_weight.softmax(0)
    return affine(references.switchable(x, p, q, layer.combine, eps=EPS), layer)


TWINS = {
    "layernorm_unbiased": of("sample", correction=1),
    "layernorm_eps_outside": of("sample", outside=True),
    "layernorm_annotated": of("sample", correction=1, outside=True),
    "layernorm_channels": of("channels"),
    "layernorm_simple": of("sample"),
    "layernorm_gain": of("sample"),
    "layernorm_bias": of("sample"),
    "layernorm_detach": of("sample", detach="mean std"),
    "layernorm_scaling": lambda x, layer: of("sample")(x, layer) / 3**0.5,  # built at layer 3
    "adanorm": lambda x, layer: references.ada_norm(x, eps=EPS, k=0.1, scale=1.0),
    "rmsnorm": lambda x, layer: affine(references.divided_by_rms(x, eps=EPS), layer),
    "rmsnorm_gain_free": lambda x, layer: references.divided_by_rms(x, eps=EPS),
    "rmsnorm_partial": lambda x, layer: affine(references.divided_by_rms(x, eps=EPS, fraction=0.5), layer),
    "rmsnorm_one_plus": lambda x, layer: references.divided_by_rms(x, eps=EPS) * (1 + layer.weight[:, None]),
    "ssnorm": lambda x, layer: references.divided_by_rms(x, eps=EPS) * layer.weight,
    "scalenorm": lambda x, layer: references.scale_norm(x, layer.weight, eps=EPS),
    "batchnorm_unbiased": of("batch", correction=1),
    "batchnorm_eps_outside": of("batch", outside=True),
    "batchnorm_l1": of("batch", outside=True, spread=references.mean_absolute),
    "batchnorm_linf": of("batch", outside=True, spread=references.largest_absolute),
    "batchnorm_ghost": lambda x, layer: torch.cat([of("batch")(half, layer) for half in x.chunk(2)]),
    "switchablenorm": switchable,
    "switchablenorm_layer_batch": switchable,
    "dyt": lambda x, layer: affine(
        ((2 * layer.alpha * x).exp() - 1) / ((2 * layer.alpha * x).exp() + 1), layer
    ),
    "derf": lambda x, layer: affine(
        2 * torch.special.ndtr((layer.alpha * x + layer.shift) * 2**0.5) - 1, layer
    ),
    "hardtanh": lambda x, layer: affine(
        (layer.alpha * x).maximum(-torch.ones(1)).minimum(torch.ones(1)), layer
    ),
    "affine": lambda x, layer: affine(x, layer),
}
# Norms whose independent twin another file holds, or which compute nothing of their own
ELSEWHERE = {
    **dict.fromkeys(("batchrenorm", "powernorm", "powernorm_unscaled"), "test_against_papers.py"),
    **dict.fromkeys(
        (
            "batchnorm", "layernorm", "groupnorm", "instancenorm", "none", "batchnorm_cumulative", "batchnorm_frozen",
            "batchnorm_noisy", "batchnorm_precise", "batchnorm_sync",
        ),
        "test_against_torch.py",
    ),
    "original": "layers.py",  # keeps a network's own
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "configs" / "norm").glob("*.yaml")))
def test_every_norm_has_an_independent_twin(name):
    """A formula that is written once has nothing to be held against."""
    if name in TWINS:
        return
    assert name in ELSEWHERE, f"{name}: write its slow twin in references.py and a row of TWINS here"
    assert f'"{name}"' in (ROOT / "tests" / "norms" / ELSEWHERE[name]).read_text()


CASES = [(name, layout) for name in TWINS for layout in LAYOUTS]
CASES = [case for case in CASES if case[0] != "switchablenorm" or case[1] == "image"]


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_values_and_gradients_equal_the_papers_equations(name, layout):
    """In eval mode too, for those that compute the same there; the others are in test_against_papers_in_eval.py."""
    layer, x = build(name, layout), small_sample(layout)
    modes = (True,) if layer.batch_statistics else (True, False)
    layers = [build(name, layout, native=native).train(mode) for native in (True, False) for mode in modes]
    outcomes = [outcome(each, x) for each in layers]
    x = x.requires_grad_()
    y = TWINS[name](places(x, layout), layer).reshape(x.shape)
    assert_twin(outcomes, y, x, layer)


@pytest.mark.parametrize("detach", ["none", "mean", "std", "both"])
def test_detach_stops_the_gradient_of_each_statistic(detach):
    layer, x = build("layernorm", "dense", f"detach={detach}"), sample("dense").requires_grad_()
    which = "mean std" if detach == "both" else detach
    y = references.normalized(x[..., None], "sample", eps=EPS, detach=which)[..., 0]
    (y * layer.weight + layer.bias).backward(values(y.shape, seed=1))
    torch.testing.assert_close(outcome(layer, x.detach())["gradient of x"], x.grad)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("step", [0, 1, 2, 9])
def test_batch_renorm_follows_algorithm_1_and_its_schedule(layout, step):
    """warmup_steps=1, r_steps=d_steps=3: limits (1, 0) at steps 0 and 1, (2, 2.5) at step 2, (3, 5) from step 3."""
    layer = build("batchrenorm", layout)
    layer.num_batches_tracked.fill_(step)
    r_limit, d_limit = {0: (1, 0), 1: (1, 0), 2: (2, 2.5), 9: (3, 5)}[step]
    running = layer.running_mean.clone(), layer.running_var.clone()
    x = sample(layout)
    ours = outcome(layer, x)
    x = x.requires_grad_()
    y = references.batch_renorm(places(x, layout), *running, eps=EPS, r_limit=r_limit, d_limit=d_limit)
    y = affine(y, layer).reshape(x.shape)
    assert_twin([ours], y, x, layer)


@pytest.mark.parametrize("name", ["powernorm", "powernorm_unscaled"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_power_norm_follows_the_papers_algorithms_for_three_steps(name, layout):
    """warmup_steps=1: the first step uses the batch, the next two the running estimate."""
    layer = build(name, layout)
    start = layer.running_phi, layer.running_nu
    twin = references.PowerNormReference(*start, eps=EPS, keep=0.9, gradient_keep=0.9)
    for step in range(3):
        x, g = sample(layout, seed=step).requires_grad_(), values(LAYOUTS[layout][0], seed=10 + step)
        layer.zero_grad()
        y = layer(x)
        y.backward(g)
        inner = places(x, layout)
        if layer.token_scaling:
            inner = references.divided_by_rms(inner, eps=EPS)
        direction = places(g, layout) * layer.weight.detach()[:, None]
        z, gradient = twin.step(inner.detach(), direction, warm=step == 0)
        torch.testing.assert_close(y.detach(), affine(z, layer).detach().reshape(y.shape))
        scaled = layer.token_scaling
        expected = torch.autograd.grad(inner, x, gradient)[0] if scaled else gradient.reshape(x.shape)
        torch.testing.assert_close(x.grad, expected)
        torch.testing.assert_close(layer.weight.grad, (places(g, layout) * z).sum((0, 2)))
        torch.testing.assert_close(layer.bias.grad, places(g, layout).sum((0, 2)))
        torch.testing.assert_close(layer.running_phi, twin.phi)
        torch.testing.assert_close(layer.running_nu, twin.nu)
