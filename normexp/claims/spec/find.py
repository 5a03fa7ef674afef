"""Find claims, by id, name, covered sentence, paper, kind of evidence, glob, `all`, or path of a user's own file; and
read them: a file has one document a claim, each of which is checked by itself, so a broken one stops no other."""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from normexp.claims.spec.bank import SMALL, Bank, load_bank
from normexp.claims.spec.cell import read_as
from normexp.claims.spec.claim import Claim, settings_of
from normexp.claims.spec.claim_checks import mistakes
from normexp.claims.spec.document import Document
from normexp.config.folder import CONFIGS, brought_hint, more_folders, parse_yaml, read_text

ENDINGS = (".yaml", ".yml")
ARXIV = re.compile(r"(?:arxiv:)?(\d{4}\.\d{4,5})(?:v\d+)?", re.IGNORECASE)
DOCUMENT = re.compile(r"^id:[ \t]*['\"]?(.*?)['\"]?[ \t]*(?:[ \t]#.*)?$", re.M)
ID = re.compile(r"\w[\w.-]{0,99}")
TAKEN = "cache"  # the folder of runs, beside those of verdicts


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
        if (named and not ID.fullmatch(name)) or name == TAKEN:
            raise ValueError(
                f"{path}: id={name:.60}: must be of letters, digits, dots, _ and -, and not {TAKEN}; name it M1"
            )
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


def arxiv_id(word: str) -> str:
    """The id in a word such as 2503.10622, arXiv:2503.10622v2 or the address of its page; empty if there is none."""
    match = ARXIV.fullmatch(word.rstrip("/").rpartition("/")[2].removesuffix(".pdf"))
    return match[1] if match else ""


def find(text: str, bank: str = SMALL) -> tuple[list[Claim], list[str]]:
    """(claims, mistakes of unreadable ones) that a comma-separated list names: of the project, of the user's folder,
    and of files by path. `bank` is the word of a bank that gives settings. Raises ValueError as `select` does, and
    where no claim asks for drawn settings of the kind that a drawn bank has: trained ones, or initial networks."""
    other = load_bank(bank) if bank != SMALL else None
    text, from_files = own_claims(text, other)
    claims, broken = known_claims(text, other)
    chosen = select(claims | from_files, text, broken, from_files)
    if other and other.drawn and not (chosen := [claim for claim in chosen if claim.drawn_from is other]):
        raise ValueError(
            f"claim={text}: asks for no drawn settings of the kind that bank={other.name} has; leave bank= out, or "
            "write settings: {bank: ..., first: 24} into the file of the claim"
        )
    return chosen, unreadable(broken, text)


def known_claims(text: str, bank: Bank | None = None) -> tuple[dict[str, Claim], dict[str, str]]:
    """The claims of the project, of the user's folder and of allowed packages by id, and the mistakes of unreadable
    files by id. Where each word of a list is an id, only these are read: reading all takes half a second."""
    requested = {word.lower() for word in parts_of(text)}
    folders = [folder / "claims" for folder in (CONFIGS, *more_folders())]
    found = {folder: documents_in(folder) for folder in folders}
    known = {word for sources, _ in found.values() for name in sources for word in _ids(name)}
    all_of_them = not requested <= known
    claims, broken = dict[str, Claim](), dict[str, str]()
    for folder, (sources, unclear) in found.items():
        asked = {name: source for name, source in sources.items() if all_of_them or _ids(name) & requested}
        if taken := asked.keys() & claims.keys():
            raise ValueError(f"{folder}: {min(taken)} is a claim of normexp; rename yours")
        loaded, mistakes = read_all(asked, bank)
        claims |= loaded
        broken |= unclear | mistakes
    return claims, broken


def own_claims(text: str, bank: Bank | None = None) -> tuple[str, dict[str, Claim]]:
    """The list of claims with ids instead of paths, and the claims of the files by id. Raises ValueError with one line
    for a missing file, for a file that is no claim, and for two files with one name."""
    claims: dict[str, Claim] = {}
    ids = []
    for word in parts_of(text):
        if not word.endswith(ENDINGS):
            ids.append(word)
            continue
        path = Path(word)
        if not path.is_file():
            raise ValueError(f"claim={word}: no such file; name a yaml, or an id such as S37")
        for name, source in documents(path).items():
            if name in claims:
                raise ValueError(f"claim={word}: two claims have the name {name}; rename one")
            claims[name] = read(source, bank)
            ids.append(name)
    return ",".join(ids), claims


def select(
    claims: dict[str, Claim],
    text: str,
    broken: dict[str, str] | None = None,
    from_files: Collection[str] = (),
) -> list[Claim]:
    """The claims that a comma-separated list names, each once, in the order of the list and then of the folder.

    Each word of the list is an id, such as S37, which brings its parts S37a, S37b and so on; a name; the id of a
    sentence that has no claim of its own (all claims that cover it); the arXiv id of a paper; a kind of evidence; a
    glob over ids and names (in capitals, such as `S3*`, over ids); or `all`.

    `broken` has the mistake of each unreadable file, by id. The ids of `from_files` name one claim each. Raises
    ValueError if a word names an unreadable file, and with the nearest names if it names no claim.
    """
    chosen: dict[str, Claim] = {}
    broken = broken or {}
    for word in parts_of(text):
        matches = [claims[word]] if word in from_files else _claims_named(claims.values(), word)
        left_out = unreadable(broken, word)
        if left_out and (not matches or word.upper() in {name.upper() for name in broken}):
            raise ValueError(left_out[0])
        if not matches:
            raise ValueError(f"claim={word}: {_hint(claims, word)}")
        chosen |= {claim.id: claim for claim in matches}
    if not chosen:
        raise ValueError(f"claim={text}: names no claim; give an id such as S37, or all; --help lists them")
    return list(chosen.values())


def _hint(claims: dict[str, Claim], word: str) -> str:
    """Why a word names no claim, with up to four ids or names that look like it."""
    if arxiv_id(word):
        return "no claim has this paper as its source; --help lists all"
    if hint := brought_hint("claim", word):
        return hint
    names = {name.lower(): name for claim in claims.values() for name in (claim.id, claim.name)}
    close = [names[name] for name in difflib.get_close_matches(word.lower(), names, n=4, cutoff=0.4)]
    near = f"nearest: {', '.join(close)}; " if close else ""
    return f"no such claim; {near}--help lists all"


def parts_of(text: str) -> list[str]:
    """The parts of a text between commas, without spaces and empty parts."""
    return [part.strip() for part in text.split(",") if part.strip()]


def unreadable(broken: dict[str, str], text: str) -> list[str]:
    """The mistakes in the broken files that the list names by id, by glob or by `all`."""
    words = parts_of(text)
    return [mistake for name, mistake in broken.items() if any(names_id(word, name) for word in words)]


def names_id(word: str, name: str) -> bool:
    """Whether a word of a list names an id: as it is, without its part, by a glob, or as one of `all`."""
    word = word.lower()
    return word in ("all", whole_id(name)) or fnmatchcase(name.lower(), word)


def whole_id(name: str) -> str:
    """The id without its part: S37 for S37a, S37b ... S37z."""
    return re.sub(r"(?<=\d)[a-z]+$", "", name.lower())


def _ids(name: str) -> set[str]:
    return {name.lower(), whole_id(name)}


def _claims_named(claims: Iterable[Claim], given: str) -> list[Claim]:
    """The claims that a word names; if none, those that cover the sentence of this id. Names are in small letters, so
    the glob R* means ids alone, and not rmsnorm_is_accurate."""
    word = given.lower()
    if paper := arxiv_id(word):
        return [claim for claim in claims if paper in claim.arxiv or paper in claim.source]

    def is_named(claim: Claim) -> bool:
        by_name = word in (claim.evidence, claim.name.lower()) or fnmatchcase(claim.name, given)
        return by_name or names_id(word, claim.id)

    matches = [claim for claim in claims if is_named(claim)]
    return matches or [claim for claim in claims if word in map(str.lower, claim.covers)]
