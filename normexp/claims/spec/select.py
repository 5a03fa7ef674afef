"""Find claims: by id, name, covered sentence, paper, glob, `all`, the path of a user's own file, topic or words."""

import difflib
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from normexp.claims.spec.bank import SMALL, Bank
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_files import documents, load_each, read_claim
from normexp.config.folder import CONFIGS, brought_hint, more_folders

# id -> the words with which `source` names the paper
PAPERS = {
    "1502.03167": "Ioffe, Szegedy 2015",
    "1607.06450": "Ba et al. 2016",
    "1702.03275": "Ioffe 2017",
    "1712.05877": "Jacob et al. 2018",
    "1803.08494": "Wu, He 2018",
    "1805.11604": "Santurkar et al. 2018",
    "1806.02375": "Bjorck et al. 2018",
    "1902.08129": "Yang et al. 2019",
    "1906.03548": "Summers, Dinneen 2020",
    "1910.07467": "Zhang, Sennrich 2019",
    "1911.07013": "Xu et al. 2019",
    "2002.04745": "Xiong et al. 2020",
    "2003.01652": "Daneshmand et al. 2020",
    "2003.07845": "Shen et al. 2020",
    "2101.08692": "Brock et al. 2021",
    "2105.07576": "Wu, Johnson 2021",
    "2106.03970": "Daneshmand et al. 2021",
    "2210.05153": "Wang et al. 2022",
    "2305.18399": "Joudaki et al. 2023",
    "2310.02012": "Meterez et al. 2024",
    "2502.02732": "Kim et al. 2025",
    "2502.05795": "Sun et al. 2025",
    "2503.10622": "Zhu et al. 2025",
}
ARXIV = re.compile(r"(?:arxiv:)?(\d{4}\.\d{4,5})(?:v\d+)?", re.IGNORECASE)


def arxiv_id(word: str) -> str:
    """The id in a word such as 2503.10622, arXiv:2503.10622v2 or the address of its page; empty if there is none."""
    match = ARXIV.fullmatch(word.rstrip("/").rpartition("/")[2].removesuffix(".pdf"))
    return match[1] if match else ""


def is_of(paper: str, source: str) -> bool:
    """Whether the `source` of a claim names the paper of an arXiv id, by the id or by its authors."""
    return paper in source or (paper in PAPERS and PAPERS[paper] in source)


# The first topic whose words stand in the sentence is the claim's. They match without regard to case.
TOPICS = {
    "Batch size": r"batch size|batch of|batch falls|larger (the )?batch|micro-batch|at a time|ghost|identically dis",
    "In training and in use": r"running|momentum|kept part|eval mode|test time|inference|whole training|test batch",
    "Learning rate, warm-up and decay": r"learning[- ]rate|warm-up|rate of 0|best rate|decay",
    "Depth, vanishing and exploding gradients": r"vanish|explo|deeper|depth|more layers|parallel|too large or|"
    r"apart over|saturat|bounded|gram matrix|gradients? .*(a layer|last feed)",
    "Internal covariate shift and smoothness": r"covariate|smooth|drift|varies less|predicts itself|distribution of",
    "Transformers and language models": r"pre-ln|post-ln|transformer|language model|branch|block k|text|QK|DyT|Derf|"
    r"the sum|stream|token",
    "Invariance": r"invarian|insensitive|unaffected|\(a W\)|re-scaling|re-centering|proportion to the length|jacobian",
    "Variance, eps and rounding": r"eps\b|varia|deviation|biased|\bstd|half precision|float|rounding|divides by",
    "Gain and shift": r"\bgain|shift|gamma|bias\b",
    "Which norm is more accurate": r"accura|loss|errors|diverge",
}
OTHER = "Definitions and examples"


def topic(claim: Claim) -> str:
    """The topic of a claim."""
    text = claim.sentence
    return next((name for name, words in TOPICS.items() if re.search(words, text, re.I)), OTHER)


def matching(claims: Iterable[Claim], words: str) -> list[Claim]:
    """The claims in whose id, name, sentence, source or topic every one of the words stands."""
    terms = words.lower().split()

    def text(claim: Claim) -> str:
        return " ".join((claim.id, claim.name, claim.sentence, claim.source, topic(claim))).lower()

    return [claim for claim in claims if all(word in text(claim) for word in terms)]


RESERVED = ("cache", "bank")  # folders beside verdicts, and the grid of a bank
ENDINGS = (".yaml", ".yml")


def find(text: str, bank: Bank | None = None) -> tuple[list[Claim], list[str], list[str]]:
    """The claims that a comma-separated list names: of the project, of the user's folder, and of files by path.

    Returns (claims, mistakes of named files, mistakes of other files). Raises ValueError as `select` does.
    """
    text, from_files = own_claims(text, bank)
    claims, broken = known_claims(text)
    chosen, left_out = select(claims | from_files, text, broken), unreadable(broken, text)
    if bank and bank.drawn:
        chosen = asks_for(bank, chosen, text)
    if bank and bank.name != SMALL:
        files = {name: path for path in claim_files() for name in documents(path) if name not in from_files}
        chosen = [
            read_claim(files[claim.id], bank, claim.id) if claim.id in files else claim for claim in chosen
        ]
    return chosen, left_out, [mistake for mistake in broken.values() if mistake not in left_out]


def asks_for(bank: Bank, claims: list[Claim], text: str) -> list[Claim]:
    """Those of the claims that ask for drawn settings of the kind that a bank has: trained ones, or initial networks.
    A bank that files of claims name has those claims; another has all of its kind, and so has each one named by its id.
    Raises ValueError if there are none."""
    kind = "training" if bank.known_population.rates else "initialization"
    fitting = [claim for claim in claims if claim.drawn and claim.evidence == kind]
    ids = {word.lower() for word in words(text)}
    if fitting:
        preferred = [claim for claim in fitting if claim.id.lower() in ids or claim.bank == bank.name]
        return preferred or fitting
    raise ValueError(
        f"claim={text}: asks for no drawn settings (evidence: {kind}), which is what bank={bank.name} has; leave bank= "
        "out, or write settings: {bank: ..., first: 24} into the file of the claim"
    )


def known_claims(text: str = "all") -> tuple[dict[str, Claim], dict[str, str]]:
    """The claims of the project, of the user's folder and of allowed packages by id, and the mistakes of unreadable
    files by id. Where each word of a list is an id, only these are read: reading all takes half a second."""
    requested = {word.lower() for word in words(text)}
    names = [name for path in claim_files() for name in documents(path)]
    all_of_them = not requested <= {own for name in names for own in _ids(name)}
    claims, broken = dict[str, Claim](), dict[str, str]()
    for folder in (CONFIGS, *more_folders()):
        loaded, mistakes = load_each(
            folder / "claims", only=lambda name: all_of_them or bool(_ids(name) & requested)
        )
        if taken := loaded.keys() & claims.keys():
            raise ValueError(f"{folder / 'claims'}: {min(taken)} is a claim of normexp; rename yours")
        claims |= loaded
        broken |= mistakes
    return claims, broken


def claim_files() -> list[Path]:
    """The files of claims: those of the project, of the user's folder and of allowed packages."""
    return [path for folder in (CONFIGS, *more_folders()) for path in (folder / "claims").glob("*.yaml")]


def _ids(name: str) -> set[str]:
    return {name.lower(), whole_id(name)}


def own_claims(text: str, bank: Bank | None = None) -> tuple[str, dict[str, Claim]]:
    """The list of claims with ids instead of paths, and the claims of the files by id.

    Raises ValueError with one line for a missing file, for a file that is no claim, and for two files with one name.
    """
    claims: dict[str, Claim] = {}
    ids = []
    for word in words(text):
        if not word.endswith(ENDINGS):
            ids.append(word)
            continue
        path = Path(word)
        if not path.is_file():
            raise ValueError(f"claim={word}: no such file; name a yaml, or an id such as S37")
        for name in documents(path):
            if name in RESERVED:
                raise ValueError(f"claim={word}: {name} names the folder of runs; rename it")
            if name in claims:
                raise ValueError(f"claim={word}: two claims have the name {name}; rename one")
            claims[name] = read_claim(path, bank, name)
            ids.append(name)
    return ",".join(ids), claims


def select(claims: dict[str, Claim], text: str, broken: dict[str, str] | None = None) -> list[Claim]:
    """The claims that a comma-separated list names, each once, in the order of the list and then of the folder.

    Each word of the list is one of these:
    - an id, such as S37, which brings its parts S37a, S37b and so on
    - a name, such as rescaling_invariance
    - the id of a sentence that has no claim of its own: all claims that cover it
    - the arXiv id of a paper, such as 2503.10622: all claims whose source it is
    - a kind of evidence: law, initialization or training
    - a glob over ids and names, such as S3*
    - `all`

    `broken` has the mistake of each unreadable file, by id. Raises ValueError if a word names such a file. Raises
    ValueError with the nearest names if a word names no claim.
    """
    chosen: dict[str, Claim] = {}
    broken = broken or {}
    for word in words(text):
        matches = _claims_named(claims.values(), word.lower())
        if arxiv_id(word) and not matches:
            raise ValueError(f"claim={word}: no claim has this paper as its source; --help lists all")
        left_out = unreadable(broken, word)
        if left_out and (not matches or word.upper() in {name.upper() for name in broken}):
            raise ValueError(left_out[0])
        if not matches and (hint := brought_hint("claim", word)):
            raise ValueError(f"claim={word}: {hint}")
        if not matches:
            near = f" nearest: {', '.join(names)};" if (names := nearest(claims, word)) else ""
            raise ValueError(f"claim={word}: no such claim;{near} find={word} searches, --help lists all")
        chosen |= {claim.id: claim for claim in matches}
    if not chosen:
        raise ValueError(f"claim={text}: names no claim; give an id such as S37, or all; --help lists them")
    return list(chosen.values())


def words(text: str) -> list[str]:
    """The parts of a text between commas, without spaces and empty parts."""
    return [part.strip() for part in text.split(",") if part.strip()]


def unreadable(broken: dict[str, str], text: str) -> list[str]:
    """The mistakes in the broken files that the list names by id, by glob or by `all`."""
    requested = [word.lower() for word in words(text)]
    return [
        mistake
        for name, mistake in broken.items()
        if any(word in ("all", whole_id(name)) or fnmatchcase(name.lower(), word) for word in requested)
    ]


def whole_id(name: str) -> str:
    """The id without its part: S37 for S37a, S37b ... S37z."""
    return re.sub(r"(?<=\d)[a-z]+$", "", name.lower())


def _claims_named(claims: Iterable[Claim], word: str) -> list[Claim]:
    """The claims that a word names; if none, those that cover the sentence of this id."""

    def is_named(claim: Claim) -> bool:
        names = (claim.id.lower(), claim.name.lower())
        accepted = ("all", claim.evidence, whole_id(claim.id), *names)
        return word in accepted or any(fnmatchcase(name, word) for name in names)

    if paper := arxiv_id(word):
        return [claim for claim in claims if is_of(paper, claim.source)]
    matches = [claim for claim in claims if is_named(claim)]
    return matches or [claim for claim in claims if word in map(str.lower, claim.covers)]


def nearest(claims: dict[str, Claim], word: str) -> list[str]:
    """Up to four ids or names that look like `word`."""
    by_lower_name = {name.lower(): name for claim in claims.values() for name in (claim.id, claim.name)}
    close = difflib.get_close_matches(word.lower(), by_lower_name, n=4, cutoff=0.4)
    return [by_lower_name[name] for name in close]
