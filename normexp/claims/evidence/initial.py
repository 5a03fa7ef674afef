"""Evidence without training: a law of a norm, or a measure of networks at their initialization."""

import dataclasses

import pandas as pd

from normexp.claims.evidence.sources import initial_labels, setting_of_table
from normexp.claims.evidence.subjects import law, network, norm_factory
from normexp.claims.judge.outcomes import Setting, check_complete, make_table
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.settings import split_options


def gather(claim: Claim, seeds: int) -> pd.DataFrame:
    """One value per arm, level of the factor and seed."""
    rows = []
    # Seeds in the outer loop, so that measured times drift alike in all arms.
    for seed in claim.seed_range(seeds):
        for level in claim.levels:
            for arm, choice in claim.arms.items():
                value = _value(claim, choice, *_case(claim, choice, level), seed)
                rows.append({"arm": arm, "factor": level, "seed": seed, "value": value})
    table = make_table(rows)
    check_complete(table, list(claim.arms), claim.levels, list(claim.seed_range(seeds)))
    return table


def _case(claim: Claim, choice: list | dict, level: object) -> tuple[tuple[str, ...], dict]:
    """Overrides and keyword arguments of one arm at one level. A factor with a dot in its name is an override."""
    overrides = [*claim.fixed, *(choice if isinstance(choice, list) else [])]
    options = {**claim.options, **(choice if isinstance(choice, dict) else {})}
    for name in claim.factor:
        if "." in name:
            overrides.append(f"{name}={level}")
        else:
            options[name] = level
    return tuple(overrides), options


_known: dict[str, float] = {}  # claims share networks, and a network always measures the same


def _value(claim: Claim, choice: list | dict, overrides: tuple, options: dict, seed: int) -> float:
    if claim.function is None:
        raise ValueError(f"claim={claim.id}: function: is missing; name one of normexp/claims/laws")
    measure = law(claim.function)
    if claim.evidence == "initialization":
        key = repr((claim.function, sorted(overrides), sorted(options.items()), seed))
        if key not in _known:
            _known[key] = measure(network(overrides, seed), seed=seed, **options)
        return _known[key]
    if isinstance(choice, dict):  # a fact about torch, without a norm
        return measure(seed=seed, **options)
    return measure(norm_factory(overrides), seed=seed, **options)


def initial_setting(
    claim: Claim, name: str, overrides: list[str], seeds: range, function: str | None = None
) -> Setting:
    """A setting of networks made anew, at these seeds. `function` replaces the claim's own."""
    overrides, options = split_options(overrides)
    own = dataclasses.replace(
        claim,
        settings={},
        fixed=[*overrides, *claim.fixed],
        options={**claim.options, **options},
        function=function or claim.function,
        first_seed=seeds.start,
    )
    return setting_of_table(name, gather(own, len(seeds)), initial_labels(claim, overrides))
