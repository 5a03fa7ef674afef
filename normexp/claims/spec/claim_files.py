"""Read claims: the documents of a yaml, one a claim. Each is checked by itself, so a broken one stops no other."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from normexp.claims.spec.bank import Bank
from normexp.claims.spec.cell import read_as
from normexp.claims.spec.claim import Claim, Document
from normexp.claims.spec.claim_checks import mistakes
from normexp.claims.spec.claim_settings import settings_of
from normexp.config.folder import CONFIGS, parse_yaml, read_text

DOCUMENT = re.compile(r"^id:[ \t]*['\"]?(.*?)['\"]?[ \t]*(?:[ \t]#.*)?$", re.M)
ID = re.compile(r"[\w.-]+")


class Source(NamedTuple):
    """The text of one claim, and where it stands; `alone`: whether its file has no other."""

    name: str
    path: Path
    text: str
    alone: bool


def documents(path: Path) -> dict[str, Source]:
    """The claims of a file by id; a file of one claim may leave `id` out, and has its own name then."""
    texts = re.split(r"^---[ \t]*\n", read_text(path), flags=re.M)
    found: dict[str, Source] = {}
    for text in texts:
        named = DOCUMENT.search(text)
        if not named and len(texts) > 1:
            raise ValueError(f"{path}: a file of several claims names each; write id: M1 into every document")
        name = named[1] if named else path.stem
        if named and not ID.fullmatch(name):
            raise ValueError(f"{path}: id={name}: must be of letters, digits, dots, _ and -; name it M1")
        if name in found:
            raise ValueError(f"{path}: id={name}: stands there twice; rename one")
        found[name] = Source(name, path, text, len(texts) == 1)
    return found


def documents_in(folder: Path) -> tuple[dict[str, Source], dict[str, str]]:
    """(claims of the files of a folder by id, mistakes of files that cannot be told apart by their name)."""
    found, broken = dict[str, Source](), dict[str, str]()
    for path in folder.glob("*.yaml"):
        try:
            found |= documents(path)
        except ValueError as error:
            broken[path.stem] = str(error)
    return {name: found[name] for name in sorted(found, key=natural)}, broken


def read_all(
    sources: Mapping[str, Source], bank: Bank | None = None
) -> tuple[dict[str, Claim], dict[str, str]]:
    """(readable claims by id, mistakes of the others by id). `bank` is that of `read`."""
    claims, broken = dict[str, Claim](), dict[str, str]()
    for name, source in sources.items():
        try:
            claims[name] = read(source, bank)
        except ValueError as error:
            broken[name] = str(error)
    return claims, broken


def load_each(folder: Path) -> tuple[dict[str, Claim], dict[str, str]]:
    """(readable claims of a folder by id, mistakes of the others by id)."""
    found, broken = documents_in(folder)
    claims, mistakes = read_all(found)
    return claims, broken | mistakes


def load_claims(folder: Path) -> dict[str, Claim]:
    """Every claim of a folder by id. Raises ValueError if one is broken."""
    claims, broken = load_each(folder)
    for mistake in broken.values():
        raise ValueError(mistake)
    return claims


def natural(name: str) -> tuple[str, int, str]:
    """Order by letter, number and rest: S2 before S10."""
    match = re.fullmatch(r"([A-Z]+)(\d+)(.*)", name)
    return (match[1], int(match[2]), match[3]) if match else ("~", 0, name)


def read_claim(path: Path, bank: Bank | None = None, name: str = "") -> Claim:
    """Read one claim of a file, of several that with the id `name`. Raises ValueError as `read` does."""
    found = documents(path)
    return read(found[name or next(iter(found))], bank)


def read(source: Source, bank: Bank | None = None) -> Claim:
    """The claim of a document. Raises ValueError with one line for the first mistake.

    Args:
        bank: gives the settings of a claim of the project that names none of its cells (then all of them), and the
            cells that others name. By default the bank `small`, whose cells are always known.
    """
    path = source.path
    try:
        node = parse_yaml(source.text, path)
        if node is None:
            raise ValueError(
                "is empty; write name, sentence, source, covers, evidence and what docs/claims.md says"
            )
        document: Document = read_as(Document, node)
        shipped = path.parent == CONFIGS / "claims"
        settings = settings_of(document, bank, shipped=shipped)
        claim = Claim.model_construct(**dict(document) | {"id": source.name} | settings)
        for mistake in mistakes(claim, shipped=shipped):
            raise ValueError(mistake)
        return claim
    except ValueError as error:
        where = path if source.alone else f"{path}: {source.name}"
        raise ValueError(f"{where}: {str(error).removeprefix(f'{path}: ')}") from None
