"""Comments, docstrings, messages and pages have American spelling, and no phrase that readers stumbled over."""

import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Sentences of claims quote their sources, and the log says what was said then.
LEFT_OUT = (
    "configs/claim/",
    "docs/evidence/",
    "docs/verdicts.md",
    "CHANGELOG.md",
    "tests/test_plain_english.py",
)
ROOTS = [
    "generalis",
    "initialis",
    "maximis",
    "minimis",
    "normalis",
    "optimis",
    "organis",
    "randomis",
    "regularis",
]
BRITISH = [  # beginnings of words
    "amongst", "analyse", "analysing", "behaviour", "centred", "centre", "centring", "colour", "favour", "grey",
    "judgement", "labelled", "labelling", "learnt", "modelled", "modelling", "neighbour", "recognise", "spelt",
    "standardise", "summarise", "towards", "whilst", *map("".join, product(ROOTS, ("e", "a", "ing"))),
]  # fmt: skip
# "One row per run", not "one row a run".
UNITS = ("row", "line", "column", "chart", "file", "number", "point", "process", "value")
THINGS = (
    "arm",
    "cell",
    "claim",
    "layer",
    "metric",
    "model",
    "monitor",
    "norm",
    "replica",
    "row",
    "run",
    "seed",
    "step",
)
RIDDLES = [  # name who does what instead
    "taken in thought", "is told of", "is told to", "are told of", "of those that", "be it", "what came of",
    "somebody", "anybody", "one's own", "is said of", "nothing is said", "at hand", "without further ado",
    "stands in for", "no further than to", "for ever",
    *(f"{unit} {a} {thing}" for unit, a, thing in product(UNITS, ("a", "an"), THINGS)),
]  # fmt: skip


def files() -> Iterator[Path]:
    kinds = ("*.py", "*.md", "*.yaml", "*.j2", "*.toml", "*.cff")
    listed = subprocess.run(["git", "ls-files", *kinds], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        if not name.startswith(LEFT_OUT) and (ROOT / name).is_file():
            yield ROOT / name


def prose(path: Path, text: str) -> str:
    """The comments and strings of code, whose names may be what they are; all of a page or a configuration."""
    if path.suffix == ".py":
        kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        text = "\n".join(token.string for token in tokens if token.type in kinds)
    # Without the expressions of f-strings and templates.
    return re.sub(r"\{[^{}]*\}", "", text) if path.suffix in (".py", ".j2") else text


def found(text: str, banned: list[str], *, beginnings: bool = False) -> list[str]:
    """The banned words in a text. A phrase may run over lines, of comments too."""
    text = " ".join(text.lower().split()).replace(" # ", " ")
    end = "" if beginnings else r"(?![\w-])"
    return [word for word in banned if word in text and re.search(rf"(?<![\w-]){re.escape(word)}{end}", text)]


@pytest.mark.parametrize(
    ("banned", "beginnings"), [(BRITISH, True), (RIDDLES, False)], ids=["british", "riddles"]
)
def test_no_text_has_a_banned_word(banned, beginnings):
    if not (ROOT / ".git").exists():
        pytest.skip("an installed package has no list of its files")
    mistakes = {}
    for path in files():
        text = path.read_text()
        if not found(text, banned, beginnings=beginnings):  # to find the prose takes longer
            continue
        if words := found(prose(path, text), banned, beginnings=beginnings):
            mistakes[str(path.relative_to(ROOT))] = words
    assert mistakes == {}


def test_no_comment_stands_behind_a_closing_bracket():
    """The formatter breaks a line that a comment makes too long, and leaves the comment behind the last bracket."""
    behind = re.compile(r"^ *[\])}]+[,:]? +# (?!fmt: skip|noqa)", re.MULTILINE)
    assert [str(path) for path in files() if path.suffix == ".py" and behind.search(path.read_text())] == []


def test_banned_words_are_found_and_similar_words_are_not():
    assert found("the colours of\nthe Behaviour", BRITISH, beginnings=True) == ["behaviour", "colour"]
    assert found("noise, precise, a_grey, raise, analysis, organism, toward", BRITISH, beginnings=True) == []
    assert found("one row a\n    # run, be it short", RIDDLES) == ["be it", "row a run"]
    assert found("to be iterated, one row and a run, anybodys", RIDDLES) == []
