"""Monitors change nothing where a forward writes parameters, and measure where activations are computed twice or kept
elsewhere."""

import pytest
import torch
from small_module import Small, fit
from test_base import EVERY
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

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


class Checkpointed(Small):
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


def assert_unchanged(make, name):
    plain, watched = make(), make()
    fit(plain, [])
    monitor = EVERY[name](2)
    fit(watched, [monitor])
    for (key, expected), found in zip(plain.state_dict().items(), watched.state_dict().values(), strict=True):
        assert torch.equal(expected, found), key
    return monitor


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("kind", [Renormed, Codebook, Shrinks, Shifts])
def test_training_is_bit_identical_where_a_forward_writes(kind, name):
    assert assert_unchanged(kind, name).recorded


@pytest.mark.parametrize("name", ["smoothness", "hessian", "internal_covariate_shift"])
def test_a_step_that_calls_backward_keeps_its_gradients(name):
    assert assert_unchanged(Backward, name).recorded


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("how", [*RECOMPUTED, "offloaded"])
def test_training_is_bit_identical_where_activations_are_recomputed(how, name):
    if (how, name) == ("reentrant", "hessian"):  # such a checkpoint has no second derivatives
        text = r"monitor HessianTopEigenvalue: .*use_reentrant=True: .* set use_reentrant=False"
        with pytest.warns(UserWarning, match=text):
            assert not assert_unchanged(lambda: Checkpointed(how), name).recorded
        return
    assert assert_unchanged(lambda: Checkpointed(how), name).recorded
