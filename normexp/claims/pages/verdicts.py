"""`docs/verdicts.md`: every claim with its verdict in a short row, made only from verdicts and the yaml."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from normexp.claims.judge.estimate import ALPHA, holm
from normexp.claims.judge.settings_count import word_of
from normexp.claims.judge.verdict import FEWEST_SETTINGS, Count, Verdict, Word
from normexp.claims.numbers import by_arm, numbers_of
from normexp.claims.pages.markdown import markdown_page, markdown_table
from normexp.claims.spec.claim import Claim
from normexp.claims.units import capital, number
from normexp.claims.words import note, with_scope
from normexp.config.folder import CONFIGS
from normexp.format import duration, pluralize
from normexp.runs.files import write_text

ERRORS = CONFIGS.parent / "docs" / "data" / "judge_errors.json"  # of the judge
READING = "readings that go too far"
SOURCES = {"S": "source documents", "P": "papers", "X": "others", READING: READING}
DEFINITIONS = ("arithmetic", "self-check")


class Tested(NamedTuple):
    """A comparison that has a word over drawn settings, of a claim that is no arithmetic."""

    verdict: Verdict
    part: int  # of the claim, from 1
    result: Count
    stays: bool  # whether its word stays under Holm


def family_of(verdicts: Mapping[str, Verdict]) -> list[Tested]:
    """All comparisons of these verdicts that are tested."""
    tested = [
        (verdict, part, result)
        for verdict in verdicts.values()
        if verdict.claim.kind not in DEFINITIONS
        for part, result in enumerate(verdict.counts, 1)
        if result.p is not None
    ]
    adjusted = holm([result.p for *_, result in tested]).tolist()
    return [Tested(*one, stays=p <= ALPHA) for one, p in zip(tested, adjusted, strict=True)]


def stays_in_words(verdict: Verdict, family: Sequence[Tested]) -> str:
    """Which of a claim's comparisons that are supported or refuted stay; empty if none is."""
    parts = []
    for one in family:
        decided = one.result.word in (Word.SUPPORTED, Word.REFUTED) and verdict.word != Word.WITHDRAWN
        if decided and one.verdict.claim.id == verdict.claim.id:
            name = f"part {one.part} " if len(verdict.counts) > 1 else ""
            parts.append(f"{name}{'stays' if one.stays else 'falls'}")
    return f"{', '.join(parts)} under Holm over {len(family)} comparisons" if parts else ""


def write_verdicts(path: Path, claims: dict[str, Claim], verdicts: dict[str, Verdict]) -> str:
    """Write the page. A claim without a verdict counts as not yet run. Returns a line on the content."""
    begun = sum(verdict.word == Word.BEGUN for verdict in verdicts.values())
    write_text(path, page_of(claims, verdicts))
    more = f"; {begun} more have begun" if begun else ""
    return f"{path}: {pluralize(len(verdicts) - begun, 'verdict')} of {pluralize(len(claims), 'claim')}{more}"


def page_of(claims: dict[str, Claim], verdicts: dict[str, Verdict]) -> str:
    """The page as text, with the judge's error rates."""
    counts = Counter((section_of(claim, verdicts), word_in(verdicts, name)) for name, claim in claims.items())
    rows = [(source, *(counts[section, word] for word in Word)) for section, source in SOURCES.items()]
    family = family_of(verdicts)
    trained = [verdict for verdict in verdicts.values() if verdict.claim.evidence == "training"]
    return markdown_page(
        "verdicts.md.j2",
        words=markdown_table(("", *Word), rows, range(1, len(Word) + 1)),
        tables={section: table(claims, verdicts, section, family) for section in SOURCES},
        family=family,
        counts=Counter(one.result.word for one in family),
        withdrawn=sum(one.verdict.word == Word.WITHDRAWN for one in family),
        outside=outside(verdicts),
        unexpected=[verdict for verdict in verdicts.values() if verdict.as_expected is False],
        shares=shares(family),
        trained=duration(sum(verdict.runs.training_seconds for verdict in trained if verdict.runs)),
        errors=json.loads(ERRORS.read_text()) if ERRORS.exists() else None,
    )


def shares(family: Sequence[Tested]) -> str:
    """A table of the words over drawn settings that are no arithmetic; empty if there are none.

    Each has the p of its share against one half, and Benjamini and Hochberg's q over all of them. The last column says
    whether it stays under Holm.
    """
    from scipy.stats import false_discovery_control

    if not family:
        return ""
    rows = []
    for one, q in zip(family, false_discovery_control([one.result.p for one in family]), strict=True):
        name = one.verdict.claim.id + (f", part {one.part}" if len(one.verdict.counts) > 1 else "")
        withdrawn = " (withdrawn)" if one.verdict.word == Word.WITHDRAWN else ""
        stays = "yes" if one.stays else "no"
        rows.append((name, one.result.word + withdrawn, number(one.result.p), number(q), stays))
    return markdown_table(("id", "verdict", "p", "q", "stays under Holm"), rows, numbers=(2, 3))


def word_in(verdicts: dict[str, Verdict], name: str) -> str:
    """The word of a claim; one without a verdict has not been run."""
    return verdicts[name].word if name in verdicts else Word.NOT_RUN


def section_of(claim: Claim, verdicts: dict[str, Verdict]) -> str:
    """The table of a claim: by the letter of its id, unless it refutes a reading that no source holds."""
    return READING if claim.kind == "reading" and word_in(verdicts, claim.id) == Word.REFUTED else claim.id[0]


def outside(verdicts: dict[str, Verdict]) -> dict[str, str]:
    """Claims over drawn settings that were asked and have no place in the family, as the cause that their sentence
    names was not brought about: with the word that the share alone would give."""
    return {
        name: word_of(verdict.counts[0].share_interval)
        for name, verdict in verdicts.items()
        if verdict.claim.drawn and verdict.manipulation and not verdict.manipulation.held
        if verdict.counts[0].asked >= FEWEST_SETTINGS
    }


def table(
    claims: dict[str, Claim], verdicts: dict[str, Verdict], section: str, family: Sequence[Tested]
) -> str:
    """The claims of a table, one row each, in Markdown. A page that asks the sentence, too, is linked."""
    rows = []
    for claim in (claim for claim in claims.values() if section_of(claim, verdicts) == section):
        verdict = verdicts.get(claim.id)
        # The page that is linked may ask other networks, by another protocol.
        drawn = f"{Word.NOT_RUN} as registered" if claim.answered_in and claim.drawn else Word.NOT_RUN
        answers = (
            [f"**{cell(with_scope(verdict))}**", stays_in_words(verdict, family)] if verdict else [drawn]
        )
        if page := claim.answered_in:
            answers.append(f"[{page.removesuffix('.md').replace('_', ' ')}]({page})")
        answer, says = "; ".join(filter(None, answers)), ""
        if verdict:
            numbers, beside = numbers_of(verdict, asked=False), capital(note(verdict))
            by_name = bool(by_arm(verdict))  # it begins with the name of an arm, which stays as it is
            says = ". ".join(filter(None, (numbers if by_name else capital(numbers), beside)))
        rows.append((claim.id, f"{cell(claim.sentence)} *{cell(claim.source)}*", answer, cell(says)))
    return markdown_table(("id", "sentence", "verdict", "numbers"), rows)


def cell(text: str) -> str:
    """Text escaped for a table in Markdown."""
    return text.replace("|", "\\|").replace("*", "\\*")
