"""Fabricated settings with known truth."""

import numpy as np

from normexp.claims.judge.outcomes import Outcomes, Setting


def right_or_wrong(rates: dict[str, float], seed: int, n: int = 5, examples: int = 1000) -> dict:
    """Wrong answers of arms at given error rates; which examples are hard is the same in all runs of an arm."""
    generator = np.random.default_rng(seed)
    hardness = generator.exponential(size=examples)
    found = {}
    for arm, rate in rates.items():
        chance = np.minimum(rate * hardness, 1)
        found[arm, ""] = Outcomes.of_examples(range(n), generator.random((n, examples)) < chance)
    return found


def errors(rates: dict[str, float], seed: int = 0, name: str = "mnist", **options) -> Setting:
    """A setting whose test set is fixed and whose wrong answers are counted."""
    sizes = {key: options.pop(key) for key in ("n", "examples") if key in options}
    kept = {"design": "test set", "counts": True, "guess": 0.9, "labels": {"data": "MNIST", "model": "MLP"}}
    return Setting(name, right_or_wrong(rates, seed, **sizes), **(kept | options))


def values(arms: dict[str, list], name: str = "mnist", failed: dict | None = None, **options) -> Setting:
    """A setting of one number a run."""
    found = {}
    for arm, own in arms.items():
        lost = np.array((failed or {}).get(arm, [False] * len(own)))
        found[arm, ""] = Outcomes(np.arange(len(own)), np.array(own, float), lost)
    return Setting(name, found, **options)
