"""The bank: a registered grid of cells x norms x learning rates x seeds, from which claims read."""

import difflib
import functools
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd
import yaml

from normexp.claims.spec.loader import LOADER

Sample = Literal["test set", "cut again", "blocks"]
FACTS = ("validation", "chance", "guess_loss", "test_to_train")
BANK_KEYS = ("norms", "seeds", "shared", "cells")
OWN_KEYS = ("shared", "cells")
BANK, OWN_CELLS = "bank.yaml", "own_cells.yaml"
CELL_KEYS = ("labels", "overrides", "rates", "test", "replicas", "facts")


@dataclass(frozen=True, kw_only=True)
class BankCell:
    """One setting: everything that decides a result, except norm, learning rate and seed.

    Attributes:
        labels: the setting in words, at least `data` and `model`.
        overrides: of train.py, including those that all cells share.
        rates: learning rates, the same for every norm.
        test: the kind of test examples. `test set`: the same in every run. `cut again`: each seed cuts its own split.
            `blocks`: stretches of one text, the same in every run.
        replicas: whether all seeds and rates of a norm train together in one process.
        validation: number of answers on validation, images or characters.
        chance: share of the most frequent answer, the accuracy of a constant guess.
        guess_loss: loss in nats of the best guess that ignores the input.
        test_to_train: number of test examples divided by training examples.
    """

    name: str
    labels: dict[str, str]
    overrides: tuple[str, ...]
    rates: tuple[float, ...]
    test: Sample
    replicas: bool
    validation: int
    chance: float
    guess_loss: float
    test_to_train: float

    def rate(self, which: str) -> float:
        """The `lowest`, `middle` or `highest` learning rate of the grid. `middle` is the lower one of two middles."""
        return self.rates[{"lowest": 0, "middle": (len(self.rates) - 1) // 2, "highest": -1}[which]]

    @property
    def what(self) -> str:
        return ", ".join(self.labels.values())


@dataclass(frozen=True, kw_only=True)
class Bank:
    """The grid of cells, norms, rates and seeds, which is trained once."""

    norms: tuple[str, ...]
    seeds: int
    cells: dict[str, BankCell]

    @property
    def runs(self) -> int:
        return sum(map(self.runs_of, self.cells.values()))

    def runs_of(self, cell: BankCell, norms: Collection[str] | None = None) -> int:
        """The number of runs of a cell when all are there, or of those with some of its norms."""
        return len(cell.rates) * len(self.norms if norms is None else norms) * self.seeds

    def has_all(self, cell: BankCell, runs: pd.DataFrame, norms: Collection[str] | None = None) -> bool:
        """Whether every run of a cell is among these, or each with some of its norms."""
        own = runs[runs["cell"] == cell.name]
        if norms is not None and len(own):
            own = own[own["norm"].isin(norms)]
        return len(own) == self.runs_of(cell, norms)

    def cell(self, name: str) -> BankCell:
        """The cell with this name. Raises ValueError with the nearest names if there is none."""
        if name not in self.cells:
            near = difflib.get_close_matches(name, self.cells, n=3, cutoff=0.3) or list(self.cells)
            raise ValueError(f"cell={name}: no such cell; nearest: {', '.join(near)}")
        return self.cells[name]


def load_bank(path: Path) -> Bank:
    """Read and check `configs/bank.yaml`. Raises ValueError with one line for the first mistake."""
    node = _read(path, BANK_KEYS)
    if not _is_whole(node["seeds"]) or node["seeds"] < 1:
        raise ValueError(f"{path}: seeds={node['seeds']}: must be a whole number of at least 1")
    return Bank(norms=_texts(node["norms"], f"{path}: norms"), seeds=node["seeds"], cells=_cells(node, path))


def load_cells(configs: Path) -> dict[str, BankCell]:
    """All cells that a claim may name, in a folder of configurations: those of the bank, and those beside it in which
    claims train arms of their own. None where there is neither file."""
    bank, own = configs / BANK, configs / OWN_CELLS
    found = dict(load_bank(bank).cells) if bank.exists() else {}
    beside = _cells(_read(own, OWN_KEYS), own) if own.exists() else {}
    if both := found.keys() & beside.keys():
        raise ValueError(f"{own}: {min(both)}: is a cell of the bank; give it another name")
    return found | beside


def _read(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        node = _parsed(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: {str(error).splitlines()[0]}; write valid YAML") from None
    _check_keys(node, keys, f"{path}: ")
    return node


@functools.lru_cache(maxsize=8)
def _parsed(text: str) -> Any:
    """What a file says. Every claim over settings asks for the same files; nobody may change what is shared."""
    return yaml.load(text, LOADER)


def _cells(node: dict[str, Any], path: Path) -> dict[str, BankCell]:
    if not isinstance(node["cells"], dict) or not node["cells"]:
        raise ValueError(f"{path}: cells: must be cells by name; see docs/claims.md")
    shared = _texts(node["shared"], f"{path}: shared") if node["shared"] else ()
    return {name: _read_cell(name, cell, shared, path) for name, cell in node["cells"].items()}


def _read_cell(name: str, node: Any, shared: tuple[str, ...], path: Path) -> BankCell:
    where = f"{path}: {name}."
    _check_keys(node, CELL_KEYS, where)
    if node["test"] not in get_args(Sample):
        raise ValueError(f"{where}test={node['test']}: choose from {', '.join(get_args(Sample))}")
    if not isinstance(node["replicas"], bool):
        raise ValueError(f"{where}replicas={node['replicas']}: must be true or false")
    _check_keys(node["facts"], FACTS, f"{where}facts.")
    rates = node["rates"]
    if not (isinstance(rates, list) and len(rates) > 2 and all(_is_number(r) and r > 0 for r in rates)):
        raise ValueError(f"{where}rates={rates}: must be three or more positive numbers")
    if rates != sorted(set(rates)):
        raise ValueError(f"{where}rates={rates}: must rise, each once")
    labels = _labels(node["labels"], f"{where}labels")
    overrides = _texts(node["overrides"], f"{where}overrides")
    facts = node["facts"]
    for key in FACTS:
        _check_positive(facts[key], f"{where}facts.{key}")
    return BankCell(
        name=name,
        labels=labels,
        overrides=(*shared, *overrides),
        rates=tuple(map(float, rates)),
        test=node["test"],
        replicas=node["replicas"],
        validation=facts["validation"],
        chance=facts["chance"],
        guess_loss=facts["guess_loss"],
        test_to_train=facts["test_to_train"],
    )


def _check_keys(node: Any, known: tuple[str, ...], where: str) -> None:
    if not isinstance(node, dict):
        raise ValueError(f"{where}{node}: must be the keys {', '.join(known)}")
    for key in (*known, *node):
        if key not in node:
            raise ValueError(f"{where}{key}: is missing; add it")
        if key not in known:
            raise ValueError(f"{where}{key}: no such key; the keys are {', '.join(known)}")


def _texts(node: Any, where: str) -> tuple[str, ...]:
    if not (isinstance(node, list) and node and all(isinstance(item, str) for item in node)):
        raise ValueError(f"{where}={node}: must be a list of texts")
    return tuple(node)


def _labels(node: Any, where: str) -> dict[str, str]:
    if not (isinstance(node, dict) and {"data", "model"} <= set(node)):
        raise ValueError(f"{where}={node}: must name data and model, such as {{data: MNIST, model: MLP}}")
    return {str(key): str(value) for key, value in node.items()}


def _check_positive(value: Any, where: str) -> None:
    if not _is_number(value) or value <= 0:
        raise ValueError(f"{where}={value}: must be a positive number")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
