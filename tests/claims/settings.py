"""Fabricated settings with known truth."""

import numpy as np

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.outcomes import Outcomes, Setting

FEWER = Comparison(kind="smaller", arm="a", baseline="b", log=True, margin=0.1)
PLACES = [
    ("digits", "MLP"),
    ("digits", "CNN"),
    ("MNIST", "MLP"),
    ("MNIST", "CNN"),
    ("CIFAR-10", "CNN"),
    ("CIFAR-10", "MLP"),
]


def family(effects: list[float], *, n: int = 12, noise: float = 0.1, seed: int = 0) -> list[Setting]:
    """A setting for each effect (log ratio of a to b)."""
    generator = np.random.default_rng(seed)
    found = []
    for place, effect in enumerate(effects):
        data, model = PLACES[place % len(PLACES)]
        outcomes = {
            (arm, ""): Outcomes(
                np.arange(n), np.exp(own + noise * generator.normal(size=n) - 2.5), np.zeros(n, bool)
            )
            for arm, own in (("a", effect), ("b", 0.0))
        }
        labels = {"data": data, "model": model}
        found.append(Setting(f"{data}_{model}_{place}", outcomes, "error", guess=0.9, labels=labels))
    return found
