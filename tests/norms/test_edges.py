"""Half precision, empty batches and transforms of torch.func: each norm is right there, or says one line."""

import copy

import pytest
import torch
from norms.layers import CASES, LAYOUTS, norm_factory, sample
from refusals import refused


def layer_of(name: str, layout: str, *overrides: str) -> torch.nn.Module:
    return norm_factory(name, *overrides)(8, LAYOUTS[layout][1])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "name", ["batchnorm", "layernorm", "groupnorm", "layernorm_eps_outside", "batchnorm_eps_outside"]
)
def test_an_unbiased_variance_in_half_precision(name, layout):
    layer, x = layer_of(name, layout, "correction=1"), sample(layout, dtype=torch.float32).half()
    half = copy.deepcopy(layer).half()
    for _ in range(2):
        y, expected = half(x), layer(x.float())
        assert y.dtype == torch.float16
        torch.testing.assert_close(y.float(), expected, rtol=4e-3, atol=4e-3)
    for (key, found), wanted in zip(half.named_buffers(), layer.buffers(), strict=True):
        torch.testing.assert_close(found.float(), wanted.float(), rtol=4e-3, atol=4e-3, msg=key)
    half(x).sum().backward()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("name", "layout"), CASES)
def test_an_empty_batch(name, layout, training):
    layer = layer_of(name, layout).train(training)
    x = sample(layout, dtype=torch.float32)[:0].requires_grad_()
    before = copy.deepcopy(layer.state_dict())
    if training and layer.batch_statistics:
        with refused(r"^x\.shape=\(0, .*\): an empty batch has no statistics; leave it out$"):
            layer(x)
    else:
        y = layer(x)
        y.sum().backward()
        assert y.shape == x.shape == x.grad.shape
    torch.testing.assert_close(layer.state_dict(), before, rtol=0, atol=0)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("name", "layout"), CASES)
def test_the_gradient_of_torch_func(name, layout, training):
    layer, x = layer_of(name, layout).train(training), sample(layout, dtype=torch.float32)

    def loss(x):
        return layer(x).square().mul(torch.arange(8.0) if layout == "tokens" else 1).sum()

    if training and layer.batch_statistics:
        with refused(r"moves its running statistics, which a transform of torch\.func cannot; "):
            torch.func.grad(loss)(x)
        layer.eval()
    own = x.clone().requires_grad_()
    loss(own).backward()
    torch.testing.assert_close(torch.func.grad(loss)(x), own.grad)
