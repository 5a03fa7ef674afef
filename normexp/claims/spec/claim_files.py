"""Read claims: the documents of a yaml, one a claim. Each is checked by itself, so a broken one stops no other."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from normexp.claims.spec.bank import SMALL, Bank, load_bank
from normexp.claims.spec.cell import LENGTHS, BankCell, labels_of, read_as
from normexp.claims.spec.claim import Claim, Document, Sample
from normexp.claims.spec.claim_checks import mistakes
from normexp.config.folder import CONFIGS, parse_yaml, read_text

DOCUMENT = re.compile(r"^id:[ \t]*['\"]?(.*?)['\"]?[ \t]*(?:[ \t]#.*)?$", re.M)
ID = re.compile(r"[\w.-]+")


def load_claims(folder: Path) -> dict[str, Claim]:
    """Every claim of a folder by id. Raises ValueError if one is broken."""
    claims, broken = load_each(folder)
    for mistake in broken.values():
        raise ValueError(mistake)
    return claims


def load_each(
    folder: Path, only: Callable[[str], bool] = lambda name: True, bank: Bank | None = None
) -> tuple[dict[str, Claim], dict[str, str]]:
    """(readable claims by id, mistakes of the others by id). `only` says of an id whether its document is read; `bank`
    is that of `read_claim`."""
    claims, broken, places = dict[str, Claim](), dict[str, str](), dict[str, Path]()
    for path in folder.glob("*.yaml"):
        try:
            places |= dict.fromkeys(documents(path), path)
        except ValueError as error:
            broken[path.stem] = str(error)
    for name in sorted(filter(only, places), key=natural):
        try:
            claims[name] = read_claim(places[name], bank, name)
        except ValueError as error:
            broken[name] = str(error)
    return claims, broken


def documents(path: Path) -> dict[str, str]:
    """The text of each claim of a file by its id; a file of one claim may leave `id` out, and has its own name then."""
    texts = re.split(r"^---[ \t]*\n", read_text(path), flags=re.M)
    found: dict[str, str] = {}
    for text in texts:
        named = DOCUMENT.search(text)
        if not named and len(texts) > 1:
            raise ValueError(f"{path}: a file of several claims names each; write id: M1 into every document")
        name = named[1] if named else path.stem
        if named and not ID.fullmatch(name):
            raise ValueError(f"{path}: id={name}: must be of letters, digits, dots, _ and -; name it M1")
        if name in found:
            raise ValueError(f"{path}: id={name}: stands there twice; rename one")
        found[name] = text
    return found


def natural(name: str) -> tuple[str, int, str]:
    """Order by letter, number and rest: S2 before S10."""
    match = re.fullmatch(r"([A-Z]+)(\d+)(.*)", name)
    return (match[1], int(match[2]), match[3]) if match else ("~", 0, name)


def read_claim(path: Path, bank: Bank | None = None, name: str = "") -> Claim:
    """Read one claim of a file. Raises ValueError with one line for the first mistake.

    Args:
        bank: gives the settings of a claim of the project that names none of its cells (then all of them), and the
            cells that others name. By default the bank `small`, whose cells are always known.
        name: the id of the claim, if the file has several.
    """
    texts = documents(path)
    name = name or next(iter(texts))
    where = path if len(texts) == 1 else f"{path}: {name}"
    try:
        node = parse_yaml(texts[name], path)
        if node is None:
            raise ValueError(
                "is empty; write name, sentence, source, covers, evidence and what docs/claims.md says"
            )
        document: Document = read_as(Document, node)
        settings = settings_of(document, bank, shipped=path.parent == CONFIGS / "claims")
        claim = Claim.model_construct(**dict(document) | {"id": name} | settings)
        for mistake in mistakes(claim):
            raise ValueError(mistake)
        return claim
    except ValueError as error:
        raise ValueError(f"{where}: {str(error).removeprefix(f'{path}: ')}") from None


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
