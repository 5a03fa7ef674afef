"""Finished settings of a drawn bank with errors from a rule, in place of training."""

import numpy as np

from normexp.claims.judge.outcomes import Outcomes, Setting

NORMS = ("none", "batchnorm", "layernorm")
GUESS = 0.9


def labels_of(generator: np.random.Generator) -> dict[str, str]:
    model = str(generator.choice(["MLP", "CNN"]))
    return {
        "data": str(generator.choice(["MNIST", "CIFAR-10"])),
        "model": model,
        "depth": str(generator.integers(1, 9)),
        "batch size": str(int(np.exp(generator.uniform(np.log(8), np.log(512))))),
        "activation": str(generator.choice(["ReLU", "tanh"])),
        "updates": str(int(np.exp(generator.uniform(np.log(100), np.log(9000))))),
    }


def made(errors, n: int = 24, seed: int = 0, noise: float = 0.0) -> list[Setting]:
    """Settings whose errors on test are `errors(norm, labels, at)`; a run at 0.9 or above has failed."""
    generator, found = np.random.default_rng(seed), []
    for place in range(n):
        labels, outcomes = labels_of(generator), {}
        for norm in NORMS:
            error = errors(norm, labels, "final")
            values = np.array([error * np.exp(noise * generator.normal()) for _ in range(2)])
            outcomes[norm, ""] = Outcomes(np.arange(2), values, values >= GUESS)
        name = f"d{place:03d}"
        found.append(Setting(name, outcomes, quantity="error", guess=GUESS, answer=1e-4, labels=labels))
    return found
