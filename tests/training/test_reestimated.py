"""Final metrics with running statistics that are estimated anew in eval mode, against plain loops."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from pytorch_lightning import Callback
from recorded import points
from test_one_run import weights
from torch import nn

import normexp
from normexp.monitors import RunMeasure
from normexp.training.screen import mode_gap

NAMES = [f"{split}/{name}_reestimated" for split in ("val", "test") for name in ("loss", "accuracy")]


class Keep(Callback):
    """Keeps the module and the data of a run."""

    def on_train_end(self, trainer, module):
        self.module, self.data = module, trainer.datamodule


def layer_by_layer(network: nn.Module, train: torch.Tensor, test: torch.Tensor) -> torch.Tensor:
    """Logits for `test` of an MLP whose BatchNorms have the moments of all of `train` behind the layers before them,
    each computed as eval mode would, in float64."""
    layers = [m for m in network.modules() if not list(m.children())]
    x, y = train.double().flatten(1), test.double().flatten(1)
    for layer in layers:
        found = (getattr(layer, name, None) for name in ("weight", "bias"))
        weight, bias = (value.double() if isinstance(value, torch.Tensor) else None for value in found)
        if isinstance(layer, nn.Linear):
            x, y = F.linear(x, weight, bias), F.linear(y, weight, bias)
        elif hasattr(layer, "running_mean"):
            mean, var = x.mean(0), x.var(0)
            x, y = ((z - mean) / (var + layer.eps).sqrt() * weight + bias for z in (x, y))
        elif isinstance(layer, nn.ReLU):
            x, y = x.relu(), y.relu()
        else:
            assert isinstance(layer, nn.Flatten | nn.Dropout | nn.Identity), layer
    return y


@pytest.mark.parametrize("norm", ["batchnorm", "batchnorm_noisy norm.population_statistics=ema"])
def test_numbers_are_those_of_a_plain_loop_over_layers(train, monkeypatch, norm):
    """Also with noise and dropout in training, which eval mode lacks; over as many samples as are asked for."""
    monkeypatch.setattr("normexp.training.result.POPULATION_SAMPLES", 1000)
    keep = Keep()
    words = [*f"norm={norm}".split(), "batch_size=8", "model.depth=3", "model.activation=relu"]
    summary, _ = train(*words, callbacks=[keep])
    splits = {name: (rows.x, rows.y) for name, rows in keep.data.splits.items()}
    inputs = {split: keep.data.rows(split, torch.device("cpu")).take(slice(1000)) for split in splits}
    for split in ("val", "test"):
        x, y = inputs[split]
        logits = layer_by_layer(keep.module.model, inputs["train"][0], x)
        found = summary["metrics"]
        wanted = F.cross_entropy(logits, y).item()
        assert found[f"{split}/loss_reestimated"] == pytest.approx(wanted, rel=1e-4)
        right = (logits.argmax(1) == y).double().mean().item()
        assert found[f"{split}/accuracy_reestimated"] == pytest.approx(right, abs=1e-9)
        assert found[f"{split}/loss_reestimated"] != found[f"{split}/loss"]


class Compare(RunMeasure):
    """What the measure sees is what the checkpoint holds."""

    def measure_run(self, run):
        self.state = copy.deepcopy(run.module.state_dict())
        return {"seen/network": run.evaluate("test")["accuracy"]}


@pytest.mark.parametrize(
    "norm", ["batchnorm", "batchrenorm", "batchnorm_noisy norm.population_statistics=ema"]
)
def test_the_runs_own_network_keeps_its_statistics(train, norm):
    compare = Compare()
    summary, folder = train(f"norm={norm.split()[0]}", *norm.split()[1:], callbacks=[compare])
    saved = weights(folder)
    assert all(torch.equal(saved[name], value) for name, value in compare.state.items())
    assert points(folder)[str(summary["steps"]), "seen/network"] == summary["metrics"]["test/accuracy"]


@pytest.mark.parametrize("norm", ["none", "layernorm", "groupnorm", "batchnorm norm.freeze_after=1"])
def test_without_statistics_of_the_batch_the_numbers_are_equal(train, norm):
    found = train(f"norm={norm.split()[0]}", *norm.split()[1:], "max_epochs=1")[0]["metrics"]
    assert all(found[name] == found[name.removesuffix("_reestimated")] for name in NAMES)


def test_noisy_batchnorm_estimates_without_noise_by_default(train):
    """Its own numbers are those that are estimated anew, in validation too; with `ema` they are not."""
    words = ["norm=batchnorm_noisy", "model.depth=2", "max_epochs=1"]  # the second norm hears the noise
    default, _ = train(*words)
    assert default["config"]["norm"]["population_statistics"] == "precise"
    found = default["metrics"]
    assert all(
        found[name] == pytest.approx(found[name.removesuffix("_reestimated")], rel=1e-6) for name in NAMES
    )
    other, _ = train(*words, "norm.population_statistics=ema")
    assert other["hash"] != default["hash"]
    assert other["metrics"]["train/loss"] != found["train/loss"]


OWN = """
from torch import nn
class Net(nn.Module):
    def __init__(self, input_shape, num_classes):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(input_shape[0], 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5),
                                 nn.Flatten(), nn.Linear(144, 8), nn.BatchNorm1d(8, momentum=1e-4),
                                 nn.Linear(8, num_classes))
    def forward(self, x):
        return self.net(x)
"""


def test_a_network_of_ones_own_with_torchs_batchnorm_is_estimated_and_told(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_reestimated.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["model=module", "model.path=own_reestimated.Net", "norm=original"]
    run = normexp.train(
        *words, "allow_targets=[own_reestimated]", "max_epochs=2", "monitor=none", outputs=str(tmp_path)
    )
    found = run.summary["metrics"]
    # Such a momentum follows nothing.
    assert found["test/accuracy_reestimated"] > found["test/accuracy"] + 0.05
    line = mode_gap(found)
    assert line is not None
    assert f"{found['test/accuracy_reestimated']:.2%}" in line
    assert mode_gap({"test/accuracy": 0.9, "test/accuracy_reestimated": 0.905}) is None
    assert mode_gap({"test/accuracy": 0.9}) is None  # of a run from before there was the number
    assert mode_gap({"test/accuracy": None, "test/accuracy_reestimated": None}) is None  # diverged
    printed = " ".join(capsys.readouterr().out.split())
    assert "estimated anew from training samples" in printed


# Of running statistics.
PRECISIONS = {"64-true": torch.float64, "bf16-true": torch.bfloat16, "bf16-mixed": torch.float32}


@pytest.mark.integration
@pytest.mark.parametrize("precision", PRECISIONS)
def test_statistics_are_estimated_in_the_precision_of_the_run(train, precision):
    words = [f"trainer.precision={precision}", "max_steps=4"]
    wide, found = (train("norm=batchnorm", *more)[0]["metrics"] for more in (words[1:], words))
    assert found["test/loss_reestimated"] == pytest.approx(wide["test/loss_reestimated"], rel=0.05)
    precise, folder = train("norm=batchnorm_precise", *words)
    assert math.isfinite(precise["metrics"]["val/loss"])
    running = [value for key, value in weights(folder).items() if key.endswith("running_var")]
    assert running
    assert all(value.dtype == PRECISIONS[precision] and bool((value > 0).all()) for value in running)


class Broken(RunMeasure):
    def measure_run(self, run):
        run.module.eval()
        for buffer in run.module.buffers():
            buffer.zero_()
        torch.manual_seed(0)
        super().measure_run(run)  # which measures nothing


def test_a_measure_that_fails_changes_nothing_and_ends_nothing(train, tmp_path):
    words = ["norm=batchnorm_noisy", "max_epochs=1"]
    plain, _ = train(*words)
    with pytest.warns(UserWarning, match="Broken: recorded nothing: NotImplementedError"):
        watched, _ = train(*words, f"outputs={tmp_path / 'watched'}", callbacks=[Broken()])
    assert (watched["metrics"], watched["status"]) == (plain["metrics"], "completed")
