"""The fully resolved protocol of a claim: every value of every configuration. So no default can change unnoticed.

It imports no torch.
"""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from normexp.claims.evidence.as_registered import values
from normexp.claims.evidence.choose_rates import RATE_RULES
from normexp.claims.evidence.sources import DIFFERENT, FAILURE_RULES
from normexp.claims.judge.settings_count import FRESH_SEEDS, MOST_SEEDS, RULES
from normexp.claims.spec.bank import Bank
from normexp.claims.spec.cell import BankCell
from normexp.claims.spec.claim import Claim, split_options
from normexp.claims.spec.registry import Seeds, digest
from normexp.config.compose import compose, plain_values

FIELDS = (
    *("sentence", "evidence", "function", "metric", "factor", "options"),
    *("seeds", "first_seed", "better", "tune", "replicas", "universal", "first"),
)
POPULATION_RULES = {
    "draws": "each choice by a PCG64 seeded with SHA-256 of seed/stratum/number of the draw/choice, the order of "
    "strata in a block by one of seed/order/place; a rejected draw is replaced by the next of its stratum",
    "first search": "each arm at each rate of its optimizer at the first length, one seed; while the best on "
    "validation is an edge, one more rate there, at most `widenings` times",
    "fitted": "an arm that did not fail, at its best rate: its training error is below `learned` of guessing's, or "
    "twice the length lowers its validation error (text: loss) by less than `gain`; then at longer lengths too",
    "length": "the shortest of first, twice, four times ... at which every arm that did not fail there is fitted",
    "rejected": "cannot be built; the first length costs more than `start_seconds`, or the next one needed more than "
    "`seconds`: updates x the mean over arms of the lowest of five windows of process seconds of an update",
    "rates": "of each arm its best in the pilot and both neighbors in 1, 3, 10; one more where the best on validation "
    "is an edge for more than a fifth of an arm's seeds, twice at most; each seed takes its best on validation",
    "failed": "a loss that is not finite, a final training or validation loss above ten times guessing's, or an "
    "accuracy on validation that a constant guess has with p > 0.001; it counts as a guess in all arms",
}
NGRAMS_RULE = {  # of a population that has the key
    "ngrams": "a text is fitted only where its validation loss is below that of an n-gram model of its training split, "
    "with n = `ngrams` tokens and Witten-Bell smoothing: p(c|h) = (n(hc) + k(h) p(c|h')) / (n(h) + k(h)), p(c) = "
    "(n(c) + 1) / (N + V)",
}
NOTHING = "nothing"  # stands for a key that a configuration lacks


def resolved_protocol(claim: Claim) -> dict[str, Any]:
    """The protocol as plain values: the yaml, the judge's rules, and each configuration. Raises ValueError for a law,
    since a plan cannot change whether a law holds."""
    if claim.evidence not in ("training", "initialization"):
        raise ValueError(f"claim={claim.id}: evidence={claim.evidence} needs no registration; leave it out")
    configurations = resolved_cells(cells(claim)) if claim.drawn_from is None else _of_sample(claim)
    trained, check = claim.evidence == "training" and claim.settings, claim.manipulation
    by_setting = {name: split_options(overrides)[1] for name, overrides in claim.settings.items()}
    options = {name: changed for name, changed in by_setting.items() if changed}
    return {
        "claim": claim.id,
        "budget": claim.budget,  # "quick", the literal of the bank `small`
        **{name: getattr(claim, name) for name in FIELDS},
        "comparisons": [comparison.shown() for comparison in claim.comparisons],
        "manipulation": check
        and {"metric": check.metric, "function": check.function, "comparison": check.comparison.shown()},
        "monitors": [override for override in claim.fixed if override.startswith("monitor")],
        "rules": RULES | RATE_RULES | FAILURE_RULES,
        # Those of the function that settings change.
        **({"options of settings": options} if options else {}),
        **({"rate": claim.rate, "grids": _grids(claim.cells)} if trained else {}),
        **configurations,
    }


def _of_sample(claim: Claim) -> dict[str, Any]:
    """The settings of a claim over a population. The row of their bank fixes every value of each; the arms are resolved
    in the first one."""
    assert claim.drawn_from
    first = next(iter(claim.settings), None)
    alone = dataclasses.replace(claim, settings={name: claim.settings[name] for name in [first] if name})
    return {
        "bank": bank_digest(claim.drawn_from),
        "first": claim.first,
        "names": list(claim.settings),
        **({"different networks": DIFFERENT} if claim.evidence == "initialization" else {}),
        **resolved_cells(cells(alone)),
    }


def bank_digest(bank: Bank) -> str:
    """The hash of a drawn bank's protocol, as in its row."""
    return digest(bank_protocol(bank))


def _grids(cells: Mapping[str, BankCell]) -> dict[str, Any]:
    """The learning rates of cells, which come from their bank and not from a claim's yaml."""
    return {
        name: {"rates": list(cell.rates), "test": cell.test, "replicas": cell.replicas}
        for name, cell in cells.items()
    }


def cells(claim: Claim) -> dict[str, list[str]]:
    """Overrides of every setting, arm and level, by name."""
    overrides_by_name = {}
    for setting, overrides in (claim.settings or {"": []}).items():
        for arm, arm_overrides in claim.arms.items():
            for level in claim.levels:
                words = [*split_options(overrides)[0], *claim.fixed, *arm_overrides]
                for word in claim.factor_of(level):  # else an option of the function
                    if claim.evidence == "training" or "." in word.partition("=")[0]:
                        words.append(word)
                name = " / ".join(filter(None, (setting, arm, str(level))))
                overrides_by_name[name] = words
    return overrides_by_name


def resolved_cells(overrides: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """`common` holds the values that all configurations share, `cells` those in which each differs. Paths and hardware
    are omitted, because they are no part of a run's identity."""
    flats = {name: _flat(values(unchecked(tuple(words)))) for name, words in overrides.items()}
    first = next(iter(flats.values()), {})
    common = {
        key: value
        for key, value in sorted(first.items())
        if all(flat.get(key, NOTHING) == value for flat in flats.values())
    }
    cells = {
        name: {key: value for key, value in flat.items() if key not in common} for name, flat in flats.items()
    }
    return {"common": common, "cells": cells}


def check_cells(overrides: Mapping[str, Sequence[str]]) -> None:
    """Raise ValueError with one line for a configuration with which no run could be built. It imports Lightning, so it
    is asked once, when a protocol is registered."""
    from normexp.config.run_spec import resolved

    for cell_overrides in overrides.values():
        resolved(compose(with_recipe(cell_overrides))[0])


def with_recipe(overrides: Sequence[str]) -> tuple[str, ...]:
    """Protocols that name no recipe assume the plain one."""
    names_recipe = any(override.startswith("recipe=") for override in overrides)
    return tuple(overrides) if names_recipe else ("recipe=plain", *overrides)


@functools.cache
def unchecked(overrides: tuple[str, ...]) -> dict[str, Any]:
    """The configuration as plain values, which are not checked. Callers share it and must not change it."""
    watched = any(word.startswith("monitor") for word in overrides)
    # Without monitors, as runs are planned, so both are composed once. A protocol has no monitor but its claim's own.
    words = overrides if watched else ("monitor=none", *overrides)
    return plain_values(compose(with_recipe(words))[0])


def names_data(overrides: Iterable[str]) -> bool:
    """Whether overrides choose a data set."""
    return any(override.startswith("data=") for override in overrides)


def _flat(node: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in node.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def seeds_of(claim: Claim) -> Seeds:
    """The seeds that the verdict may judge: of drawn settings with those near the margin, and of a worst setting."""
    first, last = claim.seed_range.start, claim.seed_range.stop
    if claim.drawn and claim.evidence == "training":
        last = max(last, first + MOST_SEEDS) + FRESH_SEEDS * claim.universal
    return [[first, last]]


def bank_protocol(bank: Bank) -> dict[str, Any]:
    """The protocol of a bank's grid for the registry: every value of every cell and norm, the rates and the seeds."""
    if bank.drawn and any(cell.updates for cell in bank.cells.values()):
        return _drawn_protocol(bank)
    if bank.drawn:
        return population_protocol(bank)
    grid = bank.grid.cells
    return {"seeds": bank.seeds, "families": _grids(grid), **resolved_cells(bank_cells(bank))}


def population_protocol(bank: Bank) -> dict[str, Any]:
    """What is fixed before the first draw: distributions, seeds and rules. The order of keys does not matter."""
    node = bank.known_population.node
    more = NGRAMS_RULE if "ngrams" in node.get("length", {}) else {}
    return {"population": node, "rules": POPULATION_RULES | more}


def _drawn_protocol(bank: Bank) -> dict[str, Any]:
    """What is fixed before the first run that is judged: each setting with its length and the rates of each norm."""
    cells = {
        cell.name: {"draw": cell.draw, "updates": cell.updates, "rates": dict(cell.arm_rates)}
        for cell in bank.cells.values()
    }
    first, *_ = bank.cells.values()
    return {
        **population_protocol(bank),
        "seeds": bank.seeds,
        "settings": cells,
        "rejected": {draw: row["rejected"] for draw, row in bank.pilots.items() if "rejected" in row},
        "norms": resolved_cells({norm: [*first.overrides, f"norm={norm}"] for norm in bank.norms}),
        **resolved_cells({name: [*bank.at_lengths(name)[0].overrides, "norm=none"] for name in bank.cells}),
    }


def bank_cells(bank: Bank) -> dict[str, list[str]]:
    """Overrides of every cell and norm of a bank's grid, at the lowest rate."""
    return {
        f"{cell.name} / {norm}": [*cell.overrides, f"norm={norm}", f"lr={cell.rates[0]:g}"]
        for cell in bank.grid.cells.values()
        for norm in bank.norms
    }
