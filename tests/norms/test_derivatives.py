"""First and second derivatives of every member, in reverse and forward mode, and batches of layers under vmap."""

import pytest
import torch
from norms.layers import CASES, REFUSED, build, sample, values
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import functional_call

SMALL = {"dense": (4, 8), "image": (2, 8, 1, 2), "tokens": (2, 2, 8)}
# In training, their backward pass is by design not the gradient.
POWER = ("powernorm", "powernorm_unscaled")
DETACHED = ("adanorm", "layernorm_detach")  # the same in every mode


def as_function(layer, x):
    """The layer as a pure function of its trained parameters and x: each call starts from the same buffers."""
    names = [name for name, p in layer.named_parameters() if p.requires_grad]

    def function(x, *parameters):
        state = {name: buffer.clone() for name, buffer in layer.named_buffers()}
        state |= dict(zip(names, parameters, strict=True))
        return functional_call(layer, state, (x,))

    parameters = [layer.get_parameter(name).detach().clone().requires_grad_() for name in names]
    return function, (x.clone().requires_grad_(), *parameters)


DIFFERENTIATED = [(name, layout) for name, layout in CASES if name not in DETACHED]


@pytest.mark.parametrize(("name", "layout"), DIFFERENTIATED)
def test_gradcheck_in_training_and_eval(name, layout):
    for training in (False,) if name in POWER else (True, False):
        for native in (True, False):
            layer = build(name, layout, native=native).train(training)
            assert gradcheck(*as_function(layer, values(SMALL[layout])), fast_mode=True)


@pytest.mark.parametrize(("name", "layout"), DIFFERENTIATED)
def test_second_derivatives_are_right_with_native_kernels_too(name, layout):
    """If the gradient of a kernel is differentiated again, the formula takes over."""
    layer = build(name, layout).train(name not in POWER)
    assert gradgradcheck(*as_function(layer, values(SMALL[layout])), fast_mode=True)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated")  # torch's forward mode
@pytest.mark.parametrize("name", sorted({name for name, _ in DIFFERENTIATED} - set(POWER)))
def test_formula_has_forward_mode_derivatives(name):
    layout = "image" if (name, "tokens") in REFUSED else "tokens"
    layer = build(name, layout, native=False)
    function, (x, *parameters) = as_function(layer, sample(layout))
    direction, g = values(x.shape, seed=2), values(x.shape, seed=3)
    with forward_ad.dual_level():
        y = function(forward_ad.make_dual(x.detach(), direction), *parameters)
        tangent = forward_ad.unpack_dual(y).tangent
    (gradient,) = torch.autograd.grad(function(x, *parameters), x, g)
    torch.testing.assert_close((tangent * g).sum(), (gradient * direction).sum())


def test_functional_gradient_inside_vmap_is_right():
    """torch.func.grad under vmap: per-sample gradients of a member that runs on its own kernel."""
    layer = build("layernorm_eps_outside")
    x, g = sample("dense"), values((4, 8), seed=1)
    inner = torch.vmap(torch.func.grad(lambda row, g: (layer(row[None])[0] * g).sum()))(x, g)
    x = x.requires_grad_()
    (expected,) = torch.autograd.grad(layer(x), x, g)
    torch.testing.assert_close(inner, expected)
