"""Configurations that share their choices are composed once, and are what Hydra composes for each."""

import pytest
from hydra.errors import ConfigCompositionException
from omegaconf import OmegaConf

from normexp import compose_once as module
from normexp.build import compose
from normexp.cli import one_line
from normexp.compose_once import compose_once

OVERRIDES = [
    (),
    ("norm=batchnorm", "model=mlp", "model.depth=24", "model.activation=sigmoid", "lr=0.1"),
    ("model=transformer", "model.width=64", "data=digits", "data.val_size=null", "norm.eps=1e-3"),
    ("model.depth=2", "model=cnn", "model.depth=[1,2,1]", "model.norm_position=post_activation"),
    ("+norm.more=1", "~norm.eps", "seed=3", "accuracies=[0.5,0.9]"),
    ("recipe=mlp", "optimizer=sgd", "optimizer.momentum=0.5", "trainer.gradient_clip_val=1.0"),
    ("monitor=[light,hessian]", "monitor.activations.every_n_steps=7", "model.width=64", "model.width=32"),
    ("model.initialization='xavier'", "model.depth=${batch_size}", "name=a/b"),
]


@pytest.mark.parametrize("overrides", OVERRIDES, ids=" ".join)
def test_equals_what_hydra_composes(overrides):
    cfg, choices = compose_once(overrides)
    expected, expected_choices = compose(list(overrides))
    assert OmegaConf.to_container(cfg, resolve=False) == OmegaConf.to_container(expected, resolve=False)
    assert OmegaConf.to_container(cfg, resolve=True) == OmegaConf.to_container(expected, resolve=True)
    assert choices == expected_choices
    assert OmegaConf.is_struct(cfg) == OmegaConf.is_struct(expected)


def test_hydra_is_asked_once_for_all_values_of_the_same_choices(monkeypatch):
    asked = []
    monkeypatch.setattr(module, "compose", lambda overrides: asked.append(overrides) or compose(overrides))
    module._composed.cache_clear()
    found = [compose_once(("norm=none", f"model.depth={depth}"))[0].model.depth for depth in (1, 2, 3)]
    assert (found, asked) == ([1, 2, 3], [["norm=none"]])
    module._composed.cache_clear()


@pytest.mark.parametrize("wrong", ["model.dpth=3", "nothing.there=1", "norm.eps.more=2"])
def test_wrong_key_has_hydras_message(wrong):
    with pytest.raises(ConfigCompositionException) as found:
        compose_once(("norm=layernorm", wrong))
    with pytest.raises(ConfigCompositionException) as expected:
        compose(["norm=layernorm", wrong])
    assert one_line(found.value) == one_line(expected.value)


def test_callers_may_change_what_they_get():
    cfg, choices = compose_once(("norm=none", "model.depth=5"))
    cfg.model.depth, choices["norm"] = 6, "other"
    again, choices = compose_once(("norm=none", "model.depth=5"))
    assert (again.model.depth, choices["norm"]) == (5, "none")
