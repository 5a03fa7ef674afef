"""`debug=overfit`, `debug=limit` and `debug=nan`."""

import pytest
import torch
from small_module import Small, fit
from torch import nn

from normexp.config.run_spec import specs
from normexp.monitors import Activations, FirstNotFinite
from normexp.training.build import build


@pytest.mark.integration
@pytest.mark.parametrize("data", ["digits", "python_docs"])
def test_presets_take_little_data_of_every_kind(data, tmp_path):
    model = "mlp" if data == "digits" else "gpt"
    for preset, most in (("overfit", 64), ("limit", 256)):
        parts = build(specs([f"debug={preset}", f"data={data}", f"model={model}", f"outputs={tmp_path}"])[0])
        assert parts.config["name"] == "debug"
        batches = len(parts.data.training_order(parts.data.splits["train"]))
        assert 0 < batches * parts.config["batch_size"] <= most


@pytest.mark.integration
def test_nan_is_answered_in_one_line_at_the_end(train, capsys):
    """Whether one was found, and where; otherwise how many steps were watched."""
    train("debug='nan'", "max_epochs=2")
    assert (
        "\nis there a NaN or an infinite value? no: each output and gradient of a layer was finite in "
        in (capsys.readouterr().out)
    )
    train("debug='nan'", "optimizer=sgd", "lr=1e30", "model.depth=8")
    out = capsys.readouterr().out
    found = next(line for line in out.splitlines() if line.startswith("first value that is not finite: "))
    step, layer = found.removeprefix("first value that is not finite: step ").split(" is ")[0].split(", ")
    assert f"\nis there a NaN or an infinite value? yes, first at step {step}: {layer}\n" in out
    assert "nan : 1" not in out


class Overflow(nn.Module):
    def __init__(self, step):
        super().__init__()
        self.step, self.calls = step, 0

    def forward(self, x):
        self.calls += 1
        return x * torch.tensor(float("inf")) if self.calls == self.step else x


def test_the_first_layer_that_is_not_finite_is_named_and_training_ends_there(capsys):
    module = Small()
    module.model.insert(3, Overflow(step=4))  # behind the Tanh
    watch = FirstNotFinite()
    fit(module, [watch, Activations(every_n_steps=2)], steps=6)
    assert len(module.losses) == 4
    assert "step 4, the output of model.3 (Overflow) is " in watch.found
    assert "before it the output of model.2 (Tanh) reached 0." in watch.found
    assert watch.found in capsys.readouterr().out


def test_a_gradient_that_is_not_finite_is_named():
    class RootOfZero(nn.Module):
        def forward(self, x):
            return (x - x).sqrt()  # finite, with an infinite derivative

    module = Small(dropout=0.0)
    module.model.add_module("root", RootOfZero())
    watch = FirstNotFinite()
    fit(module, [watch], steps=3)
    assert "step 1, the gradient of model.6" in watch.found
