"""How often a measurement waits for the device: once a monitor, and never at the steps between."""

import pytest
import torch
from small_module import Small, fit
from torch.utils._python_dispatch import TorchDispatchMode

from normexp.monitors import Activations, Gradients

LIGHT = {"activations": Activations, "gradients": Gradients}
# item(), bool(), x[mask]
WAITING = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default}


class Silent(Small):
    def training_step(self, batch, batch_idx):
        return self.loss(batch)


class Waits(TorchDispatchMode):
    """Counts what would make a GPU's host wait; copies to the host too, which on a CPU are no operations."""

    def __init__(self, monkeypatch):
        super().__init__()
        self.count = 0
        for name in ("tolist", "cpu", "numpy"):
            original = getattr(torch.Tensor, name)
            monkeypatch.setattr(torch.Tensor, name, self.counting(original))

    def counting(self, original):
        def method(*arguments, **options):
            self.count += 1
            return original(*arguments, **options)

        return method

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.count += function in WAITING
        return function(*arguments, **(options or {}))


def waits(names, monkeypatch, steps=5):
    with monkeypatch.context() as patch, Waits(patch) as counted:
        fit(Silent(dropout=0), [LIGHT[name](every_n_steps=2) for name in names], steps=steps)
    return counted.count


@pytest.mark.parametrize("names", [["activations"], ["gradients"], ["activations", "gradients"]])
def test_a_measurement_waits_once_a_monitor(names, monkeypatch):
    """Measured are steps 0, 2, 4 and the end."""
    assert waits(names, monkeypatch) - waits([], monkeypatch) == 4 * len(names)
