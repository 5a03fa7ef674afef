"""What a module holds is copied for an extra pass, or left alone; and gradients are those that training sees."""

from collections import OrderedDict
from random import Random

import pytest
import torch
from small_module import Small, batches
from test_base import EVERY
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from normexp.monitors.guard import loss_of, untouched


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


HELD = [  # a container, which of its methods raise once it is made, and what is in it
    (dict, ["update"], {"width": torch.ones(2)}),
    (dict, ["items", "__iter__"], {"a": [torch.ones(2)]}),
    (dict, ["__setitem__"], {"a": [1], "b": torch.ones(2)}),
    (dict, ["__copy__", "__reduce_ex__"], {"a": 1}),
    (OrderedDict, ["__setitem__"], {"a": torch.ones(2)}),
    (list, ["__setitem__", "append", "extend"], [torch.ones(2)]),
    (tuple, ["__new__"], [torch.ones(2)]),
    (set, ["__reduce_ex__", "copy", "__iter__"], {1}),
    (Random, ["__deepcopy__", "__reduce__"], 0),
]


def held(base, refused, value):
    own = type("Own", (base,), {})
    made = own(value)
    for name in refused:
        setattr(own, name, refuse)
    return made


@pytest.mark.parametrize("every", [*([one] for one in HELD), HELD], ids=str)
def test_what_a_module_holds_may_refuse_anything(every):
    module, original = nn.Linear(2, 2), [held(*one) for one in every]
    module.alone, module.together = original[0], {"a": original}
    with untouched(module):
        module.state = 1
    assert module.alone is original[0]
    assert module.together["a"] is original
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
