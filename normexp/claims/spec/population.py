"""Settings drawn at random, from the distributions in a bank's yaml.

A draw is independent of all others, of the machine and of the order of keys: every choice has a random generator of
its own, seeded by the bank's seed, the names of stratum and choice, and the number of the draw. A rejected draw is
replaced by the next one of its stratum. Which were rejected, and the lengths and rates of the others, stand in the
file of pilots beside the yaml.
"""

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, Discriminator, Field, RootModel, Tag, model_validator

from normexp.claims.spec.cell import BankCell, Overrides, Rates, Some, Strict, Text, Whole, require_rising

FACTS = ("test", "validation", "chance", "guess_loss")
LEARNED_ERROR = 0.05  # on the training split, of a setting that networks have learned
DIGITS = 2  # of a drawn number that is not whole
Above0 = Annotated[int | float, Field(gt=0, allow_inf_nan=False)]  # which stays whole where it is
Drawn = tuple[str, list[str]]  # label and overrides


class Range(Strict):
    """Numbers between two ends."""

    low: int | float
    high: int | float

    @model_validator(mode="after")
    def _rise(self) -> Self:
        if self.high < self.low:
            raise ValueError(f"high={self.high} is below low={self.low}; swap them")
        return self


class Between(Range):
    """A number between two ends above 0, evenly by its logarithm; whole where `low` is."""

    key: Text
    low: Above0
    high: Above0

    def choose(self, random: float, labels: Mapping[str, str]) -> Drawn:
        low, high = math.log(self.low), math.log(self.high)
        exact = math.exp(low + random * (high - low))
        value = round(exact) if isinstance(self.low, int) else float(f"{exact:.{DIGITS}g}")
        return str(value), [f"{self.key}={value}"]


class Values(Strict):
    """One of a list of values."""

    key: Text
    values: Some

    def choose(self, random: float, labels: Mapping[str, str]) -> Drawn:
        value = self.values[int(random * len(self.values))]
        return str(value), [f"{self.key}={value}"]


class Named(RootModel[Annotated[dict[str, Overrides], Field(min_length=1)]]):
    """One of several names, each with its overrides."""

    def choose(self, random: float, labels: Mapping[str, str]) -> Drawn:
        name = sorted(self.root)[int(random * len(self.root))]
        return name, list(self.root[name])


class By(Strict, extra="allow"):
    """A choice for each value of another label, which is drawn before."""

    __pydantic_extra__: dict[str, "Choice"]
    by: Text

    def choose(self, random: float, labels: Mapping[str, str]) -> Drawn:
        value = labels.get(self.by)
        if value not in self.__pydantic_extra__:
            raise ValueError(f"by={self.by}: no choice for {value}; add it, or name a label drawn before")
        return self.__pydantic_extra__[value].choose(random, labels)


def _form_of(node: Any) -> str:
    if isinstance(node, BaseModel):
        return type(node).__name__
    keys = node if isinstance(node, dict) else ()
    forms = {"by": "By", "values": "Values", "key": "Between"}
    return next((form for key, form in forms.items() if key in keys), "Named")


Choice = Annotated[
    Annotated[Between, Tag("Between")]
    | Annotated[Values, Tag("Values")]
    | Annotated[Named, Tag("Named")]
    | Annotated[By, Tag("By")],
    Discriminator(_form_of),
]


class Stratum(Strict):
    """A kind of models, with its share of each block of settings."""

    share: Whole
    fixed: Overrides = Field(default=[])
    choose: dict[str, Choice] = Field(default={})


class Length(Strict):
    """The rules by which pilots find lengths; docs/claims.md explains them."""

    updates: Whole
    passes: Above0
    start_seconds: Above0
    seconds: Above0
    learned: Above0
    gain: Above0
    early: Annotated[int | float, Field(gt=1)]  # a divisor of the final length
    widenings: Whole
    seed: Annotated[int, Field(ge=0)]
    ngrams: Whole | None = None


class Grid(Strict):
    """The norms and seeds that a bank trains itself, in all of its settings."""

    norms: Annotated[list[Text], Field(min_length=1)]
    seeds: Whole


class Population(Strict):
    """Distributions of settings, and the rules by which pilots find lengths and rates. A population of networks
    that are only looked at before training has no `rates`, `length` and `grid`."""

    seed: Annotated[int, Field(ge=0)]
    settings: Whole
    strata: Annotated[dict[str, Stratum], Field(min_length=1)]
    shared: Overrides = Field(default=[])
    choose: dict[str, Choice] = Field(default={})
    rates: dict[str, Rates] = Field(default={})  # of the pilots' first search, by the label `optimizer`
    length: Length | None = None
    grid: Grid | None = None

    @model_validator(mode="after")
    def _fit(self) -> "Population":
        of_training = {"rates": self.rates, "length": self.length, "grid": self.grid}
        trained = any(of_training.values())
        if trained and (absent := [key for key, value in of_training.items() if not value]):
            raise ValueError(f"{absent[0]} is missing; add it")
        for optimizer, rates in self.rates.items():
            require_rising(f"rates.{optimizer}", rates)
        for name in self.strata:
            if missing := {"data", "model", *(["optimizer"] if trained else [])} - self.choices(name).keys():
                raise ValueError(f"strata.{name}.choose must choose {min(missing)}")
        return self

    def choices(self, stratum: str) -> "dict[str, Choice]":
        """The choices of a stratum as they are drawn: by name, and those that depend on another one last."""
        choose = self.choose | self.strata[stratum].choose
        order = sorted(choose, key=lambda key: (isinstance(choose[key], By), key))
        return {key: choose[key] for key in order}

    @property
    def slots(self) -> list[str]:
        """The stratum of each setting. Each block has the written proportions, in an order of its own."""
        block = [name for name in sorted(self.strata) for _ in range(self.strata[name].share)]
        slots: list[str] = []
        while len(slots) < self.settings:
            random = _generator(self.seed, "order", len(slots)).random(len(block))
            slots += [block[index] for index in np.argsort(random, kind="stable")]
        return slots[: self.settings]

    def draw(self, stratum: str, number: int, name: str = "") -> BankCell:
        """The draw with this number, from 1: `mlp 3` is the third MLP."""
        overrides, labels = [*self.shared, *self.strata[stratum].fixed], dict[str, str]()
        for key, choice in self.choices(stratum).items():
            random = float(_generator(self.seed, stratum, number, key).random())
            labels[key], chosen = choice.choose(random, labels)
            overrides += chosen
        return BankCell(name=name, draw=f"{stratum} {number}", overrides=tuple(overrides), labels=labels)

    def drawn(self, rejected: Collection[str]) -> Iterator[BankCell]:
        """The settings in the order drawn, without the rejected draws."""
        numbers = dict.fromkeys(self.strata, 0)
        for number, stratum in enumerate(self.slots, 1):
            numbers[stratum] += 1
            while f"{stratum} {numbers[stratum]}" in rejected:
                numbers[stratum] += 1
            yield self.draw(stratum, numbers[stratum], f"d{number:03d}")


def with_pilot(cell: BankCell, pilot: Mapping[str, Any]) -> BankCell:
    """The setting with its length, its rates and the facts of its data; without a pilot, as it was drawn."""
    if "updates" not in pilot:
        return cell
    arm_rates = {norm: tuple(rates) for norm, rates in pilot["rates"].items()}
    by_center = sorted(arm_rates.values(), key=lambda rates: rates[len(rates) // 2])
    found = {key: pilot[key] for key in ("updates", *FACTS)} | {
        "rates": by_center[len(by_center) // 2],
        "arm_rates": arm_rates,
        "counts_loss": pilot.get("counts_loss", math.inf),
        "learned": learned_in(pilot),
        "labels": {**cell.labels, "values per statistic": str(pilot["values_per_statistic"])},
    }
    return cell.model_copy(update=found)


def learned_in(pilot: Mapping[str, Any]) -> bool | None:
    """Whether the best norm of a pilot had learned at its end; None where nobody counted the text's characters."""
    ends = pilot.get("ends", {}).values()
    if not ends:
        return None
    if pilot["test"] != "blocks":
        return min(1 - end["train_accuracy"] for end in ends) < LEARNED_ERROR
    if "learned_loss" not in pilot:
        return None
    return min(end["val_loss"] for end in ends) < pilot["learned_loss"]


def _generator(*names: Any) -> np.random.Generator:
    digest = hashlib.sha256("/".join(map(str, names)).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))
