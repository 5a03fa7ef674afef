"""One setting, a cell of a bank: everything that decides a result, except norm, learning rate and seed."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from normexp.config.errors import checked
from normexp.config.folder import load_yaml
from normexp.config.options import key_of
from normexp.format import require_plain


def as_number(value: Any) -> Any:
    """What everybody means by 1e-6, which YAML 1.1 reads as text."""
    return float(value) if re.fullmatch(r"[+-]?\d+[eE][+-]?\d+", str(value)) else value


Text = Annotated[str, Field(pattern=r"\S")]
Positive = Annotated[float, BeforeValidator(as_number), Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]
Whole = Annotated[int, Field(ge=1)]
Some = Annotated[list[Any], Field(min_length=1)]
Overrides = list[Text]  # overrides of `normexp train`
AS_TUPLE = BeforeValidator(lambda node: tuple(node) if isinstance(node, list) else node)
Rates = Annotated[tuple[Positive, ...], AS_TUPLE]

FINAL, EARLY = LENGTHS = "final", "early"
# What values are called in scopes.
NAMES: dict[str, dict[str, str]] = load_yaml(Path(__file__).with_name("labels.yaml").read_text())
# Keys whose label has another name than their last part.
LABELS = {"max_steps": "updates", "data.train_size": "examples", "model.norm_position": "place of the norm"}


class Strict(BaseModel):
    """A mapping with these keys and no others; values are what they say, never converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def read_as(model: type[BaseModel], node: Any, where: str = "") -> Any:
    """What a model makes of the values of a file. Raises ValueError with one line, `where` before it."""
    try:
        if not isinstance(node, dict):
            raise ValueError(f"{node!s:.60}: must be keys with values such as name: mine")
        require_plain("", node)
        return checked(model, node)
    except ValueError as error:
        raise ValueError(f"{where}{error}") from None


class Cell(Strict):
    """A setting as a file says it: a list of overrides, or a mapping. What it leaves out is found."""

    overrides: Annotated[tuple[Text, ...], AS_TUPLE]  # of `normexp train`
    labels: dict[str, Any] = Field(default={})  # the setting in words, at least `data` and `model`
    rates: Rates = ()  # the same for every norm
    widen: bool = True  # whether the rates go on where too many seeds take an edge of them
    # The test examples: the same in every run, a split that each seed cuts, or stretches of one text for every run.
    test: Literal["test set", "cut again", "blocks"] | None = None
    # Facts of the data, which may also stand under `facts`.
    validation: Annotated[int, Field(ge=0)] = 0  # answers, of images or characters; 0: not known yet
    chance: Share = 0.0  # of the most frequent answer, the accuracy of a constant guess
    guess_loss: Annotated[float, Field(ge=0)] = 0.0  # in nats, of the best guess that ignores the input

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, node: Any) -> Any:
        if isinstance(node, list):
            return {"overrides": node}
        if isinstance(node, dict) and isinstance(facts := node.get("facts"), dict):
            return {key: value for key, value in node.items() if key != "facts"} | facts
        return node

    @model_validator(mode="after")
    def _rise(self) -> "Cell":
        require_rising("rates", self.rates)
        return self


class BankCell(Cell):
    """A setting of a bank.

    `learned`: whether networks learn it at its final length: the best norm's pilot made less than 5% errors on the
    training split, or on a text ended below the loss of counts of four characters. None: not known.
    """

    name: str
    draw: str = ""  # of a setting that was drawn, such as "mlp 3"
    updates: int = 0  # the length that pilots found; 0 for a setting written by hand, or without a pilot yet
    arm_rates: dict[str, Rates] = Field(default={})  # of a drawn setting, the rates of each norm
    counts_loss: float = math.inf  # in nats, which a network of a drawn text must beat (`ngrams`)
    learned: bool | None = None

    def at_length(self, at: str, early: float) -> "BankCell":
        """A drawn setting at its `final` length, or at its `early` one, which has a name of its own."""
        updates = self.updates if at == FINAL else max(1, round(self.updates / early))
        new = {
            "name": self.name if at == FINAL else f"{self.name}-{at}",
            "updates": updates,
            "overrides": (*self.overrides, *length_of(updates)),
            "labels": {**self.labels, "updates": str(updates)},
        }
        return self.model_copy(update=new)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to be found in configuration and data."""
        return bool(self.rates and self.test and self.validation)


def rate_of(rates: Sequence[float], which: str) -> float:
    """The `lowest`, `middle` or `highest` learning rate of a grid. `middle` is the lower one of two middles."""
    return rates[{"lowest": 0, "middle": (len(rates) - 1) // 2, "highest": -1}[which]]


def require_rising(key: str, rates: Sequence[float]) -> None:
    """Raise ValueError unless learning rates rise and are none, or three at least."""
    if list(rates) != sorted(set(rates)) or 0 < len(rates) < 3:
        raise ValueError(f"{key}={list(rates)}: must be three or more that rise")


def length_of(updates: int) -> list[str]:
    """The overrides of a length."""
    return [f"max_steps={updates}", f"val_every_n_steps={max(1, updates // 5)}"]


def with_assumed(overrides: Sequence[str]) -> list[str]:
    """The overrides behind what a protocol assumes that does not name it: the plain recipe, and no monitor."""
    named = {key_of(override).partition(".")[0] for override in overrides}
    return [*(text for text in ("recipe=plain", "monitor=none") if key_of(text) not in named), *overrides]


def value_of(key: str, overrides: Sequence[str]) -> str:
    """The last value of a key in overrides; empty if there is none."""
    return next((one.partition("=")[2] for one in reversed(overrides) if key_of(one) == key), "")


def label(key: str, value: str) -> str:
    """The name of a choice in scopes."""
    return NAMES.get(key, {}).get(value, value)


def label_name(key: str) -> str:
    """The label that tells what a key is: `batch size` for batch_size, `depth` for model.depth."""
    return LABELS.get(key) or key.rpartition(".")[2].replace("_", " ")


def labels_of(overrides: Sequence[str]) -> dict[str, str]:
    """The labels of a setting for scopes, such as {"data": "MNIST", "model": "MLP", "activation": "ReLU"}."""
    values = {key: value_of(key, overrides) for key in NAMES}
    return {label_name(key): label(key, value) for key, value in values.items() if value}
