"""Finished settings of a drawn bank with errors from a rule, in place of training."""

import numpy as np

from normexp.advise.nearest import Measured
from normexp.claims.judge.outcomes import Outcomes, Setting
from normexp.claims.spec.cell import BankCell

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


def made(errors, n: int = 24, seed: int = 0, noise: float = 0.0) -> list[Measured]:
    """Settings whose errors on test are `errors(norm, labels, at)`; a run at 0.9 or above has failed."""
    generator, found = np.random.default_rng(seed), []
    for place in range(n):
        labels, outcomes = labels_of(generator), {}
        for norm in NORMS:
            error = errors(norm, labels, "final")
            values = np.array([error * np.exp(noise * generator.normal()) for _ in range(2)])
            outcomes[norm, ""] = Outcomes(np.arange(2), values, values >= GUESS)
        cell = BankCell(
            name=f"d{place:03d}", overrides=(), labels=labels, draw=f"mlp {place}", validation=2000, chance=0.1,
            guess_loss=2.3,
        )  # fmt: skip
        setting = Setting(
            name=cell.name, outcomes=outcomes, quantity="error", guess=GUESS, answer=1e-4, labels=labels
        )
        found.append(Measured(cell.name, cell, setting))
    return found
