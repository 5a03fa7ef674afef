"""Configurations that share their choices are composed once, and are what Hydra composes for each."""

import re

import pytest
import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig, OmegaConf, open_dict

from normexp.config.compose import VALUES, compose
from normexp.config.errors import one_line
from normexp.config.folder import CONFIGS

OVERRIDES = [
    (),
    ("norm=batchnorm", "model=mlp", "model.depth=24", "model.activation=sigmoid", "lr=0.1"),
    ("model=transformer", "model.width=64", "data=digits", "data.val_size=null", "norm.eps=1e-3"),
    ("model.depth=2", "model=cnn", "model.depth=[1,2,1]", "model.norm_position=post_activation"),
    ("+norm.more=1", "~norm.eps", "seed=3", "accuracies=[0.5,0.9]"),
    ("recipe=mlp", "optimizer=sgd", "optimizer.momentum=0.5", "trainer.gradient_clip_val=1.0"),
    ("monitor=[light,hessian]", "monitor.activations.every_n_steps=7", "model.width=64", "model.width=32"),
    ("model.initialization='xavier'", "model.depth=${batch_size}", "name=a/b"),
    ("max_epochs=3", "max_steps=5", "batch_size=8", "max_epochs=4", "logger=[]", "early_stopping=2"),
    ("lr=0.3", "model=resnet", "recipe=resnet", "threads=null", "eps=1"),
    ("experiment=batch_size", "name='x y'", "outputs=${name}/b", "+threads=2"),
]  # fmt: skip


def by_hydra(overrides) -> DictConfig:
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return hydra_compose("train", overrides=list(overrides), return_hydra_config=True)


@pytest.mark.integration
@pytest.mark.parametrize("overrides", OVERRIDES, ids=" ".join)
def test_equals_what_hydra_composes(overrides):
    expected, (task, choices) = by_hydra(overrides), compose(overrides)
    assert choices == {k: v for k, v in expected.hydra.runtime.choices.items() if "hydra/" not in k}
    with open_dict(expected):
        del expected["hydra"]
    assert OmegaConf.to_container(task, resolve=False) == OmegaConf.to_container(expected, resolve=False)
    assert OmegaConf.to_container(task, resolve=True) == OmegaConf.to_container(expected, resolve=True)
    assert OmegaConf.is_struct(task)


def test_no_list_of_defaults_reads_a_value():
    """Else the value would be a choice."""
    texts = [text for path in CONFIGS.rglob("*.yaml") if "\ndefaults:" in f"\n{(text := path.read_text())}"]
    read = set(re.findall(r"\$\{([a-z_]+)\}", str([yaml.safe_load(text)["defaults"] for text in texts])))
    assert "recipe" in read
    assert not read & VALUES
    assert not [path.name for path in CONFIGS.iterdir() if path.is_dir() and path.name in VALUES]


@pytest.mark.integration
@pytest.mark.parametrize("wrong", ["model.dpth=3", "nothing.there=1", "norm.eps.more=2"])
def test_wrong_key_has_hydras_message(wrong):
    with pytest.raises(ConfigCompositionException) as found:
        compose(("norm=layernorm", wrong))
    with pytest.raises(ConfigCompositionException) as expected:
        by_hydra(["norm=layernorm", wrong])
    assert one_line(found.value) == one_line(expected.value)


def test_callers_may_change_what_they_get():
    cfg, choices = compose(("norm=none", "model.depth=5"))
    cfg.model.depth, choices["norm"] = 6, "other"
    again, choices = compose(("norm=none", "model.depth=5"))
    assert (again.model.depth, choices["norm"]) == (5, "none")
