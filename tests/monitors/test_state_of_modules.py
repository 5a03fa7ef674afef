"""Monitors leave training as it is where a module keeps state in unusual places, where a forward writes parameters, and
where activations are computed twice or kept elsewhere; and they measure what training sees."""

import functools
from collections import OrderedDict, deque
from random import Random

import numpy as np
import pytest
import torch
from small_module import Small, batches, fit
from test_base import EVERY
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from normexp.monitors.guard import loss_of, untouched


class Teacher(Small):
    """The step moves a teacher's weights, as momentum contrast does, in place or anew."""

    def __init__(self, in_place: bool, size: int = 3):
        super().__init__()
        self.in_place = in_place
        self.teacher = nn.Linear(6, size).requires_grad_(False)

    def loss(self, batch):
        with torch.no_grad():
            for old, new in zip(self.teacher.parameters(), self.model[-1].parameters(), strict=True):
                if self.in_place:
                    old.data.mul_(0.9).add_(new.mean(), alpha=0.1)
                else:
                    old.data = 0.9 * old.data + 0.1 * new.mean()
        return super().loss(batch) + self.teacher(batch[0]).square().mean()


class Bank(Small):
    """Keeps running means in tensors of a list, a dictionary in a dictionary and a deque."""

    def __init__(self):
        super().__init__()
        self.bank, self.named = [torch.zeros(6)], {"x": {"mean": torch.zeros(6)}}
        self.last = deque([torch.zeros(6)], maxlen=2)

    def loss(self, batch):
        mean = batch[0].mean(0)
        for kept in (self.bank[0], self.named["x"]["mean"], self.last[0]):
            kept.mul_(0.9).add_(mean, alpha=0.1)
        shift = self.bank[0] + self.named["x"]["mean"] + self.last[0]
        self.last.append(mean)
        return super().loss((batch[0] - shift, batch[1]))


class Noisy(nn.ReLU):
    """An activation of a user that draws numbers and counts its calls."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return super().forward(x + 0.1 * torch.randn_like(x) * self.calls)


class Draws(Small):
    def __init__(self):
        super().__init__()
        self.model[2], self.model[4] = nn.RReLU(), Noisy()


class OwnRandom(Small):
    """Draws from generators of its own."""

    def __init__(self):
        super().__init__()
        self.generator, self.others = torch.Generator().manual_seed(0), [np.random.default_rng(0), Random(0)]

    def loss(self, batch):
        x = batch[0] + torch.randn(batch[0].shape, generator=self.generator)
        return super().loss((x + self.others[0].normal() + self.others[1].random(), batch[1]))


RECOMPUTED = {
    "reentrant": lambda f, x: checkpoint(f, x, use_reentrant=True),
    "not reentrant": lambda f, x: checkpoint(f, x, use_reentrant=False),
    "nested": lambda f, x: checkpoint(
        lambda q: checkpoint(f, q, use_reentrant=False), x, use_reentrant=False
    ),
}


class Renormed(Small):
    """torch's own layer that shortens its rows in the forward pass."""

    def __init__(self):
        super().__init__(dropout=0.0)
        self.table = nn.Embedding(3, 6, max_norm=0.5)

    def loss(self, batch):
        x, y = batch
        return F.cross_entropy(self.model(x + self.table(y)), y)


class Codebook(Small):
    """A trained codebook that moves toward its inputs through `.data`."""

    def __init__(self):
        super().__init__(dropout=0.0)
        self.codes = nn.Parameter(torch.randn(4, 6))

    def loss(self, batch):
        x, y = batch
        nearest = torch.cdist(x, self.codes).argmin(1)
        for code in nearest.unique():
            self.codes.data[code].mul_(0.9).add_(x[nearest == code].mean(0), alpha=0.1)
        return F.cross_entropy(self.model(x + self.codes[nearest]), y)


class Shrinks(Small):
    """A forward that scales a weight in place, and one that replaces its memory."""

    def loss(self, batch):
        self.model[0].weight.data.mul_(0.999)
        self.model[3].weight.data = self.model[3].weight.data * 0.999
        return super().loss(batch)


class Shifts(Small):
    """A step that writes into its batch."""

    def loss(self, batch):
        return super().loss((batch[0].sub_(0.3), batch[1]))


class Backward(Small):
    """A step that calls `backward` itself for a penalty, into `.grad`."""

    def loss(self, batch):
        (0.01 * self.model[0].weight.square().sum()).backward()
        return super().loss(batch)


class Recomputed(Small):
    """Blocks with functions, each computed again in the backward pass, or kept elsewhere."""

    def __init__(self, how):
        super().__init__(dropout=0.0)
        self.how = how

    def loss(self, batch):
        x, y = batch
        first, norm, _, second, *_, last = self.model
        run = RECOMPUTED.get(self.how)
        if run is None:
            with torch.autograd.graph.save_on_cpu():
                hidden = torch.tanh(second(F.relu(norm(first(x)))))
        else:
            x = x.clone().requires_grad_()  # as a layer in front would make it
            hidden = run(lambda q: torch.tanh(second(F.relu(norm(first(q))))), x)
        return F.cross_entropy(last(hidden), y)


MODULES = {
    "generators of its own": OwnRandom,
    "teacher in place": lambda: Teacher(in_place=True),
    "teacher anew": lambda: Teacher(in_place=False),
    "teacher in place, larger than the rest": lambda: Teacher(in_place=True, size=300),
    "bank": Bank,
    "activations that draw": Draws,
    **{kind.__name__: kind for kind in (Renormed, Codebook, Shrinks, Shifts)},
    **{how: functools.partial(Recomputed, how) for how in (*RECOMPUTED, "offloaded")},
}


def assert_unchanged(make, name):
    plain, watched, monitor = make(), make(), EVERY[name](2)
    fit(plain, [])
    fit(watched, [monitor])
    for (key, expected), found in zip(plain.state_dict().items(), watched.state_dict().values(), strict=True):
        assert torch.equal(expected, found), key
    return monitor


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("kind", MODULES)
def test_training_is_bit_identical_with_a_monitor_on_and_off(kind, name):
    if (kind, name) == ("reentrant", "hessian"):  # such a checkpoint has no second derivatives
        text = r"monitor HessianTopEigenvalue: .*use_reentrant=True: .* set use_reentrant=False"
        with pytest.warns(UserWarning, match=text):
            assert not assert_unchanged(MODULES[kind], name).recorded
        return
    assert assert_unchanged(MODULES[kind], name).recorded


@pytest.mark.parametrize("name", ["smoothness", "hessian", "internal_covariate_shift"])
def test_a_step_that_calls_backward_keeps_its_gradients(name):
    assert assert_unchanged(Backward, name).recorded


class Checkpointed(Small):
    """A reentrant checkpoint begins the network, so that `torch.autograd.grad` gives nothing for what is inside."""

    def __init__(self, reentrant: bool):
        super().__init__(dropout=0.0)
        self.reentrant = reentrant

    def loss(self, batch):
        x, y = batch
        x = x.clone().requires_grad_()
        x = checkpoint(self.model[:2], x, use_reentrant=True) if self.reentrant else self.model[:2](x)
        return F.cross_entropy(self.model[2:](x), y)


def test_gradients_inside_a_reentrant_checkpoint_are_measured():
    plain, inside, batch = Checkpointed(False), Checkpointed(True), next(iter(batches(1)))
    for name in ("gradients", "smoothness"):
        expected, found = (EVERY[name](2).measure(module, batch) for module in (plain, inside))
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-9)
        assert inside.model[0].weight.grad is None
    with pytest.raises(ValueError, match="set use_reentrant=False"):
        EVERY["hessian"](2).measure(inside, batch)


def test_a_buffer_of_two_layers_is_one_in_an_extra_pass():
    class Shared(Small):
        def __init__(self):
            super().__init__(dropout=0.0)
            self.reader = nn.Module()
            self.reader.register_buffer("mean", self.model[1].running_mean)

        def loss(self, batch):
            hidden = self.model[1](self.model[0](batch[0]))
            return F.mse_loss(hidden, hidden.detach() + 1) + self.reader.mean.sum()

    module, batch = Shared(), batches(1).dataset.tensors
    with untouched(module):
        found = loss_of(module, batch)
    assert found.item() == module.loss(batch).item()


def refuse(*args, **named):
    raise RuntimeError("frozen")


def holder(base, *refused):
    """A container of an own class whose methods raise, once it is made."""
    made = type("Own", (base,), {})

    def make(*args):
        made_one = made(*args)
        for name in refused:
            setattr(made, name, refuse)
        return made_one

    return make


HELD = {
    "dict without update": lambda: holder(dict, "update")({"width": torch.ones(2)}),
    "dict without items": lambda: holder(dict, "items", "__iter__")({"a": [torch.ones(2)]}),
    "dict that cannot be written": lambda: holder(dict, "__setitem__")({"a": [1], "b": torch.ones(2)}),
    "ordered dict that cannot be written": lambda: holder(OrderedDict, "__setitem__")({"a": torch.ones(2)}),
    "dict that cannot be copied": lambda: holder(dict, "__copy__", "__reduce_ex__")({"a": 1}),
    "list that cannot be written": lambda: holder(list, "__setitem__", "append", "extend")([torch.ones(2)]),
    "tuple of its own class": lambda: holder(tuple, "__new__")([torch.ones(2)]),
    "set that cannot be copied": lambda: holder(set, "__reduce_ex__", "copy", "__iter__")({1}),
    "random numbers that cannot be copied": lambda: holder(Random, "__deepcopy__", "__reduce__")(0),
}
HELD["all of them, one in another"] = lambda: {"a": [make() for key, make in list(HELD.items())[:9]]}


@pytest.mark.parametrize("kind", HELD)
def test_what_a_module_holds_may_refuse_anything(kind):
    module = nn.Linear(2, 2)
    module.held = original = HELD[kind]()
    with untouched(module):
        module.state = 1
    assert module.held is original
    assert not hasattr(module, "state")


def test_a_container_that_holds_itself_is_copied_once():
    module = nn.Linear(2, 2)
    module.held = held = {"count": [torch.zeros(1)]}
    held["self"] = [held]
    with untouched(module):
        assert module.held["self"][0] is module.held is not held
        module.held["count"][0] += 1
        module.held["new"] = 1
    assert held["count"][0] == 0
    assert held.keys() == {"count", "self"}
