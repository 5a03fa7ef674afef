"""README.md and docs: numbers are those of the data, commands are commands, links lead somewhere, and the first verdict
can be asked for."""

import json
import re
import shlex
from collections import defaultdict
from pathlib import Path

import documentation
import numpy as np
import pytest
import yaml
from scipy import stats

from normexp.claims.spec.find import own_claims
from normexp.config.compose import compose

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("scripts/research/*.md")]
TEXT = documentation.README.read_text()
RECORD = json.loads(documentation.RECORD.read_text())


def test_numbers_are_those_of_the_record():
    assert documentation.filled(TEXT, documentation.readme(RECORD)) == TEXT


def test_the_table_is_computed_from_the_values_of_the_runs():
    """Recomputed here from every run's test accuracy."""
    values = defaultdict(list)
    for arm, level, _, accuracy in RECORD["study"]["values"]:
        values[arm, f"{level:g}"].append(100 * accuracy)
    lines = [line for line in RECORD["study"]["table"].splitlines() if line.startswith("|")]
    rows = [line.strip("| ").split(" | ") for line in lines]
    levels = rows[0][1:]
    cells = [(row[0], *cell) for row in rows[2:] for cell in zip(levels, row[1:], strict=True)]
    shown = {(arm, level): cell.strip("*") for arm, level, cell in cells}
    assert shown.keys() == values.keys()
    for key, own in values.items():
        mean, half = map(float, shown[key].split(" ± "))
        assert mean == round(np.mean(own), 1), key
        # It counts the 360 test images too: wider than by seeds alone, at most as wide as by both.
        images = 196 * np.sqrt(mean / 100 * (1 - mean / 100) / 360)
        assert stats.sem(own) < half < np.hypot(images, stats.t.ppf(0.975, len(own) - 1) * stats.sem(own)), (
            key
        )


def test_the_claim_of_the_walk_is_a_claim_and_gave_that_word(tmp_path):
    text = re.search(r"<!-- walk -->\n```yaml\n(.*?)```", TEXT, re.S)[1]
    (tmp_path / "my_claim.yaml").write_text(text)
    _, found = own_claims(str(tmp_path / "my_claim.yaml"))
    assert found["my_claim"].sentence == yaml.safe_load(text)["sentence"]
    assert found["my_claim"].sentence in " ".join(RECORD["walk"]["text"].split())
    assert RECORD["walk"]["verdict"].upper() in RECORD["walk"]["text"]


def commands() -> list[list[str]]:
    """What follows `normexp train` in the pages, each once: of a sweep the first value of each key, without flags."""
    text = "\n".join(page.read_text() for page in PAGES).replace("\\\n", " ")
    lines = re.findall(r"^ *normexp train (.*)$", text, re.M)
    words = [shlex.split(line, comments=True) for line in lines if "--help" not in line]
    runs = [
        tuple(re.sub(r"^(\w[\w.]*=)(?:range\(.*|([^\[,]+),.*)", lambda m: m[1] + (m[2] or "0"), word)
        for word in own if "=" in word and not word.startswith(("hydra", "partition", "account")))
        for own in words
    ]  # fmt: skip
    return [list(own) for own in dict.fromkeys(runs) if "allow_targets" not in " ".join(own)]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_name_keys_and_choices_that_exist(words):
    compose(words)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        there = (page.parent / path) if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_the_site_has_every_page_and_the_api_names_what_exists():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} | {"tour.md", "lesson.md"}
    assert pages <= set(re.findall(r"([\w.]+\.md)$", nav, re.M))
    for module, names in re.findall(
        r"^::: ([\w.]+)\n.*\n +members: \[(.*)\]", (ROOT / "docs" / "api.md").read_text(), re.M
    ):
        place = ROOT / module.replace(".", "/")
        defined = (place / "__init__.py" if place.is_dir() else place.with_suffix(".py")).read_text()
        for name in names.split(", "):
            assert re.search(rf"\b{name}\b", defined), f"{module}.{name}"


def words_of(text: str) -> int:
    """Words and numbers that a reader sees: no addresses, no rules of tables."""
    return sum(bool(re.search(r"\w", word)) for word in re.sub(r"\]\([^)]*\)", "]", text).split())


def test_readme_and_the_two_questions_are_told_in_two_screens():
    assert len(TEXT.splitlines()) <= 130
    answers = re.findall(r"^### .*\?\n(.*?)<br><img", TEXT, re.M)
    assert len(answers) == 6
    assert [text for text in answers if words_of(text) > 45] == []
    for page in ("covariate_shift.md", "vanishing_gradients.md"):
        assert words_of((ROOT / "docs" / page).read_text()) <= 750, page


def test_the_pages_are_few_and_short():
    lengths = {page.name: len(page.read_text().splitlines()) for page in (ROOT / "docs").glob("*.md")}
    assert len(lengths) <= 21
    long = {name for name, lines in lengths.items() if lines > 220}
    assert long <= {"verdicts.md", "findings.md", "check.md"}
