"""Monitors leave training as it is where a module keeps state in unusual places, and measure what training sees."""

from collections import deque

import pytest
import torch
from small_module import Small, batches, fit
from test_base import EVERY
from torch import nn
from torch.nn import functional as F

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


MODULES = {
    "teacher in place": lambda: Teacher(in_place=True),
    "teacher anew": lambda: Teacher(in_place=False),
    "teacher in place, larger than the rest": lambda: Teacher(in_place=True, size=300),
    "bank": Bank,
    "activations that draw": Draws,
}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("kind", MODULES)
def test_training_is_bit_identical_with_a_monitor_on_and_off(kind, name):
    plain, watched = MODULES[kind](), MODULES[kind]()
    fit(plain, [])
    fit(watched, [EVERY[name](2)])
    for (key, expected), found in zip(plain.state_dict().items(), watched.state_dict().values(), strict=True):
        assert torch.equal(expected, found), key


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


def test_a_batch_with_tensors_that_are_no_samples_is_not_cut():
    class Weighted(Small):
        def loss(self, batch):
            return F.cross_entropy(self.model(batch["x"] + batch["others"].mean(0)), batch["y"])

    x, y = batches(1).dataset.tensors
    with pytest.raises(ValueError, match="its tensors have 16, 16, 24 rows"):
        EVERY["gradient_noise"](1).measure(Weighted(), {"x": x, "y": y, "others": torch.randn(24, 6)})


def test_a_layer_without_gradients_is_left_out():
    class Spare(Small):
        def __init__(self):
            super().__init__()
            self.spare = nn.Linear(3, 3)

    monitor = EVERY["covariate_shift_proxies"](2)
    fit(Spare(), [monitor])
    assert monitor.recorded
    assert not any("spare" in tag for tag in monitor.recorded)
