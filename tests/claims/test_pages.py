"""The pages of verdicts and findings, and what other pages say of a claim, are what the evidence gives today."""

import re
import time

import pytest
from committed import CLAIMS, ROOT, altered, judged, text_of
from made_settings import made
from matplotlib.image import imread

from normexp.claims.evidence.table import EVIDENCE, values_of
from normexp.claims.judge.over_settings import judge_settings
from normexp.claims.judge.verdict import Verdict
from normexp.claims.pages import findings
from normexp.claims.pages.findings import MOST_FINDINGS, QUESTIONS, answer, beside, counts, write_findings
from normexp.claims.pages.verdicts import write_verdicts

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def verdicts():
    """All that the evidence gives, in less than two minutes of processor time."""
    start = time.process_time()
    found = {name: verdict for name in CLAIMS if (verdict := judged(name))}
    assert time.process_time() - start < 120
    return found


def drawn_verdict(n: int = 24, drawn: bool = True) -> Verdict:
    """P01's sentence over made settings: BatchNorm errs a fifth less in three of four."""
    rule = lambda norm, labels, at: 0.2 * (1 if norm == "none" or int(labels["depth"]) > 6 else 0.8)  # noqa: E731
    settings = made(rule, n=n)
    return judge_settings(altered(CLAIMS["P01"], first=24 if drawn else 0), settings)


def test_every_claim_that_needs_no_training_has_its_evidence_committed():
    """Networks of a drawn bank are examined once its claims are registered; until then they have no values."""
    named = [name for name, claim in CLAIMS.items() if claim.evidence != "training" and not claim.drawn]
    assert [name for name in named if values_of(EVIDENCE, CLAIMS[name]) is None] == []


@pytest.mark.integration
@pytest.mark.parametrize(("page", "write"), [("verdicts", write_verdicts), ("findings", write_findings)])
def test_a_page_is_what_is_committed(page, write, verdicts, tmp_path, monkeypatch):
    """The figures are compared by tests/test_committed_images.py."""
    figures = []
    monkeypatch.setattr(findings, "draw", lambda table, verdict, path: figures.append(path.name))
    write(tmp_path / "page.md", CLAIMS, verdicts)
    assert (tmp_path / "page.md").read_text() == (DOCS / f"{page}.md").read_text()
    assert all((DOCS / "images" / name).exists() for name in figures)


@pytest.mark.integration
@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.glob("*.md"))], ids=lambda page: page.name)
def test_a_page_that_gives_a_claims_word_gives_the_committed_one(page):
    """`P10 (supported` or `P10 is refuted` in running text; verdicts.md is made from the verdicts."""
    text = page.read_text() if page.name != "verdicts.md" else ""
    words = "supported|refuted|divided|undecided|varies|depends"
    for name, word in re.findall(rf"\b([PSX]\d{{2}}[a-z]?)\b\W{{1,3}}(?:is )?({words})", text):
        assert judged(name).word.startswith(word), name


COUNTS = re.compile(
    r"(?P<holds>\d+) of (?P<n>\d+)(?: [\w-]+ settings)?(?: that [\w ]+)? \((?P<id>[PSX]\d{2}[a-z]?)[):]"
    r"|\b(?P<id2>[PSX]\d{2}[a-z]?): (?:[\w ]* in )?(?P<holds2>\d+) of (?P<n2>\d+)\b"
)


@pytest.mark.integration
def test_counts_of_settings_in_answers_are_those_of_the_verdicts():
    """`in 5 of 6 hand-picked settings (P10a)`, `(P17: 6 of 6 ...)`: of today's protocol, and of no earlier one."""
    found = list(COUNTS.finditer((DOCS / "answers.md").read_text()))
    assert len(found) >= 6
    for match in found:
        name, holds, n = (match[key] or match[f"{key}2"] for key in ("id", "holds", "n"))
        verdict = judged(name)
        assert (verdict.counts[0].holds, verdict.counts[0].asked) == (int(holds), int(n)), match[0]


def test_a_page_that_answers_a_sentence_names_it():
    linked = {claim.id: claim.answered_in for claim in CLAIMS.values() if claim.answered_in}
    assert linked
    for name, page in linked.items():
        assert re.search(rf"\b{name}\b", (DOCS / page).read_text()), (name, page)


def test_the_example_in_the_documentation_is_a_file_as_it_stands():
    shown = (DOCS / "claims.md").read_text().split("```yaml\n")[1].split("```")[0]
    lines = [line.split("  # ")[0] for line in shown.splitlines()]
    assert lines == [line for line in text_of("P14").splitlines() if not line.startswith(("id:", "#"))]


def test_claims_say_whose_sentence_they_are_and_how_rates_are_chosen():
    trained = [claim for claim in CLAIMS.values() if claim.evidence == "training"]
    assert {claim.id for claim in trained if "rate" not in claim.note} == set()
    assert [claim.id for claim in CLAIMS.values() if claim.evidence != "training" and not claim.kind] == []
    assert {claim.id for claim in CLAIMS.values() if claim.kind == "self-check"} == {"S33", "S41", "S55"}
    for name in ("S47", "S57", "S90", "S91", "S22"):  # the source has no such measure or margin
        assert re.search(r"\b(is|are) ours\b", CLAIMS[name].source), name


def test_every_question_is_a_claim_and_the_first_ones_are_about_drawn_settings():
    assert set(QUESTIONS) <= CLAIMS.keys()
    assert len(QUESTIONS) == len(set(QUESTIONS))
    kinds = [CLAIMS[name].drawn for name in QUESTIONS]
    assert kinds == sorted(kinds, reverse=True)
    assert sum(kinds) >= MOST_FINDINGS  # once all are judged, the page rests on drawn settings alone


def test_chosen_settings_and_laws_promise_no_more_than_they_have():
    chosen, law = drawn_verdict(drawn=False), judged("P17b")
    assert answer(chosen) == f"Holds in {chosen.counts[0].holds} of 24 hand-picked settings"
    assert "this says nothing about others" in beside(chosen)[-1]
    assert (answer(law), counts(law)) == ("Refuted", "")
    assert beside(law)[0] == "By a counterexample, after a search of 400 cases."


def test_a_question_with_fewer_settings_than_it_asks_for_waits(tmp_path):
    page, known = tmp_path / "docs" / "findings.md", {"X09": judged("X09")}
    line = write_findings(page, CLAIMS, known | {"P01": drawn_verdict()})
    assert line.endswith(f"2 findings, 1 over drawn settings; {len(QUESTIONS) - 3} questions not judged yet")
    image = imread(page.parent / "images" / "finding_P01.png")
    assert image.shape[1] > 800
    assert image[..., :3].std() > 0.05
    line = write_findings(page, CLAIMS, known | {"P01": drawn_verdict(n=5)})
    assert ": 1 finding, 0 over drawn settings" in line
    assert CLAIMS["P01"].sentence not in page.read_text()
