"""Replicas end as the same runs trained alone."""

import copy
import csv
import dataclasses
import functools
import json
import os
import shutil
import signal

import pytest
import torch
from pytorch_lightning import Callback
from training.replica_equality import TINY, largest_difference

from normexp.config.folder import CONFIGS
from normexp.config.run_spec import specs
from normexp.runs import read_summary
from normexp.training.parts import build_all
from normexp.training.train import launch, launch_replicas

SMALL = [
    "trainer=float64", "monitor=none", "model.depth=1", "model.width=16", "max_epochs=2", "data.train_size=160",
    "batch_size=32",
]  # fmt: skip


def train(place, *overrides, callbacks=()):
    """Train a configuration's runs; returns {(seed, lr): (summary, folder)}."""
    all_parts = build_all(specs([*SMALL, f"outputs={place}", *overrides]))
    all_parts[0].monitors.extend(callbacks)
    summaries = [launch(all_parts[0])] if len(all_parts) == 1 else launch_replicas(all_parts)
    keys = [(parts.config["seed"], parts.config["lr"]) for parts in all_parts]
    return {
        key: (summary, parts.spec.folder)
        for key, parts, summary in zip(keys, all_parts, summaries, strict=True)
    }


@pytest.fixture
def replicate(tmp_path):
    return functools.partial(train, tmp_path / "outputs")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Train a run alone, once for all tests; returns (summary, folder)."""

    @functools.cache
    def run(*overrides):
        (found,) = train(tmp_path_factory.mktemp("alone"), *overrides).values()
        return found

    return run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Outputs with two replicas of norm=batchnorm, to be copied."""
    place = tmp_path_factory.mktemp("finished")
    train(place, "norm=batchnorm", "replicas=2")
    return place


def rows(folder):
    with (folder / "metrics.csv").open(newline="") as file:
        return {(row["step"], row["metric"]): float(row["value"]) for row in csv.DictReader(file)}


def checkpoint(folder, name="last"):
    return torch.load(folder / "checkpoints" / f"{name}.ckpt", weights_only=True)


def assert_same_runs(together, alone, tolerance=1e-10):
    (summary, folder), (expected, expected_folder) = together, alone
    assert summary["hash"] == expected["hash"]
    metrics, wanted = (read_summary(f)["metrics"] for f in (folder, expected_folder))  # null where not finite
    assert [k for k, v in metrics.items() if v is None] == [k for k, v in wanted.items() if v is None]
    finite = {key: value for key, value in wanted.items() if value is not None}
    assert {key: metrics[key] for key in finite} == pytest.approx(finite, rel=tolerance, abs=tolerance)
    for key in ("status", "steps", "epochs", "parameters"):
        assert summary[key] == expected[key], key
    assert summary["config"] | {"outputs": ""} == expected["config"] | {"outputs": ""}
    assert rows(folder) == pytest.approx(rows(expected_folder), rel=tolerance, abs=tolerance, nan_ok=True)
    for name in ("last", "best"):
        saved, wanted = checkpoint(folder, name), checkpoint(expected_folder, name)
        assert saved["state_dict"].keys() == wanted["state_dict"].keys()
        for key, value in wanted["state_dict"].items():
            torch.testing.assert_close(
                saved["state_dict"][key], value, rtol=tolerance, atol=tolerance, equal_nan=True
            )


@pytest.mark.integration
@pytest.mark.parametrize(
    "options",
    [
        ["norm=batchnorm", "optimizer=sgd", "data.augment=true"],
        ["norm=layernorm", "model=transformer", "optimizer=adamw", "model.heads=2"],
        ["norm=groupnorm", "model=cnn", "model.depth=[1]", "trainer.gradient_clip_val=0.05"],
        ["norm=rmsnorm", "optimizer=adam", "monitor=light", "monitor.activations.every_n_steps=3"],
        ["norm=batchnorm_cumulative", "optimizer=sgd", "monitor=[light,batch_statistics]"],
    ],
    ids=lambda options: options[0],
)
def test_replicas_equal_the_runs_alone(replicate, alone, options):
    for (seed, _), run in replicate(*options, "replicas.seeds=[0,3]").items():
        expected = alone(*options, f"seed={seed}")
        assert (run[0]["execution"]["mode"], expected[0]["execution"]["mode"]) == ("replica", "alone")
        assert_same_runs(run, expected)


@pytest.mark.integration
def test_each_learning_rate_gives_the_run_alone(replicate, alone):
    # not BatchNorm: the bias before it has no true gradient, and Adam makes steps out of its rounding noise
    options = ["norm=layernorm", "optimizer=adamw", "monitor=light", "monitor.gradients.every_n_steps=4"]
    together = replicate(*options, "replicas.seeds=2", "replicas.lr=[0.001,0.03]")
    assert set(together) == {(0, 0.001), (1, 0.001), (0, 0.03), (1, 0.03)}
    for (seed, lr), run in together.items():
        assert_same_runs(run, alone(*options, f"seed={seed}", f"lr={lr}"))


@pytest.mark.integration
def test_diverged_replica_ends_as_alone_and_the_others_go_on(replicate, alone):
    options = ["norm=none", "schedule=constant", "log_every_n_steps=2", "model.depth=4"]
    together = replicate(*options, "replicas.lr=[0.05,1e30]")
    assert [summary["status"] for summary, _ in together.values()] == ["completed", "diverged"]
    for (_, lr), run in together.items():
        assert_same_runs(run, alone(*options, f"lr={lr}"))


NORMS = sorted({path.stem for path in (CONFIGS / "norm").glob("*.yaml")} - {"original"})
ONE_BY_ONE = {
    "batchnorm_frozen": "number of steps",
    "batchnorm_noisy": "draws numbers",
    "batchnorm_precise": "population statistics",
    "powernorm": "backward pass",
    "powernorm_unscaled": "backward pass",
}
# One norm of each way to compute; tests/norms asks every norm alone.
QUICK = {
    ("mlp", norm) for norm in ("batchnorm_ghost", "batchrenorm", "dyt", "groupnorm", "none", *ONE_BY_ONE)
} | {(model, norm) for model in TINY for norm in ("batchnorm", "layernorm")}


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:gpt with")
@pytest.mark.parametrize(
    ("model", "norm"),
    [
        pytest.param(model, norm, marks=() if (model, norm) in QUICK else pytest.mark.slow)
        for model in TINY
        for norm in NORMS
    ],
)
def test_every_norm_trains_together_as_alone_or_says_why_not(model, norm):
    try:
        found = largest_difference(model, norm)
    except ValueError as error:
        pytest.skip(str(error))
    if norm in ONE_BY_ONE:
        assert ONE_BY_ONE[norm] in found
    else:
        assert found <= 1e-10


class Interrupt(Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == 7:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.integration
@pytest.mark.parametrize("again", ["together", "alone"])
def test_interrupted_replicas_go_on_and_end_the_same(replicate, alone, again):
    options = ["norm=layernorm", "optimizer=adamw", "monitor=light", "monitor.activations.every_n_steps=2"]
    rates = "replicas.lr=[0.001,0.01]"
    with pytest.raises(SystemExit) as stopped:
        replicate(*options, rates, callbacks=[Interrupt()])
    assert stopped.value.code == 130
    if again == "alone":
        replicate(*options, "lr=0.01")
    for (_, lr), run in replicate(*options, rates).items():
        one = again == "alone" and lr == 0.01
        assert run[0]["execution"]["mode"] == ("alone" if one else "replica")
        assert_same_runs(run, alone(*options, f"lr={lr}"))


def test_replicas_whose_summaries_alone_are_missing_get_the_same_ones(replicate, finished, tmp_path):
    shutil.copytree(finished, tmp_path / "outputs")
    first = {path.parent: json.loads(path.read_text()) for path in tmp_path.rglob("summary.json")}
    for folder in first:
        (folder / "summary.json").unlink()
    for summary, folder in replicate("replicas=2", "norm=batchnorm").values():
        assert summary["metrics"] == first[folder]["metrics"]
        assert summary["finished"] >= first[folder]["finished"]


def test_finished_replicas_are_not_trained_again(replicate, finished, tmp_path):
    shutil.copytree(finished, tmp_path / "outputs")
    first = {path.parent: json.loads(path.read_text()) for path in tmp_path.rglob("summary.json")}
    again = replicate("replicas=3", "norm=batchnorm")
    assert [summary["execution"]["mode"] for summary, _ in again.values()] == ["replica"] * 3
    assert [first.get(folder) == summary for summary, folder in again.values()] == [True, True, False]


@pytest.mark.integration
def test_dropout_is_trained_one_by_one_and_says_why(replicate, alone, capsys):
    options = ["model=transformer", "model.heads=2", "model.dropout=0.3"]
    found = replicate(*options, "replicas=2")
    assert [summary["execution"]["mode"] for summary, _ in found.values()] == ["alone", "alone"]
    assert "replicas one by one: dropout would draw other masks than alone" in capsys.readouterr().out
    for (seed, _), run in found.items():
        assert_same_runs(run, alone(*options, f"seed={seed}"), tolerance=0.0)


@pytest.mark.integration
@pytest.mark.parametrize(
    "options",
    [
        ["data.seed=7", "replicas.seeds=[0,3]"],  # the order of batches does not follow the seed
        ["optimizer.lr=0.02", "replicas.seeds=[0,3]"],  # nor the rate of the optimizer lr
        ["lr=0", "replicas.seeds=[0,3]"],
        ["data.split_seed=${seed}", "data.augment=true", "replicas.seeds=[0,3]"],  # each has data of its own
    ],
)
def test_values_that_no_longer_follow(replicate, alone, options):
    for (seed, _), run in replicate(*options).items():
        assert_same_runs(run, alone(*options[:-1], f"seed={seed}"))


class Forgetful(torch.nn.Module):
    """What vmap would lose without a word, or cannot compute."""

    def __init__(self, what: str):
        super().__init__()
        self.what, self.calls = what, 0
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, x):
        if self.what == "buffer":
            self.mean = self.mean * 0.9 + x.mean() * 0.1
        elif self.what == "count":
            self.calls += 1
        elif self.what == "drawn":
            return x + torch.randn_like(x)
        else:
            with torch.no_grad():
                self.mean.mul_(0.9).add_(x.mean(), alpha=0.1)
        return x - self.mean


class OneByOne(Forgetful):
    one_by_one = True


@pytest.fixture
def two_with(tmp_path):
    """Two replicas whose first norm is another layer."""

    def build_two(layer):
        parts = build_all(specs([*SMALL, "norm=none", "replicas=2", f"outputs={tmp_path / 'outputs'}"]))
        for own in parts:
            own.module.model.layers[0].norm = copy.deepcopy(layer)
        return parts

    return build_two


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("buffer", "layers.0.norm.mean is set anew at each step"),
        ("count", "layers.0.norm.calls is set anew at each step"),
        ("drawn", "random"),
    ],
)
def test_layer_that_vmap_cannot_do_ends_the_run_with_one_line(two_with, tmp_path, what, why):
    with pytest.raises(ValueError, match=rf"^replicas: .*{why}.*one_by_one = True") as error:
        launch_replicas(two_with(Forgetful(what)))
    assert "\n" not in str(error.value)
    assert not list(tmp_path.rglob("*.*"))


def test_layer_that_keeps_its_state_in_a_buffer_trains_together_as_alone(two_with, tmp_path):
    together, alone = two_with(Forgetful("kept")), two_with(Forgetful("kept"))
    launch_replicas(together)
    for own, expected in zip(together, alone, strict=True):
        expected.spec = dataclasses.replace(
            expected.spec, folder=tmp_path / f"alone-{expected.config['seed']}"
        )
        launch(expected)
        found, wanted = own.module.state_dict(), expected.module.state_dict()
        assert found["model.layers.0.norm.mean"].item() != 0
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("what", ["count", "drawn"])
def test_layer_that_says_one_by_one_is_trained_so(two_with, capsys, what):
    summaries = launch_replicas(two_with(OneByOne(what)))
    assert [summary["execution"]["mode"] for summary in summaries] == ["alone", "alone"]
    assert "replicas one by one: a layer says one_by_one" in capsys.readouterr().out


def test_replicas_in_one_folder_are_refused(replicate, tmp_path):
    with pytest.raises(ValueError, match="replicas have a folder each"):
        replicate("replicas=2", f"run_dir={tmp_path / 'one'}")
