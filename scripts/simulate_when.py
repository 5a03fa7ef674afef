"""Measure how often "when" is false over claims that hold by chance alone, and how often a planted one is found:
`python scripts/simulate_when.py` writes docs/data/when_errors.json, which docs/when.md shows."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # works without installing the package

import numpy as np
from scipy import stats

from normexp.claims.judge.when import over_all_claims, when
from normexp.claims.pages.verdicts_page import WHEN_ERRORS
from normexp.claims.spec.bank import load_bank
from normexp.config.folder import CONFIGS

Rule = Callable[[Mapping[str, str]], bool]
PLANTED: dict[str, Rule] = {
    "a batch of at least 64": lambda setting: int(setting["batch size"]) >= 64,
    "ReLU": lambda setting: setting["activation"] == "ReLU",
    "a batch of at least 64 and a depth below 6": lambda setting: (
        int(setting["batch size"]) >= 64 and int(setting["depth"]) < 6
    ),
}


CELLS = list(load_bank("drawn").cells.values())


def labels(generator: np.random.Generator) -> list[dict[str, str]]:
    """The settings of the bank in the order drawn; lengths, which pilots find, log-uniform."""
    updates = np.exp(generator.uniform(np.log(100), np.log(10_000), len(CELLS))).astype(int)
    return [{**cell.labels, "updates": str(number)} for cell, number in zip(CELLS, updates, strict=True)]


def false_words(share: float, claims: int, alike: float, trials: int) -> tuple[str, ...]:
    """A row: how often at least one of several claims is said to depend on something, where none does.

    Args:
        share: of the settings in which a claim holds.
        alike: correlation of the claims' effects in a setting, since claims share settings.
    """
    generator, false = np.random.default_rng(0), 0
    for trial in range(trials):
        settings = labels(generator)
        common = generator.normal(size=len(CELLS))
        effects = alike**0.5 * common + (1 - alike) ** 0.5 * generator.normal(size=(claims, len(CELLS)))
        rows = (
            [{"name": str(place), "labels": setting, "holds": value > stats.norm.isf(share)}
             for place, (setting, value) in enumerate(zip(settings, effect, strict=True))]
            for effect in effects
        )  # fmt: skip
        conditions = over_all_claims(
            {f"{trial} {k}": when(f"{trial} {k}", claim_rows) for k, claim_rows in enumerate(rows)}
        )
        false += any(condition.found for condition in conditions.values())
    low, high = stats.binomtest(false, trials).proportion_ci(0.95)
    return (f"{share:.0%}", str(claims), f"{alike:g}", f"{false / trials:.1%} ({low:.1%} to {high:.1%})")


def power(name: str, wrong: float, trials: int) -> tuple[str, ...]:
    """A row: how often a planted condition leads to a "when", alone and among ten claims."""
    generator = np.random.default_rng(0)
    p, rule = np.ones(trials), PLANTED[name]
    for trial in range(trials):
        rows = [
            {"name": str(place), "labels": setting, "holds": rule(setting) != (generator.random() < wrong)}
            for place, setting in enumerate(labels(generator))
        ]
        condition = when(f"{name} {trial}", rows)
        p[trial] = condition.p if condition else 1.0
    return (name, f"{wrong:.0%}", f"{(p <= 0.05).mean():.0%}", f"{(p <= 0.005).mean():.0%}")


def main() -> None:
    """Simulate and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=400, help="simulated pages a row")
    trials = parser.parse_args().trials
    grid = [(0.5, 1, 0.0), (0.3, 1, 0.0), (0.8, 1, 0.0), (0.5, 10, 0.0), (0.5, 10, 0.8), (0.7, 10, 0.5)]
    record = {
        "trials": trials,
        "columns": ["every claim holds in", "claims", "correlation", "a false when on the page"],
        "rows": [false_words(*row, trials) for row in grid],
        "power_columns": ["the claim holds with", "else it is so in", "found alone", "as one of ten"],
        "power": [power(name, wrong, trials) for name in PLANTED for wrong in (0.0, 0.1)],
    }
    (CONFIGS.parent / WHEN_ERRORS).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
