"""Read claims: the documents of a yaml, one a claim. Each is checked by itself, so a broken one stops no other."""

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from normexp.claims.spec.bank import SMALL, Bank, load_bank
from normexp.claims.spec.cell import LENGTHS, BankCell, labels_of, read_as
from normexp.claims.spec.claim import Claim, Document, Sample
from normexp.claims.spec.claim_checks import mistakes
from normexp.config.folder import CONFIGS, parse_yaml, read_text

DOCUMENT = re.compile(r"^id:[ \t]*['\"]?([\w.-]+)", re.M)


def load_claims(folder: Path) -> dict[str, Claim]:
    """Every claim of a folder by id. Raises ValueError if one is broken."""
    claims, broken = load_each(folder)
    for mistake in broken.values():
        raise ValueError(mistake)
    return claims


def load_each(
    folder: Path, bank: Bank | None = None, only: Callable[[str], bool] = lambda name: True
) -> tuple[dict[str, Claim], dict[str, str]]:
    """(readable claims by id, mistakes of the others by id). `only` says of an id whether its document is read."""
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


@functools.lru_cache(maxsize=64)
def _documents(path: Path, written: int) -> dict[str, str]:
    texts = re.split(r"^---[ \t]*\n", read_text(path), flags=re.M)
    if len(texts) == 1:
        named = DOCUMENT.search(texts[0])
        return {named[1] if named else path.stem: texts[0]}
    found: dict[str, str] = {}
    for text in texts:
        if not (named := DOCUMENT.search(text)):
            raise ValueError(f"{path}: a file of several claims names each; write id: M1 into every document")
        if named[1] in found:
            raise ValueError(f"{path}: id={named[1]}: stands there twice; rename one")
        found[named[1]] = text
    return found


def documents(path: Path) -> dict[str, str]:
    """The text of each claim of a file by its id; a file of one claim may leave `id` out, and has its own name then."""
    return _documents(path, path.stat().st_mtime_ns)


def natural(name: str) -> tuple[str, int, str]:
    """Order by letter, number and rest: S2 before S10."""
    match = re.fullmatch(r"([A-Z]+)(\d+)(.*)", name)
    return (match[1], int(match[2]), match[3]) if match else ("~", 0, name)


def read_claim(path: Path, bank: Bank | None = None, name: str = "") -> Claim:
    """Read one claim of a file. Raises ValueError with one line for the first mistake.

    Args:
        bank: gives the settings of a claim that filters cells by labels, or that names none of its cells (then all of
            them). By default the bank `small`. Names of shipped cells are known beside it.
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
    other = bank is not None and bank.name != SMALL and training
    if isinstance(asked, Sample) and not (other and bank and not bank.drawn):
        if (asked.at is not None) != training:
            raise ValueError("settings.at: is final or early for trained networks, and absent for others")
        return sample(asked, bank if bank and bank.drawn else load_bank(asked.bank))
    if not asked:
        return {}
    bank = bank or load_bank()
    # A bank takes the place of the settings of a claim of the project, which names none of it.
    names_none = isinstance(asked, list) and all(
        isinstance(entry, str) and entry not in bank.cells for entry in asked
    )
    if isinstance(asked, Sample) or (other and shipped and names_none):
        return {"cells": bank.cells, "bank": bank.name}
    return {"cells": chosen(asked, bank)}


def sample(asked: Sample, bank: Bank) -> dict[str, Any]:
    """The first settings of a bank, in the order drawn, that have certain labels. Of a claim about trained networks,
    those with a pilot; if none has, all of them."""
    if not bank.drawn:
        raise ValueError(f"settings.bank={asked.bank}: is a list; name a bank that is drawn")
    for key, value in asked.where.items():
        available = {cell.labels[key] for cell in bank.cells.values() if key in cell.labels}
        if strange := set(value if isinstance(value, list) else [value]) - available:
            raise ValueError(
                f"settings.where.{key}={min(strange)}: no setting of bank={bank.word} has it; choose from "
                f"{', '.join(sorted(available)) or 'its labels'}"
            )
    cells = [bank.cells[name] for name in bank.with_labels(asked.where)[: asked.first]]
    if asked.at and any(cell.updates for cell in cells):
        cells = [bank.at_lengths(cell.name)[LENGTHS.index(asked.at)] for cell in cells if cell.updates]
    return {
        "cells": {cell.name: cell for cell in cells}, "bank": bank.name, "first": asked.first, "drawn_from": bank,
    }  # fmt: skip


def chosen(asked: list | dict, bank: Bank) -> dict[str, BankCell]:
    """The cells by name: a list of names and of names with overrides, a mapping of names to overrides, or of labels to
    their values. Names are looked up in `bank` first; those of shipped cells are always known."""
    lists = isinstance(asked, dict) and all(isinstance(words, list) for words in asked.values())
    if isinstance(asked, dict) and not (
        lists and any("=" in word for words in asked.values() for word in words)
    ):
        if names := bank.with_labels(asked):
            return {name: bank.cells[name] for name in names}
        available = sorted(
            {f"{name}: {value}" for c in bank.cells.values() for name, value in c.labels.items()}
        )
        raise ValueError(f"settings={asked}: no cell of bank={bank.name} has these; it has {available}")
    cells: dict[str, BankCell] = {}
    for item in [asked] if isinstance(asked, dict) else asked:
        for name, overrides in (item if isinstance(item, dict) else {item: None}).items():
            if name in cells:
                raise ValueError(f"settings: {name} stands there twice; keep one")
            if overrides is not None:
                cells[name] = BankCell(name=name, overrides=tuple(overrides), labels=labels_of(overrides))
                continue
            banks = (bank, load_bank(SMALL), load_bank("gpu"))
            if (cell := next(filter(None, (known.cells.get(name) for known in banks)), None)) is None:
                raise ValueError(
                    f"settings: {name} is no cell of bank={bank.name} (its cells are {', '.join(bank.cells)}); "
                    f"write its overrides as {{{name}: [model=mlp, ...]}}"
                )
            cells[name] = cell
    return cells
