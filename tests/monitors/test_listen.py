"""Norms and activations that a network calls as functions, or runs without holding them, are heard where they stand."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normexp.models.sites import sites_of
from normexp.monitors import Activations, Gradients, Representation, Stream
from normexp.monitors.activations import bounds
from normexp.monitors.guard import loss_of
from normexp.monitors.listen import CalledFunction, listen


class Step(nn.Module):
    """A network with the step that a LightningModule has."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def training_step(self, batch, index):
        return self.net(batch).square().mean()


class Calls(nn.Module):
    """A layer that calls functions, between two linear maps."""

    def __init__(self, *functions, **own):
        super().__init__()
        self.before, self.after, self.functions = nn.Linear(6, 6), nn.Linear(6, 6), functions
        for name, value in own.items():
            setattr(self, name, value)

    def forward(self, x):
        x = self.before(x)
        for function in self.functions:
            x = function(x)
        return self.after(x)


def heard_in(net, x):
    """What is heard: (layer, kind, module, path), input and output."""
    module, heard = Step(net), []

    def listener(site, x):
        at, given = handle.path, x.detach().clone()
        return lambda output: heard.append((site, at, given, output.detach().clone()))

    handle = listen(module, sites_of(module), listener)
    loss = loss_of(module, x)
    handle.remove()
    assert torch.equal(loss, module.training_step(x, 0))
    assert "training_step" not in module.__dict__
    return heard


ONES, ZEROS = torch.full((6,), 2.0), torch.full((6,), 0.5)
FUNCTIONS = {  # what is called, its name, its channel_dim, its eps
    "F.layer_norm": (lambda x: F.layer_norm(x, (6,), ONES, ZEROS, 1e-3), "layer_norm", -1, 1e-3),
    "F.layer_norm by name": (lambda x: F.layer_norm(input=x, normalized_shape=[6]), "layer_norm", -1, 1e-5),
    "F.layer_norm over two axes": (lambda x: F.layer_norm(x, x.shape[1:]), "layer_norm", None, 1e-5),
    "torch.layer_norm": (lambda x: torch.layer_norm(x, (6,), ONES, None, 1e-4), "layer_norm", -1, 1e-4),
    "F.rms_norm": (lambda x: F.rms_norm(x, (6,), ONES), "rms_norm", -1, torch.finfo(torch.float32).eps),
    "torch.rms_norm": (lambda x: torch.rms_norm(x, (6,), None, 1e-6), "rms_norm", -1, 1e-6),
    "F.group_norm": (lambda x: F.group_norm(x, 2), "group_norm", 1, 1e-5),
    "torch.group_norm": (lambda x: torch.group_norm(x, 2, eps=1e-2), "group_norm", 1, 1e-2),
    "F.batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), "batch_norm", 1, 1e-5),
    "torch.batch_norm": (
        lambda x: torch.batch_norm(x, ONES[:4], None, None, None, True, 0.1, 1e-2, False), "batch_norm", 1, 1e-2,
    ),
    "F.instance_norm": (lambda x: F.instance_norm(x, eps=1e-3), "instance_norm", 1, 1e-3),
    "F.normalize": (lambda x: F.normalize(x, dim=-1), "normalize", -1, 1e-12),
    "F.normalize over another axis": (F.normalize, "normalize", 1, 1e-12),
}  # fmt: skip


@pytest.mark.parametrize("what", FUNCTIONS)
def test_a_norm_that_is_called_as_a_function_is_heard_once_with_its_options(what):
    function, name, channel_dim, eps = FUNCTIONS[what]
    x = torch.randn(3, 4, 6)
    ((site, path, given, output),) = heard_in(Calls(function), x)
    assert (site.layer, site.kind, path) == (f"layer00_net_{name}", "norm", "net")
    assert (site.module.name, site.module.path, site.module.channel_dim) == (name, "net", channel_dim)
    assert site.module.eps == pytest.approx(eps)
    assert torch.equal(output, function(given))
    assert torch.equal(site.module(given), output)


def test_the_arguments_of_a_norm_have_names():
    mean, var = torch.zeros(4), torch.ones(4)
    calls = (
        lambda x: torch.batch_norm(x, ONES[:4], ZEROS[:4], mean, var, False, 0.1, 1e-5, False),
        lambda x: F.batch_norm(x, mean, var, ONES[:4], ZEROS[:4], eps=1e-5),
        lambda x: F.instance_norm(x, mean, var, ONES[:4], ZEROS[:4], False),
    )
    heard = heard_in(Calls(*calls), torch.randn(3, 4, 6))
    assert len(heard) == 3
    for site, *_ in heard:
        found = site.module.given
        assert all(found[key] is value for key, value in {"running_mean": mean, "running_var": var}.items())
        assert torch.equal(found["weight"], ONES[:4])
        assert torch.equal(found["bias"], ZEROS[:4])
        assert not site.module.training


class Rescale(nn.Module):
    """A call of a norm in a layer that no name tells to be one."""

    def __init__(self, size):
        super().__init__()
        # The Dropout of 0 keeps its outputs from being tried: a layer that runs others is no norm.
        self.weight, self.inner = nn.Parameter(torch.ones(size)), nn.Dropout(0.0)

    def forward(self, x):
        return F.layer_norm(self.inner(x), self.weight.shape, self.weight, None, 1e-5)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.q, self.k = Rescale(6), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        x = self.first(x)
        return F.gelu(F.rms_norm(self.q(x), (6,)) + F.rms_norm(self.k(x), (6,)))


def test_names_say_where_a_norm_stands_and_a_layer_that_runs_twice_is_heard_once():
    block = Block()
    heard = heard_in(nn.Sequential(nn.Linear(6, 6), block, nn.Sequential(block)), torch.randn(2, 6))
    norms = [site.layer for site, *_ in heard if site.kind == "norm"]
    assert norms == ["layer00_net_1_first_layer_norm", "layer01_net_1_rms_norm", "layer02_net_1_rms_norm2"]
    assert [site.layer for site, *_ in heard if site.kind == "activation"] == ["layer02_net_1_k_gelu"]


def test_what_stands_inside_of_a_norm_or_an_activation_is_that_layer():
    inside = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.RMSNorm(6), nn.ReLU(), nn.BatchNorm1d(6))
    assert heard_in(inside, torch.randn(4, 6)) == []


BOUNDED = {
    "sigmoid": nn.Sigmoid(), "hardsigmoid": nn.Hardsigmoid(), "tanh": nn.Tanh(), "softsign": nn.Softsign(),
    "relu6": nn.ReLU6(), "relu": nn.ReLU(), "softplus": nn.Softplus(),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_of_an_activation_are_its_values_far_out(name):
    function = getattr(F, name)
    low, high = function(torch.tensor([-1e6, 1e6])).tolist()
    expected = pytest.approx((low, high), abs=1e-5) if high < 100 else None
    called = CalledFunction(function, name, "", (), {}, torch.ones(1))
    assert bounds(called) == bounds(BOUNDED[name]) == expected


@pytest.mark.parametrize("number", [10, 11, 100, 101])
def test_names_before_the_first_layer_are_as_wide_as_those_of_layers(number):
    net = nn.Sequential(Rescale(1), *(nn.Linear(1, 1) for _ in range(number)))
    names = [heard_in(net, torch.ones(2, 1))[0][0].layer, sites_of(Step(net))[0].layer]
    assert len({len(name.split("_")[0]) for name in names}) == 1, names


@pytest.mark.parametrize("turned", [False, True])
def test_weights_of_unit_length_are_no_norm(turned):
    class Cosine(nn.Linear):
        def forward(self, x):
            w = self.weight.T if turned else self.weight
            w = F.normalize(w, dim=0 if turned else -1)
            return F.linear(x, w.T if turned else w)

    assert heard_in(Cosine(6, 6), torch.randn(4, 6)) == []


class Unheld(nn.Module):
    """Norms that no list of modules has: in a Python list, and made inside forward."""

    def __init__(self):
        super().__init__()
        self.a, self.norms = nn.Linear(6, 6), [nn.BatchNorm1d(6)]

    def forward(self, x):
        return nn.ReLU()(nn.LayerNorm(6)(self.norms[0](self.a(x))))


def test_a_norm_that_the_network_does_not_hold_is_heard():
    net = Unheld()
    heard = heard_in(net, torch.randn(4, 6))
    assert [(site.layer, site.kind) for site, *_ in heard] == [
        ("layer00_net_BatchNorm1d", "norm"),
        ("layer00_net_LayerNorm", "norm"),
        ("layer00_net_a_relu", "activation"),
    ]
    assert heard[0][0].module is net.norms[0]
    assert not any(isinstance(site.module, CalledFunction) for site, *_ in heard[:2])
    assert torch.allclose(heard[1][2], F.batch_norm(heard[0][2], None, None, training=True))


def test_a_whole_network_that_is_held_elsewhere_is_none_of_ours():
    teacher = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.ReLU(), Calls(FUNCTIONS["F.rms_norm"][0]))
    assert heard_in(Calls(lambda x: x + teacher(x)), torch.randn(4, 6)) == []


class Gelu(nn.Module):
    def forward(self, x):
        return F.tanh(F.gelu(x))


def test_monitors_measure_what_is_called_as_what_is_held():
    """Twin: the same network whose norm and activations are layers."""
    torch.manual_seed(0)
    called = nn.Sequential(nn.Linear(6, 6), Rescale(6), nn.Linear(6, 3), Gelu())
    layers = nn.Sequential(called[0], nn.LayerNorm(6, bias=False), called[2], nn.GELU(), nn.Tanh())
    names = {
        "layer01_net_1": "layer00_net_1_layer_norm", "layer02_net_2": "layer01_net_2",
        "layer03_net_3": "layer01_net_2_gelu", "layer04_net_4": "layer01_net_2_tanh",
    }  # fmt: skip
    x, places = torch.randn(5, 6), ["norm_input", "norm_output", "preactivation", "activation"]
    for monitor in (
        Activations(every_n_steps=1, places=places), Stream(every_n_steps=1), Representation(every_n_steps=1),
        Gradients(every_n_steps=1),
    ):  # fmt: skip
        found = monitor.measure(Step(called), x)
        expected = monitor.measure(Step(layers), x)
        renamed = {}
        for tag, value in expected.items():
            statistic, layer = tag.split("/")
            renamed[f"{statistic}/{names.get(layer, layer)}"] = value
        assert renamed
        assert found == pytest.approx(renamed, rel=1e-5, nan_ok=True)
