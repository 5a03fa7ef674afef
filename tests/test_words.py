"""What users read has one vocabulary, the twelve words of docs/words.md."""

import ast
import json
import re
from pathlib import Path

import pytest

from normexp.claims.judge.verdict import Word

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "words.md"
PAGES = [*ROOT.glob("README.md"), *ROOT.glob("CONTRIBUTING.md"), *(ROOT / "docs").glob("*.md")]
# Rooms that write to a terminal or page.
PRINTS = ["cli", "claims", "report", "compare", "advise", "sweeps", "check", "training"]

# Words that nobody needs beside the twelve: old -> what stands in its place.
REPLACED = {
    r"(?:not )?seen here": "holds here, not shown here",
    r"not known yet": "undecided",
    r"\bin some settings\*": "divided",
    r"no words? of (?:its|their) own": "no verdict",
    r"settings that (?:we|somebody|someone) chose": "hand-picked settings",
    r"in the middle of the settings": "median over settings",
    r"next to none": "almost none",
    r"cells of your own": "settings of your own",
    r"was asked; so in": "claimed is ...; holds in",
}  # fmt: skip


def printed_texts() -> dict[str, str]:
    """Where each text stands that a user may read -> the text, pages and notebooks whole, of code its strings."""
    texts = {str(page.relative_to(ROOT)): page.read_text() for page in PAGES}
    for path in (ROOT / "docs").glob("*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        told = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        texts[path.name] = "\n".join(told)
    for room in PRINTS:
        for path in (ROOT / "normexp" / room).rglob("*"):
            if path.suffix == ".py":
                constants = [
                    n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant)
                ]
                strings = [value for value in constants if isinstance(value, str)]
                texts[str(path.relative_to(ROOT))] = "\n".join(strings)
            elif path.suffix in (".j2", ".yaml"):
                texts[str(path.relative_to(ROOT))] = path.read_text()
    return texts


@pytest.mark.parametrize("old", REPLACED)
def test_a_word_that_was_replaced_is_gone(old):
    found = [place for place, text in printed_texts().items() if re.search(old, text, re.I)]
    assert found == [], f"write: {REPLACED[old]}"


def test_the_page_has_twelve_words_at_most_and_every_verdict():
    tables = [part for part in PAGE.read_text().split("\n\n") if part.startswith("|")]
    words, verdicts = (re.findall(r"^\| ([^|]+) \|", part, re.M)[1:] for part in tables)
    assert len(words) <= 12
    assert set(Word) == {word for row in verdicts for word in row.split(", ")}


def test_readme_links_the_page():
    assert "(docs/words.md)" in (ROOT / "README.md").read_text()
