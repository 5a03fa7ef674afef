"""Fabricated settings with known truth."""

import numpy as np
from tables import spread

from normexp.claims.judge.comparison import Comparison
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
    """A setting with one number per run."""
    found = {}
    for arm, own in arms.items():
        lost = np.array((failed or {}).get(arm, [False] * len(own)))
        found[arm, ""] = Outcomes(np.arange(len(own)), np.array(own, float), lost)
    return Setting(name, found, **options)


FEWER = Comparison(kind="smaller", arm="a", baseline="b", log=True, margin=0.1)
PLACES = [
    ("digits", "MLP"),
    ("digits", "CNN"),
    ("MNIST", "MLP"),
    ("MNIST", "CNN"),
    ("CIFAR-10", "CNN"),
    ("CIFAR-10", "MLP"),
]


def family(
    effects: list[float],
    *,
    n: int = 12,
    noise: float = 0.1,
    seed: int = 0,
    failed: dict | None = None,
    first=0,
):
    """A setting for each effect (log ratio of a to b), drawn, or of exactly that mean where `seed` is None."""
    generator = np.random.default_rng(seed)
    found = []
    for place, effect in enumerate(effects):
        data, model = PLACES[place % len(PLACES)]
        own = {"a": effect, "b": 0.0}
        exact = {"a": np.array(spread(0.0, noise, n)), "b": np.zeros(n)}
        drawn = {arm: noise * generator.normal(size=n) for arm in own}
        arms = {arm: np.exp(own[arm] + (exact if seed is None else drawn)[arm] - 2.5) for arm in own}
        setting = values(
            arms, f"{data}_{model}_{place}", failed, labels={"data": data, "model": model}, guess=0.9
        )
        moved = {arm: Outcomes(o.seeds + first, o.values, o.failed) for arm, o in setting.outcomes.items()}
        found.append(Setting(setting.name, moved, guess=0.9, labels=setting.labels))
    return found
