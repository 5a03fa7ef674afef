"""What laws are asked about: norm factories and initialized networks, from the overrides that a claim's yaml names."""

import functools
import importlib
from collections.abc import Callable
from types import SimpleNamespace

from torch import nn

from normexp.build import build_model, compose_with_hydra, resolved
from normexp.config.targets import resolve_target

IMAGE = SimpleNamespace(input_shape=(1, 16, 16), num_classes=10)
TEXT = SimpleNamespace(input_shape=(16,), num_classes=64)  # tokens, size of the vocabulary


@functools.cache
def composed_with_hydra(overrides: tuple[str, ...]):
    """Composing takes a tenth of a second or more, and arms share theirs between seeds."""
    if not any(override.startswith("recipe=") for override in overrides):
        overrides = ("recipe=plain", *overrides)  # what protocols assume that name no recipe
    return compose_with_hydra(list(overrides))


def composed(overrides: tuple[str, ...]):
    cfg, hydra_config = composed_with_hydra(overrides)
    return cfg, dict(hydra_config.runtime.choices)


def law(name: str) -> Callable[..., float]:
    """The function `<file>.<function>` of normexp.claims.laws."""
    file, _, function = name.partition(".")
    try:
        return getattr(importlib.import_module(f"normexp.claims.laws.{file}"), function)
    except (ImportError, AttributeError):
        raise ValueError(f"function={name}: no such law; give <file>.<function> of normexp/laws") from None


@functools.cache
def norm_factory(overrides: tuple[str, ...]) -> Callable[..., nn.Module]:
    node = resolved(composed(overrides)[0])["norm"]
    options = {key: value for key, value in node.items() if not key.startswith("_")}
    return functools.partial(resolve_target("norm", node["_target_"]), **options)


def network(overrides: tuple[str, ...], seed: int) -> nn.Module:
    """A network with its initial weights, for inputs of a fixed shape, which it keeps as attributes."""
    cfg, _ = composed(overrides)
    accepts = resolve_target("model", cfg.model["_target_"]).accepts
    data = IMAGE if accepts == "image" else TEXT
    model = build_model(cfg, data, seed)
    model.input_shape, model.num_classes = data.input_shape, data.num_classes
    return model
