"""torch.compile sees one graph: it gets the formula, whose operations it fuses."""

import pytest
import torch
from norms.layers import NAMES, REFUSED, build, outcome, sample, values

SEVERAL_GRAPHS = {"batchnorm_noisy"}  # it seeds a generator at every step, which the compiler cannot trace


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:Dynamo does not know how to trace:UserWarning",
    "ignore:The .grad attribute",
    "ignore:.*autograd.function.Function.* should not be instantiated",  # torch 2.11 does, to trace one
)
@pytest.mark.parametrize("name", NAMES)
def test_compiled_layer_is_one_graph_and_gives_the_same(name):
    layout = "image" if (name, "tokens") in REFUSED else "tokens"
    layer, x = build(name, layout), sample(layout)
    expected = outcome(layer, x)
    torch._dynamo.reset()
    x.requires_grad_()
    y = torch.compile(layer, fullgraph=name not in SEVERAL_GRAPHS, backend="aot_eager")(x)
    y.backward(values(y.shape, seed=1))
    torch.testing.assert_close(y.detach(), expected["output"])
    torch.testing.assert_close(x.grad, expected["gradient of x"])
    for key, buffer in layer.named_buffers():
        torch.testing.assert_close(buffer, expected[key])
