"""The settings that a document asks for: cells of a bank by name, a sample of a drawn one, or cells of its own."""

from typing import Any

from normexp.claims.spec.bank import SMALL, Bank, load_bank
from normexp.claims.spec.cell import LENGTHS, BankCell, labels_of
from normexp.claims.spec.claim import Document, Sample


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
        if bank and bank.population and bool(bank.population.rates) == training:
            return sample(asked, bank)
        return sample(asked, load_bank(asked.bank))
    if other and shipped and not any(isinstance(entry, dict) or entry in other.cells for entry in asked):
        return {"cells": other.cells, "bank": other.name}
    return {"cells": chosen(asked, bank or load_bank())}


def sample(asked: Sample, bank: Bank) -> dict[str, Any]:
    """The first settings of a bank, in the order drawn, that have certain labels. Of a claim about trained networks,
    those with a pilot; if none has, all of them."""
    if not bank.drawn:
        raise ValueError(f"settings.bank={asked.bank}: is a list; name a bank that is drawn")
    if not (names := bank.with_labels(asked.where)):
        raise ValueError(f"settings.where={asked.where}: no setting of bank={bank.name} has these labels")
    if asked.first > len(names):
        such = " with these labels" if asked.where else ""
        raise ValueError(f"settings.first={asked.first}: bank={bank.name} has {len(names)} settings{such}")
    cells = [bank.cells[name] for name in names[: asked.first]]
    if asked.at and any(cell.updates for cell in cells):
        cells = [bank.at_lengths(cell.name)[LENGTHS.index(asked.at)] for cell in cells if cell.updates]
    return {
        "cells": {cell.name: cell for cell in cells}, "bank": bank.name, "first": asked.first, "drawn_from": bank,
    }  # fmt: skip


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
