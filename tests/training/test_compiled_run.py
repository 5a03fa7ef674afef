"""`compile=true` through a whole run."""

import pytest
import torch
from recorded import points

# Statistics of the third and fourth power, and of random samples, magnify rounding.
CHOSEN = ("activation_mean", "activation_std", "norm_output_std", "gradient_norm")


def chosen(folder):
    return {key: value for key, value in points(folder).items() if key[1].startswith(CHOSEN)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated")  # torch 2.11 imports what uses it
def test_compiled_run_equals_the_plain_one_up_to_rounding(train, tmp_path):
    options = ["trainer=float64", "monitor=light", "monitor.activations.every_n_steps=10", "norm=batchnorm"]
    plain, plain_folder = train(*options, f"outputs={tmp_path / 'plain'}")
    compiled, folder = train(*options, "compile=true")
    assert compiled["hash"] == plain["hash"]
    assert compiled["metrics"] == pytest.approx(plain["metrics"], rel=1e-9)
    assert chosen(folder).keys() == chosen(plain_folder).keys()
    assert chosen(folder) == pytest.approx(chosen(plain_folder), rel=1e-6, abs=1e-9)


def test_run_compiles_the_network_and_says_so(train, tmp_path, monkeypatch):
    compiled = []
    note = lambda module, mode: compiled.append((type(module).__name__, mode))  # noqa: E731
    monkeypatch.setattr(torch.nn.Module, "compile", note)
    summary, _ = train("compile=true")
    assert compiled == [("MLP", "default")]
    assert summary["execution"]["mode"] == "compiled"
