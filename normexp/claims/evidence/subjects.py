"""The subjects of laws: norm factories and initialized networks, made from the overrides in a claim's yaml."""

import functools
import importlib
import inspect
import json
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, NamedTuple, cast

from torch import Tensor, nn

from normexp.claims.evidence.protocol import names_data, unchecked
from normexp.claims.laws.network import Network
from normexp.claims.spec.claim import Claim
from normexp.config.checks import validate
from normexp.config.construct import construct
from normexp.config.process import fast_imports
from normexp.config.targets import resolve_target
from normexp.training.build_model import build_model


class Sizes(NamedTuple):
    """The sizes of input and output for which a network is built."""

    input_shape: tuple[int, ...]
    num_classes: int


IMAGE = Sizes(input_shape=(1, 16, 16), num_classes=10)
TEXT = Sizes(input_shape=(16,), num_classes=64)  # tokens, size of the vocabulary
EXAMPLES = 1024  # most examples of a data set from which batches are drawn


def import_data(claims: Iterable[Claim]) -> None:
    """If one of the claims names a data set, import what reads it. Copies of this process would each import it."""
    if any(
        names_data([*claim.fixed, *chain(*claim.arms.values(), *claim.settings.values())]) for claim in claims
    ):
        with fast_imports():
            importlib.import_module("normexp.data")


def law(name: str) -> Callable[..., float]:
    """The function `<file>.<function>` of normexp.claims.laws."""
    file, _, function = name.partition(".")
    module = f"normexp.claims.laws.{file}"
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError):
        found = None
    if not inspect.isfunction(found) or found.__module__ != module:  # a claim's file may name only laws
        raise ValueError(f"function={name}: no such law; give <file>.<function> of normexp/claims/laws")
    return found


@functools.cache
def plain(overrides: tuple[str, ...]) -> dict[str, Any]:
    """The configuration as plain values; what a network needs of them is checked. Callers share it and must not change
    it."""
    config = unchecked(overrides)
    validate(config, groups=("model", "norm", *(["data"] if names_data(overrides) else [])))
    return config


@functools.cache
def norm_factory(overrides: tuple[str, ...]) -> Callable[..., nn.Module]:
    """The norm that the overrides choose, as a factory for models: `norm(num_features, channel_dim)`."""
    return construct("norm", plain(overrides)["norm"])


def network(overrides: tuple[str, ...], seed: int) -> Network:
    """A network with its initial weights. Attributes describe its inputs: examples of the data set if the overrides
    name one, else noise of a fixed shape."""
    config = plain(overrides)
    # Every model of this project is one.
    kind = cast(type[Network], resolve_target("model", config["model"]["_target_"]))
    sizes, examples = (IMAGE if kind.accepts == "image" else TEXT), None
    if names_data(overrides):
        sizes, examples = examples_of(json.dumps(config["data"]))
    model = cast(Network, build_model({**config, "seed": seed}, sizes))
    model.input_shape, model.num_classes = sizes.input_shape, sizes.num_classes
    model.examples = examples
    return model


@functools.cache
def examples_of(node: str) -> tuple[Sizes, tuple[Tensor, Tensor]]:
    """Sizes and validation examples of a data set. `node` is its configuration as JSON."""
    data = construct("data", json.loads(node))
    examples = data.probe_batch(EXAMPLES)
    return Sizes(data.input_shape, data.num_classes), examples
