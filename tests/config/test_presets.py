"""Presets: the blocks of published language models, as options of gpt and a norm."""

import pytest
import torch
import yaml
from refusals import refused

from normexp.config.compose import compose
from normexp.config.folder import CONFIGS
from normexp.config.options import choices
from normexp.config.run_spec import resolved, specs
from normexp.config.targets import construct

PRESETS = sorted(choices("preset"))
TEXT = ["data=python_docs", "model.depth=1", "model.width=16", "model.heads=2"]


def written(name):
    return yaml.safe_load((CONFIGS / "preset" / f"{name}.yaml").read_text())


@pytest.mark.integration
@pytest.mark.parametrize("name", PRESETS)
def test_preset_is_its_options_of_gpt_and_its_norm(name):
    own = written(name)
    norm = next(item["override /norm"] for item in own["defaults"] if "override /norm" in item)
    by_hand = ["model=gpt", f"norm={norm}", *(f"model.{key}={value}" for key, value in own["model"].items())]
    by_hand += [f"eps={own['eps']}"] if "eps" in own else []
    (preset,), (spelled,) = specs([f"preset={name}", *TEXT]), specs([*by_hand, *TEXT])
    assert preset.digest == spelled.digest != specs(["model=gpt", *TEXT])[0].digest
    config = resolved(compose([f"preset={name}", "model=gpt", *TEXT])[0])
    model = construct("model", config["model"])((6,), 11, construct("norm", config["norm"]))
    assert model(torch.randint(11, (2, 6))).shape == (2, 6, 11)
    assert not model.leaks_future


@pytest.mark.integration
@pytest.mark.parametrize("name", PRESETS)
def test_command_line_wins_over_the_preset(name):
    words = [f"preset={name}", "norm=layernorm", "model.position=learned", "eps=0.125", *TEXT]
    config, chosen = compose(words)
    assert chosen["norm"] == "layernorm"
    assert chosen["recipe"] == "gpt"
    plain = resolved(compose(["model=gpt", "norm=layernorm", "eps=0.125", *TEXT])[0])
    config = resolved(config)
    assert config["norm"] == plain["norm"]
    assert config["model"]["position"] == "learned"
    differing = {key for key, value in config["model"].items() if value != plain["model"][key]}
    assert differing == written(name)["model"].keys() - {"position"}


def test_preset_of_a_text_model_is_refused_by_the_image_transformer_in_one_line():
    with refused(r"model\.position: no such"):
        resolved(compose(["preset=llama", "model=transformer"])[0])
