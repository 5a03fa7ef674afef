"""A claim: the document of its file, and what it asks of a bank."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from pydantic import Field

from normexp.claims.spec.bank import SMALL, Bank, load_bank
from normexp.claims.spec.cell import EARLY, LENGTHS, BankCell, label, label_name, labels_of, value_of
from normexp.claims.spec.document import Document, Sample
from normexp.config.options import key_of
from normexp.format import pluralize

OPTION = "options."  # marks an option of an initialization claim's function among the overrides of a setting


class Claim(Document, populate_by_name=True, arbitrary_types_allowed=True):
    """A document with its settings."""

    # Its settings by name, whose overrides come before those of `fixed` and `arms`; empty for one setting.
    cells: dict[str, BankCell] = Field(default={})
    bank: str = SMALL  # the bank that gives them in place of the claim's own
    first: int = 0  # so many are asked of a written seed; 0: a list that somebody chose, which makes no word
    drawn_from: Bank | None = None  # whose population they are a sample of

    @property
    def where(self) -> Mapping[str, tuple[str, ...]]:
        """The labels that drawn settings have, each with its values."""
        return self.asked.labels if isinstance(self.asked, Sample) else {}

    @property
    def drawn(self) -> bool:
        """Whether the settings are a sample of a population."""
        return self.first > 0

    @property
    def early(self) -> bool:
        """Whether networks are asked before their final length."""
        return isinstance(self.asked, Sample) and self.asked.at == EARLY

    @property
    def seed_range(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)

    @property
    def levels(self) -> list:
        """Values of the factor; one empty level if there is no factor."""
        return next(iter(self.factor.values())) if self.factor else [""]

    def factor_of(self, level: Any) -> list[str]:
        """The override of a level; none if there is no factor."""
        return [f"{name}={'null' if level is None else level}" for name in self.factor]

    def metric_of(self, arm: str) -> str:
        metric = self.metric[arm] if isinstance(self.metric, dict) else self.metric
        assert metric is not None  # the checks of a claim ask training for one
        return metric

    def check_of(self, arm: str) -> str | None:
        """The metric of the manipulation check, None in an arm that the check does not compare."""
        check = self.manipulation
        return check.metric if check and arm in (check.comparison.arm, check.comparison.baseline) else None

    def metrics_of(self, arm: str) -> list[str]:
        """What is read of an arm's runs."""
        return [metric for metric in (self.metric_of(arm), self.check_of(arm)) if metric]

    def fixed_of(self, arm: str) -> list[str]:
        """`fixed`, without monitors in an arm that only a manipulation check of others would read."""
        check = self.manipulation
        if not check or self.check_of(arm) or self.metric_of(arm).startswith("logged/"):
            return self.fixed
        return [override for override in self.fixed if not key_of(override).startswith("monitor")]

    def labels_in(self, labels: Mapping[str, Any]) -> dict[str, Any]:
        """The labels of a setting as far as it decides them: what `fixed` sets has that value, and what arms or the
        factor set has none. A drawn setting at another batch size takes another number of updates."""
        keys = map(key_of, self.fixed)
        fixed = {label_name(key): label(key, value_of(key, self.fixed)) for key in keys}
        chosen = [override for arm in self.arms.values() if isinstance(arm, list) for override in arm]
        varied = {label_name(key) for key in (*map(key_of, chosen), *self.factor)}
        if self.drawn and "batch size" in varied | fixed.keys():
            varied.add("updates")
        return {name: fixed.get(name, value) for name, value in labels.items() if name not in varied}

    @property
    def values(self) -> int:
        """Number of values at the last look."""
        if self.search:
            return self.search.cases
        return len(self.arms) * len(self.levels) * self.seeds * max(len(self.cells), 1)


def split_options(overrides: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """(overrides of the configuration, options of the function such as {"batch_size": 16})."""
    config_overrides = [o for o in overrides if not o.startswith(OPTION)]
    given = (o.removeprefix(OPTION).partition("=") for o in overrides if o.startswith(OPTION))
    return config_overrides, {key: yaml.safe_load(value) for key, _, value in given}


def settings_of(document: Document, bank: Bank | None, *, shipped: bool) -> dict[str, Any]:
    """The cells that a document asks for, and their bank. Raises ValueError with one line."""
    asked, training = document.asked, document.evidence == "training"
    if not asked:
        return {}
    other = bank if bank is not None and bank.name != SMALL and training else None
    if isinstance(asked, Sample):
        if other and not other.drawn:
            return {"cells": other.cells, "bank": other.name}
        if (asked.at is not None) != training:
            raise ValueError("settings.at: is final or early for trained networks, and absent for others")
        fits = bank and bank.population and bool(bank.population.rates) == training
        return sample(asked, bank if bank and fits else load_bank(asked.bank))
    if other and shipped and not any(isinstance(entry, dict) or entry in other.cells for entry in asked):
        return {"cells": other.cells, "bank": other.name}
    return {"cells": chosen(asked, bank or load_bank())}


def sample(asked: Sample, bank: Bank) -> dict[str, Any]:
    """The first settings of a bank, in the order drawn, that have certain labels. Of a claim about trained networks,
    those with a pilot; if none has, all of them."""
    if not bank.drawn:
        raise ValueError(f"settings.bank={asked.bank}: is a list; name a bank that is drawn")
    if not (names := bank.with_labels(asked.labels)):
        raise ValueError(f"settings.where={asked.where}: no setting of bank={bank.name} has these labels")
    if asked.first > len(names):
        such = " with these labels" if asked.where else ""
        raise ValueError(
            f"settings.first={asked.first}: bank={bank.name} has {pluralize(len(names), 'setting')}{such}"
        )
    cells = [bank.cells[name] for name in names[: asked.first]]
    if asked.at and any(cell.updates for cell in cells):
        cells = [bank.at_lengths(cell.name)[LENGTHS.index(asked.at)] for cell in cells if cell.updates]
    named = {cell.name: cell for cell in cells}
    return {"cells": named, "bank": bank.name, "first": asked.first, "drawn_from": bank}


def chosen(asked: list[str | dict[str, list[str]]], bank: Bank) -> dict[str, BankCell]:
    """The cells by name, of a list of names and of names with overrides. Names are looked up in `bank` first."""
    cells: dict[str, BankCell] = {}
    known = load_bank().cells | bank.cells
    for item in asked:
        for name, overrides in (item if isinstance(item, dict) else {item: None}).items():
            if name in cells:
                raise ValueError(f"settings: {name} stands there twice; keep one")
            if overrides is not None:
                cells[name] = BankCell(name=name, overrides=tuple(overrides), labels=labels_of(overrides))
            elif name in known:
                cells[name] = known[name]
            else:
                raise ValueError(
                    f"settings: {name} is no cell of bank={bank.name} (its cells are {', '.join(bank.cells)}); "
                    f"write its overrides as {{{name}: [model=mlp, ...]}}"
                )
    return cells
