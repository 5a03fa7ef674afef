"""What makes the host wait for the device in a training step is found, and named by its line."""

import pytest
import torch
from training.waits import waits

from normexp.norms import LayerNorm

SMALL = ["trainer=cpu", "model.depth=1", "model.width=16", "norm=layernorm"]


def test_a_step_between_two_events_waits_for_nothing():
    assert waits(SMALL) == {}


@pytest.mark.parametrize("wait", [lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: bool(x.any())])
def test_what_waits_is_counted_once_a_step_and_layer(monkeypatch, wait):
    forward = LayerNorm.normalize

    def waiting(self, x: torch.Tensor):
        wait(x)
        return forward(self, x)

    monkeypatch.setattr(LayerNorm, "normalize", waiting)
    (line,), (count,) = zip(*waits(SMALL).items(), strict=True)
    assert line.startswith("norms/")
    assert count == 1
