"""A bank: settings as cells of a yaml, among which claims choose.

`bank=small` is the default, `bank=gpu` has cells of the size of papers, `bank=mine.yaml` is anybody's. A cell needs its
overrides and no more: rates and facts that are absent are found in the configuration and in the data.
"""

import dataclasses
import functools
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from normexp.claims.spec.shape import (
    OBJECT,
    POSITIVE,
    SWITCH,
    TEXTS,
    WHOLE,
    Shape,
    check,
    keyed,
    listed,
    mapping_of,
    optional,
)
from normexp.config.folder import CONFIGS, brought_hint, config_file, parse_yaml, read_text

if TYPE_CHECKING:
    from normexp.claims.spec.population import Population

Sample = Literal["test set", "cut again", "blocks"]
FACTS = ("validation", "chance", "guess_loss", "test_to_train")
SMALL = "small"  # the bank of the project's registered claims
BANKS = CONFIGS / "bank"
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
SHARED = optional(TEXTS)
CELL = keyed(
    {
        "overrides": {**TEXTS, "minItems": 1},
        "labels": optional(
            {
                **OBJECT,
                "required": ["data", "model"],
                "wanted": "must name data and model, such as {data: MNIST, model: MLP}",
            }
        ),
        "rates": optional(listed(POSITIVE, minItems=3, wanted="must be three or more positive numbers")),
        "test": {"enum": [*get_args(Sample), None]},
        "replicas": SWITCH,
        "facts": optional(keyed(dict.fromkeys(FACTS, POSITIVE), " ".join(FACTS))),
        "seconds": POSITIVE,
    },
    "overrides",
)
GRID = keyed(
    {
        "norms": {**TEXTS, "minItems": 1, "wanted": "must be a list of norms"},
        "seeds": WHOLE,
        "cells": TEXTS,
    },
    "norms seeds",
)
CELLS = mapping_of({"anyOf": [CELL, TEXTS]}, minProperties=1, title="cells by name; see docs/claims.md")
BANK: Shape = keyed({"shared": SHARED, "cells": CELLS, "grid": optional(GRID)}, "cells")
FINAL, EARLY = LENGTHS = "final", "early"


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


@dataclass(frozen=True, kw_only=True)
class Bank:
    """The cells of a file, and its grid: norms that are trained in some of them at all rates with the same seeds.

    The cells of a bank with a `population` were drawn, and stand in that order; see `normexp.claims.spec.population`.
    """

    name: str
    cells: dict[str, BankCell]
    norms: tuple[str, ...] = ()
    seeds: int = 0
    population: "Population | None" = None
    path: Path = Path()
    pilots: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of each draw, rejected ones too

    @property
    def drawn(self) -> bool:
        return self.population is not None

    @property
    def shipped(self) -> bool:
        """Whether it comes with normexp; else its file is a user's own."""
        return self.path.parent == BANKS

    @property
    def word(self) -> str:
        """What a user writes behind `bank=`."""
        return self.name if self.shipped else str(self.path)

    @property
    def known_population(self) -> "Population":
        """`population`. Raises ValueError if there is none."""
        if self.population is None:
            raise ValueError(
                f"bank={self.name}: has no population; name one that is drawn, such as bank=drawn"
            )
        return self.population

    @property
    def grid(self) -> "Bank":
        """The bank with no cells but those of the grid: of a drawn one the settings with a pilot, at both lengths."""
        if self.population:
            cells = [
                cell
                for name, drawn_cell in self.cells.items()
                if drawn_cell.updates
                for cell in self.at_lengths(name)
            ]
            return dataclasses.replace(self, cells={cell.name: cell for cell in cells}, population=None)
        return dataclasses.replace(self, cells={n: cell for n, cell in self.cells.items() if cell.norms})

    def at_lengths(self, name: str) -> list[BankCell]:
        """A drawn setting at its final and its early length."""
        early = self.known_population.length["early"]
        return [self.cells[name].at_length(at, early) for at in LENGTHS]

    def with_labels(self, labels: Mapping[str, str | list[str]]) -> list[str]:
        """Names of the cells whose labels have these values, or one of each list of values."""
        allowed = {key: value if isinstance(value, list) else [value] for key, value in labels.items()}
        return [
            name
            for name, cell in self.cells.items()
            if all(cell.labels.get(key) in values for key, values in allowed.items())
        ]


def bank_file(name: str) -> Path:
    """The file of a bank: a path that ends in .yaml, or the name of one of the project, of the user's folder or of an
    allowed package. Raises ValueError."""
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    if path := config_file("bank", name):
        return path
    names = ", ".join(sorted(file.stem for file in BANKS.glob("*.yaml")))
    hint = brought_hint("bank", name)
    raise ValueError(
        f"bank={name}: {hint or f'no such bank; choose from {names}, or name a file: bank=mine.yaml'}"
    )


def digest_of(overrides: Sequence[str]) -> str:
    """First digits of the SHA-256 of overrides, in their order."""
    return hashlib.sha256("\n".join(overrides).encode()).hexdigest()[:12]


def pilots_file(path: Path) -> Path:
    """Where the pilots of a bank's yaml are written down."""
    return path.with_suffix(".pilots.jsonl")


def load_bank(name: str | Path = SMALL) -> Bank:
    """Read and check a bank. Raises ValueError with one line for the first mistake."""
    path = name if isinstance(name, Path) else bank_file(name)
    if not path.exists():
        raise ValueError(f"bank={path}: no such file; name a yaml with cells, or small or gpu")
    pilots = pilots_file(path)
    return _read(path, read_text(path), pilots.read_text(encoding="utf-8") if pilots.exists() else "")


@functools.lru_cache(maxsize=8)
def _read(path: Path, text: str, pilots: str) -> Bank:
    """The bank that a yaml and the file of its pilots hold. Every claim over settings asks for the same few; nobody may
    change what is shared."""
    node = parse_yaml(text, path)
    if isinstance(node, dict) and "strata" in node:
        from normexp.claims.spec.population import drawn_bank  # which reads cells

        return drawn_bank(node, path, pilots)
    check(node, BANK, f"{path}: ")
    grid = node.get("grid") or {}
    in_grid = grid.get("cells", list(node["cells"])) if grid else []
    if strange := set(in_grid) - node["cells"].keys():
        raise ValueError(f"{path}: grid.cells={min(strange)}: is no cell")
    norms = tuple(grid.get("norms", ()))
    cells = {
        name: _read_cell(name, cell, node.get("shared") or [], norms if name in in_grid else (), path)
        for name, cell in node["cells"].items()
    }
    return Bank(name=path.stem, cells=cells, norms=norms, seeds=grid.get("seeds", 0), path=path)


def _read_cell(name: str, node: Any, shared: list[str], norms: tuple[str, ...], path: Path) -> BankCell:
    """One cell: a list of overrides, or a mapping with `overrides` and what else is known. Raises ValueError."""
    node = {"overrides": node} if isinstance(node, list) else node
    rates, overrides = node.get("rates") or [], (*shared, *node["overrides"])
    if rates != sorted(set(rates)):
        raise ValueError(f"{path}: cells.{name}.rates={rates}: must rise, each once")
    labels = node.get("labels") or labels_of(overrides)
    if not {"data", "model"} <= set(labels):
        raise ValueError(
            f"{path}: cells.{name}.overrides: must name data and model, such as [data=digits, model=mlp]"
        )
    return BankCell(
        name=name,
        overrides=overrides,
        labels={key: str(value) for key, value in labels.items()},
        rates=tuple(map(float, rates)),
        norms=norms,
        **{key: node[key] for key in ("test", "replicas", "seconds") if key in node},
        **(node.get("facts") or {}),
    )


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
