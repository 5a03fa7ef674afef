"""Contract 5 on the project's own models and norms: watching changes nothing, and everything can be measured."""

import math
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from hydra.utils import get_class, instantiate
from omegaconf import OmegaConf
from small_module import fit
from test_base import hooks

from normexp.config.compose import compose
from normexp.config.run_spec import spec_of
from normexp.config.targets import DataOfLaunch
from normexp.monitors import Charts, Monitor, measure_without_fit
from normexp.monitors.activations import PLACES
from normexp.training.build import build

# The transformer over text warns of norms that run over tokens.
pytestmark = pytest.mark.filterwarnings("ignore:gpt with .*:UserWarning")
ROOT = Path(__file__).parents[2]
MONITORS = sorted(path.stem for path in (ROOT / "configs" / "monitor").glob("*.yaml"))
MEASURES = [name for name in MONITORS if name not in ("none", "light", "full", "charts")]
OF_IMAGES = ("adaptation", "adversarial_noise")
NORMS = sorted({path.stem for path in (ROOT / "configs" / "norm").glob("*.yaml")} - {"original"})
MODELS = {
    "mlp": ["data=digits", "model.width=8", "model.depth=2", "model.activation=sigmoid"],
    "cnn": ["data=digits", "model.width=4", "model.depth=[1,1]"],
    "resnet": ["data=digits", "model.width=4", "model.depth=8"],
    "transformer": ["data=digits", "model.width=8", "model.heads=2", "model.depth=1"],
    "gpt": ["data=python_docs", "model.width=8", "model.heads=2", "model.depth=1", "data.context_length=8"],
}
OTHERS = {"torchvision", "module"}  # networks of other people: tests/monitors/test_public_networks.py
for added in {path.stem for path in (ROOT / "configs" / "model").glob("*.yaml")} - OTHERS:
    cls = get_class(OmegaConf.load(ROOT / "configs" / "model" / f"{added}.yaml")["_target_"])
    data = ["data=python_docs", "data.context_length=8"] if cls.accepts == "text" else ["data=digits"]
    MODELS.setdefault(added, data)


def parts(model, norm, monitor, pace=2):
    common = ["batch_size=8", "trainer=cpu"]
    cfg, choices = compose([f"model={model}", f"norm={norm}", f"monitor={monitor}", *MODELS[model], *common])
    for node in cfg.monitor.values():
        for key in node:
            if key.endswith("every_n_steps") and node[key]:
                node[key] = pace
            if key in ("batch_size", "chunks", "iterations"):
                node[key] = min(node[key], 4)
    return build(spec_of(cfg, choices, (), DataOfLaunch()))


class Losses(pl.Callback):
    def __init__(self):
        self.values = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.values.append(outputs["loss"].item())


def run(built, monitors, steps=3):
    losses = Losses()
    fit(built.module, [*monitors, losses], steps=steps, datamodule=built.data)
    return {name: value.clone() for name, value in built.module.state_dict().items()}, losses.values


def assert_untouched(model, norm, monitor):
    plain, losses = run(parts(model, norm, "none"), [])
    watched = parts(model, norm, monitor)
    weights, watched_losses = run(watched, watched.monitors)
    assert all(torch.equal(plain[name], weights[name]) for name in plain)
    assert len(losses) == 3
    assert losses == watched_losses
    assert not hooks(watched.module)
    for watch in watched.monitors:
        if isinstance(watch, Monitor):
            assert {tag.split("/")[0] for tag in watch.recorded} <= watch.keys()
            assert 0 in {step for step, _ in next(iter(watch.recorded.values()))}


@pytest.mark.integration
@pytest.mark.parametrize(
    ("model", "norm"), [*((model, "batchnorm") for model in MODELS), ("gpt", "layernorm_eps_outside")]
)
def test_weights_are_bit_identical_with_every_monitor_on_and_off(model, norm):
    assert_untouched(model, norm, "full")


class Fails(pl.Callback):
    """In a step that is measured: the pace here is 2."""

    def on_before_optimizer_step(self, trainer, module, optimizer):
        if trainer.global_step == 2:
            raise RuntimeError("stop here")


@pytest.mark.parametrize("model", MODELS)
def test_hooks_of_every_monitor_are_gone_after_an_exception(model):
    built = parts(model, "batchnorm", "full")
    with pytest.raises(RuntimeError, match="stop here"):
        run(built, [*built.monitors, Fails()])
    assert not hooks(built.module)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("monitor", MEASURES)
def test_weights_are_bit_identical_with_this_monitor_on_and_off(model, monitor):
    if model == "gpt" and monitor in OF_IMAGES:
        pytest.skip("it changes images")
    assert_untouched(model, "batchnorm", monitor)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("norm", NORMS)
def test_every_norm_is_measured_at_initialization_by_every_monitor(model, norm):
    try:
        built = parts(model, norm, "full")
    except ValueError as refused:
        pytest.skip(str(refused))
    before = {name: value.clone() for name, value in built.module.state_dict().items()}
    values = measure_without_fit(built.monitors, built.module, built.data, [])
    assert math.isfinite(values["hessian_top_eigenvalue/network"])
    assert all(torch.equal(value, before[name]) for name, value in built.module.state_dict().items())


@pytest.mark.parametrize("name", MONITORS)
def test_every_config_says_what_it_is_and_builds(name):
    assert (ROOT / "configs" / "monitor" / f"{name}.yaml").read_text().startswith("# ")
    for key, node in compose([f"monitor={name}"])[0].monitor.items():
        assert isinstance(instantiate(node), (Monitor, Charts)), key


def documented():
    """Config -> its statistics, from the table of docs/monitors.md that defines them."""
    page = (ROOT / "docs" / "monitors.md").read_text().split("\n## Measures\n")[1].split("\n## ")[0]
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    return {row[1].strip(" `"): row[2].replace("`", "").split() for row in rows}


# Those of images are asked for by name, and said elsewhere in the page.
@pytest.mark.parametrize("name", [name for name in MEASURES if name not in OF_IMAGES])
def test_every_key_is_documented_and_no_other(name):
    full = compose(["monitor=full"])[0].monitor
    assert name in documented(), f"{name}: write its row under Measures in docs/monitors.md"
    assert name in full, f"{name}: write its line in configs/monitor/full.yaml"
    expanded = {key.replace("<place>", place) for key in documented()[name] for place in PLACES}
    assert expanded == instantiate(full[name]).keys()
