"""Evidence without training: a law of a norm, or a measure of networks at their initialization.

Their subjects, norm factories and networks, are made from the overrides in a claim's yaml.
"""

import functools
import importlib
import inspect
import itertools
import json
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast, get_args, get_origin

import pandas as pd
from torch import Tensor, nn

from normexp.claims.evidence.settings import DIRECTIONS, NETWORK
from normexp.claims.evidence.weights import Weights
from normexp.claims.judge.outcomes import COLUMNS
from normexp.claims.laws.sites import SiteNetwork
from normexp.claims.spec.cell import value_of, with_assumed
from normexp.claims.spec.claim import Claim, split_options
from normexp.config.checks import validate
from normexp.config.compose import compose, plain_values
from normexp.config.options import last_of_each
from normexp.config.targets import build_model, construct, refused, resolve_target
from normexp.format import require_choice


def gather(claim: Claim) -> pd.DataFrame:
    """One value per arm, level of the factor and seed."""
    rows = []
    # Seeds in the outer loop, so that measured times drift alike in all arms.
    for seed, level, arm in itertools.product(claim.seed_range, claim.levels, claim.arms):
        value = value_of_arm(claim, arm, dict.fromkeys(claim.factor, level), seed)
        rows.append((arm, level, seed, value))
    return pd.DataFrame(rows, columns=COLUMNS)


_measured: dict[str, float] = {}  # claims share networks, and a network always measures the same


def value_of_arm(
    claim: Claim, arm: str, chosen: dict[str, Any], seed: int, weights: Weights | None = None
) -> float:
    """The measure of one arm with chosen values: a name with a dot is an override, any other an option of the function.
    `weights`: how those of a network begin, if not as its configuration says."""
    measure, options = measure_of(claim, arm, chosen)
    choice = claim.arms[arm]
    with refused("function", str(claim.function)):
        if isinstance(choice, dict):  # a fact about torch, without a norm
            return measure(seed=seed, **options)
        more = (f"{key}={value}" for key, value in chosen.items() if "." in key)
        overrides = (*claim.fixed, *choice, *more)
        if claim.evidence == "law":
            return measure(norm_factory(overrides), seed=seed, **options)
        last = sorted(last_of_each(overrides))  # an arm replaces the setting's own
        key = repr((claim.function, last, sorted(options.items()), seed, weights))
        if key not in _measured:
            net = network(overrides, seed)
            if weights:
                weights.fill(net, seed)
            _measured[key] = measure(net, seed=seed, **options)
        return _measured[key]


def measure_of(claim: Claim, arm: str, chosen: dict[str, Any]) -> tuple[Callable[..., float], dict[str, Any]]:
    """The function of a claim, and the options that it gets for an arm with chosen values. Raises ValueError with one
    line for what is no law, and for options that it does not take."""
    assert claim.function is not None  # the checks of a claim ask for one
    measure, choice = law(claim.function), claim.arms[arm]
    arm_options = choice if isinstance(choice, dict) else {}
    options = claim.options | arm_options | {key: value for key, value in chosen.items() if "." not in key}
    check_options(claim.function, measure, options)
    return measure, options


def check(claim: Claim) -> None:
    """Raise ValueError with one line for a function or an option that the claim cannot be asked with, before anything
    is computed. The options of a search are drawn later."""
    if claim.search:
        law(str(claim.function))
        return
    for single in of_cells(claim, claim.function) if claim.cells else [claim]:
        for arm, level in itertools.product(single.arms, single.levels):
            measure_of(single, arm, dict.fromkeys(single.factor, level))


def of_cells(claim: Claim, function: str | None) -> list[Claim]:
    """A claim over settings as one of each setting alone, with this function."""
    parts = [split_options(cell.overrides) for cell in claim.cells.values()]
    changes: list[dict[str, Any]] = [
        {
            "cells": {},
            "fixed": [*overrides, *claim.fixed],
            "options": claim.options | options,
            "function": function,
        }
        for overrides, options in parts
    ]
    return [claim.model_copy(update=update) for update in changes]


def initial_table(claim: Claim) -> pd.DataFrame:
    """The table of a claim's networks, made anew: one row per part, setting, arm, level and seed."""
    functions = {"": claim.function} | ({NETWORK: DIRECTIONS} if claim.drawn else {})
    tables = []
    for part, function in functions.items():
        for cell, single in zip(claim.cells.values(), of_cells(claim, function), strict=True):
            tables.append(gather(single).assign(setting=cell.name, part=part))
    return pd.concat(tables, ignore_index=True)


class Sizes(NamedTuple):
    """The sizes of input and output for which a network is built."""

    input_shape: tuple[int, ...]
    num_classes: int


IMAGE = Sizes(input_shape=(1, 16, 16), num_classes=10)
TEXT = Sizes(input_shape=(16,), num_classes=64)  # tokens, size of the vocabulary
EXAMPLES = 1024  # most examples of a data set from which batches are drawn


def law(name: str) -> Callable[..., float]:
    """The function `<file>.<function>` of normexp.claims.laws."""
    file, _, function = name.partition(".")
    module = f"normexp.claims.laws.{file}"
    try:
        law_function = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError):
        law_function = None
    # A claim's file may name only laws.
    if not inspect.isfunction(law_function) or law_function.__module__ != module:
        raise ValueError(f"function={name}: no such law; give <file>.<function> of normexp/claims/laws")
    return law_function


def check_options(name: str, measure: Callable[..., float], options: dict[str, Any]) -> None:
    """Raise ValueError with one line for an option that a law needs and does not get, or that it does not know, or of
    which it does not take this word."""
    parameters = inspect.signature(measure).parameters
    takes = {key: p for key, p in parameters.items() if p.kind is p.KEYWORD_ONLY and key != "seed"}
    for key, p in takes.items():
        if key in options and get_origin(p.annotation) is Literal:
            require_choice(f"options.{key}", options[key], get_args(p.annotation))
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if unknown := [key for key in options if key not in takes and not open_ended]:
        known = ", ".join(takes) or "none"
        raise ValueError(f"options.{unknown[0]}: is no option of {name}; it takes {known}")
    if lacking := [key for key, p in takes.items() if p.default is p.empty and key not in options]:
        raise ValueError(f"options.{lacking[0]}: is missing, and {name} needs it; give it a value")


@functools.cache
def plain(overrides: tuple[str, ...]) -> dict[str, Any]:
    """The configuration as plain values; what a network needs of them is checked. Callers share the values and must not
    change them."""
    config = plain_values(compose(with_assumed(overrides))[0])
    validate(config, groups=("model", "norm", *(["data"] if value_of("data", overrides) else [])))
    return config


@functools.cache
def norm_factory(overrides: tuple[str, ...]) -> Callable[..., nn.Module]:
    """The norm that the overrides choose, as a factory for models: `norm(num_features, channel_dim)`."""
    return construct("norm", plain(overrides)["norm"])


def network(overrides: tuple[str, ...], seed: int) -> SiteNetwork:
    """A network with its initial weights. Attributes describe its inputs: examples of the data set if the overrides
    name one, else noise of a fixed shape."""
    config = plain(overrides)
    # Every model of this project is one.
    kind = cast(type[SiteNetwork], resolve_target("model", config["model"]["_target_"]))
    sizes, examples = (IMAGE if kind.accepts == "image" else TEXT), None
    if value_of("data", overrides):
        sizes, examples = examples_of(json.dumps(config["data"]))
    model = cast(SiteNetwork, build_model({**config, "seed": seed}, sizes))
    model.input_shape, model.num_classes = sizes.input_shape, sizes.num_classes
    model.examples = examples
    return model


@functools.cache
def examples_of(node: str) -> tuple[Sizes, tuple[Tensor, Tensor]]:
    """Sizes and validation examples of a data set. `node` is its configuration as JSON."""
    data = construct("data", json.loads(node))
    examples = data.probe_batch(EXAMPLES)
    return Sizes(data.input_shape, data.num_classes), examples
