"""One setting, a cell of a bank: everything that decides a result, except norm, learning rate and seed."""

import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Sample = Literal["test set", "cut again", "blocks"]
FACTS = ("validation", "chance", "guess_loss", "test_to_train")
FINAL, EARLY = LENGTHS = "final", "early"
# What values are called in scopes.
NAMES = {
    "data": {
        "mnist": "MNIST",
        "fashion_mnist": "Fashion-MNIST",
        "kmnist": "KMNIST",
        "cifar10": "CIFAR-10",
        "cifar10_jpeg": "CIFAR-10",
        "cifar100": "CIFAR-100",
        "python_docs": "Python docs",
    },
    "model": {"mlp": "MLP", "cnn": "CNN", "resnet": "ResNet", "gpt": "GPT", "transformer": "transformer"},
    "model.activation": {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "identity": "linear"},
    "model.initialization": {
        "he": "He",
        "xavier": "Xavier",
        "gpt2": "GPT-2",
        "small_gaussian": "small Gaussian",
    },
    "model.norm_position": {
        "pre_activation": "norm before the activation",
        "post_activation": "norm after the activation",
        "pre": "Pre-LN",
        "post": "Post-LN",
        "sandwich": "Peri-LN",
    },
}


@dataclass(frozen=True, kw_only=True)
class BankCell:
    """One setting: everything that decides a result, except norm, learning rate and seed.

    Attributes:
        labels: the setting in words, at least `data` and `model`.
        overrides: of `normexp train`, including those that all cells share.
        rates: learning rates, the same for every norm. Empty until they are found in the configuration.
        test: the kind of test examples. `test set`: the same in every run. `cut again`: each seed cuts its own split.
            `blocks`: stretches of one text, the same in every run. None until it is found.
        replicas: whether all seeds and rates of a norm train together in one process.
        seconds: rough time of one run; None: that of the claim.
        norms: those that the bank itself trains in this cell.
        validation: number of answers on validation, images or characters. 0 until it is found in the data.
        chance: share of the most frequent answer, the accuracy of a constant guess.
        guess_loss: loss in nats of the best guess that ignores the input.
        test_to_train: number of test examples divided by training examples.
        draw: of a setting that was drawn, such as "mlp 3".
        updates: the length that pilots found; 0 for a setting that was written by hand, or has no pilot yet.
        step_seconds: core-seconds of an update, from its pilot.
        arm_rates: of a drawn setting, the rates of each norm.
        counts_loss: loss in nats of the counts that a network of a drawn text must beat; infinite where its bank names
            none (`ngrams`).
        learned: whether networks learn this setting at its final length: the best norm's pilot made less than 5% errors
            on the training split, or on a text ended below the loss of counts of four characters. None: not known.
    """

    name: str
    overrides: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    rates: tuple[float, ...] = ()
    test: Sample | None = None
    replicas: bool = False
    seconds: float | None = None
    norms: tuple[str, ...] = ()
    validation: int = 0
    chance: float = 0.0
    guess_loss: float = 0.0
    test_to_train: float = 0.0
    draw: str = ""
    updates: int = 0
    step_seconds: float = 0.0
    arm_rates: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    counts_loss: float = math.inf
    learned: bool | None = None

    def rate(self, which: str) -> float:
        """The `lowest`, `middle` or `highest` learning rate of the grid. `middle` is the lower one of two middles."""
        return self.rates[{"lowest": 0, "middle": (len(self.rates) - 1) // 2, "highest": -1}[which]]

    def at_length(self, at: str, early: float) -> "BankCell":
        """A drawn setting at its `final` length, or at its `early` one, which has a name of its own."""
        updates = self.updates if at == FINAL else max(1, round(self.updates / early))
        return dataclasses.replace(
            self,
            name=self.name if at == FINAL else f"{self.name}-{at}",
            updates=updates,
            overrides=(*self.overrides, *length_of(updates)),
            labels={**self.labels, "updates": str(updates)},
            seconds=updates * self.step_seconds,
        )

    @property
    def what(self) -> str:
        if self.draw:  # which has more labels than a line takes
            return f"{self.labels['model']} on {self.labels['data']}"
        return ", ".join(self.labels.values())

    @property
    def digest(self) -> str:
        """Tells cells of one name apart."""
        return digest_of(self.overrides)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to be found in configuration and data."""
        return bool(self.rates and self.test and self.validation)


def digest_of(overrides: Sequence[str]) -> str:
    """First digits of the SHA-256 of overrides, in their order."""
    return hashlib.sha256("\n".join(overrides).encode()).hexdigest()[:12]


def length_of(updates: int) -> list[str]:
    """The overrides of a length."""
    return [f"max_steps={updates}", f"val_every_n_steps={max(1, updates // 5)}"]


def value_of(key: str, overrides: Sequence[str]) -> str:
    """The last value of a key in overrides; empty if there is none."""
    return next((o.partition("=")[2] for o in reversed(overrides) if o.partition("=")[0] == key), "")


def label(key: str, value: str) -> str:
    """The name of a choice in scopes."""
    return NAMES[key].get(value, value)


def labels_of(overrides: Sequence[str]) -> dict[str, str]:
    """The labels of a setting for scopes, such as {"data": "MNIST", "model": "MLP", "activation": "ReLU"}."""
    values = {key.rpartition(".")[2]: value_of(key, overrides) for key in NAMES}
    return {
        name: label(key, value) for key, (name, value) in zip(NAMES, values.items(), strict=True) if value
    }
