"""What tests compose with the cache of `hydra_cache.py` is what Hydra composes without it."""

import hydra_cache
import pytest
from hydra._internal import config_loader_impl, defaults_list
from omegaconf import OmegaConf

from normexp.composition import compose_with_hydra

CHOICES = [
    (),
    ("model=gpt", "data=text_file", "optimizer=adamw", "norm.eps=1e-3", "hydra.job.num=3"),
    ("monitor=[light,hessian]", "debug=overfit", "+norm@model.other=none", "~schedule"),
    ("hydra/launcher=basic", "recipe=resnet", "optimizer=adam", "+new=1"),
]


@pytest.mark.parametrize("overrides", CHOICES, ids=" ".join)
def test_cache_changes_nothing(overrides, monkeypatch):
    cached = [compose_with_hydra(list(overrides)) for _ in range(2)]
    monkeypatch.setattr(config_loader_impl, "create_defaults_list", hydra_cache._list)
    monkeypatch.setattr(
        config_loader_impl.ConfigLoaderImpl, "_compose_config_from_defaults_list", hydra_cache._merge
    )
    monkeypatch.setattr(defaults_list, "_create_interpolation_map", hydra_cache._map)
    plain = compose_with_hydra(list(overrides))
    for found in cached:
        assert list(map(OmegaConf.to_yaml, found)) == list(map(OmegaConf.to_yaml, plain))
        assert list(map(OmegaConf.is_struct, found)) == list(map(OmegaConf.is_struct, plain))
