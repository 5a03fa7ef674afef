"""`docs/verdicts.md`: every claim with its verdict in a short row, made only from verdicts and the yaml."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from normexp.claims.judge.estimate import ALPHA, holm
from normexp.claims.judge.settings_count import word_of
from normexp.claims.judge.verdict import FEWEST_SETTINGS, Count, Verdict, Word
from normexp.claims.numbers import by_arm, numbers_of
from normexp.claims.pages.markdown import markdown_page, markdown_table
from normexp.claims.spec.claim import Claim
from normexp.claims.units import capital, number
from normexp.claims.words import note, with_scope
from normexp.config.folder import CONFIGS
from normexp.format import duration
from normexp.runs.files import write_text

ERRORS = CONFIGS.parent / "docs" / "data" / "judge_errors.json"  # of the judge
READING = "readings that go too far"
SOURCES = {"S": "source documents", "P": "papers", "X": "others", READING: READING}
DEFINITIONS = ("arithmetic", "self-check")


@dataclass(frozen=True)
class Family:
    """Each comparison that has a word over drawn settings, of claims that are no arithmetic."""

    tested: Mapping[tuple[str, int], Count]  # (id of a claim, part of it from 1) -> its count
    stays: Mapping[tuple[str, int], bool]  # whether its word stays under Holm

    @classmethod
    def of(cls, verdicts: Mapping[str, Verdict]) -> "Family":
        """The family of these verdicts."""
        tested = {
            (name, part): result
            for name, verdict in verdicts.items()
            if verdict.kind not in DEFINITIONS
            for part, result in enumerate(verdict.counts, 1)
            if result.p is not None
        }
        adjusted = holm([result.p for result in tested.values()]).tolist()
        return cls(tested, {key: p <= ALPHA for key, p in zip(tested, adjusted, strict=True)})

    def in_words(self, verdict: Verdict) -> str:
        """Which of a claim's comparisons that are supported or refuted stay; empty if none is."""
        if verdict.word == Word.WITHDRAWN:
            return ""
        parts = []
        for part, result in enumerate(verdict.counts, 1):
            stays = self.stays.get((verdict.id, part))
            if stays is not None and result.word in (Word.SUPPORTED, Word.REFUTED):
                name = f"part {part} " if len(verdict.counts) > 1 else ""
                parts.append(f"{name}{'stays' if stays else 'falls'}")
        if not parts:
            return ""
        return f"{', '.join(parts)} under Holm over {len(self.stays)} comparisons"


def write_verdicts(path: Path, claims: dict[str, Claim], verdicts: dict[str, Verdict]) -> str:
    """Write the page. A claim without a verdict counts as not yet run. Returns a line on the content."""
    begun = sum(verdict.word == Word.BEGUN for verdict in verdicts.values())
    write_text(path, page_of(claims, verdicts))
    more = f"; {begun} more have begun" if begun else ""
    return f"{path}: {len(verdicts) - begun} verdicts of {len(claims)} claims{more}"


def page_of(claims: dict[str, Claim], verdicts: dict[str, Verdict]) -> str:
    """The page as text, with the judge's error rates."""
    counts = Counter((section_of(claim, verdicts), word_in(verdicts, name)) for name, claim in claims.items())
    rows = [(source, *(counts[section, word] for word in Word)) for section, source in SOURCES.items()]
    family = Family.of(verdicts)
    trained = [verdict for verdict in verdicts.values() if verdict.evidence == "training"]
    return markdown_page(
        "verdicts.md.j2",
        words=markdown_table(("", *Word), rows, range(1, len(Word) + 1)),
        tables={section: table(claims, verdicts, section, family) for section in SOURCES},
        family=family,
        counts=Counter(result.word for result in family.tested.values()),
        withdrawn=sum(verdicts[name].word == Word.WITHDRAWN for name, _ in family.tested),
        outside=outside(verdicts, family),
        unexpected=[verdict for verdict in verdicts.values() if verdict.as_expected is False],
        shares=shares(verdicts, family),
        trained=duration(sum(verdict.runs.training_seconds for verdict in trained if verdict.runs)),
        errors=json.loads(ERRORS.read_text()) if ERRORS.exists() else None,
    )


def shares(verdicts: dict[str, Verdict], family: Family) -> str:
    """A table of the words over drawn settings that are no arithmetic; empty if there are none.

    Each has the p of its share against one half, and Benjamini and Hochberg's q over all of them. The last column says
    whether it stays under Holm.
    """
    from scipy.stats import false_discovery_control

    if not family.tested:
        return ""
    q = false_discovery_control([result.p for result in family.tested.values()])
    rows = []
    for (key, result), one in zip(family.tested.items(), q, strict=True):
        name = key[0] if len(verdicts[key[0]].comparisons) == 1 else f"{key[0]}, part {key[1]}"
        withdrawn = " (withdrawn)" if verdicts[key[0]].word == Word.WITHDRAWN else ""
        stays = "yes" if family.stays[key] else "no"
        rows.append((name, result.word + withdrawn, number(result.p), number(one), stays))
    return markdown_table(("id", "verdict", "p", "q", "stays under Holm"), rows, numbers=(2, 3))


def word_in(verdicts: dict[str, Verdict], name: str) -> str:
    """The word of a claim; one without a verdict has not been run."""
    return verdicts[name].word if name in verdicts else Word.NOT_RUN


def section_of(claim: Claim, verdicts: dict[str, Verdict]) -> str:
    """The table of a claim: by the letter of its id, unless it refutes a reading that no source holds."""
    return READING if claim.kind == "reading" and word_in(verdicts, claim.id) == Word.REFUTED else claim.id[0]


def outside(verdicts: dict[str, Verdict], family: Family) -> dict[str, str]:
    """Claims over drawn settings that were asked and have no place in the family, as the cause that their sentence
    names was not brought about: with the word that the share alone would give."""
    return {
        name: word_of(verdict.counts[0].share_interval)
        for name, verdict in verdicts.items()
        if verdict.drawn and verdict.manipulation and not verdict.manipulation.held
        if (name, 1) not in family.tested and verdict.counts and verdict.counts[0].asked >= FEWEST_SETTINGS
    }


def table(claims: dict[str, Claim], verdicts: dict[str, Verdict], section: str, family: Family) -> str:
    """The claims of a table, one row each, in Markdown. A page that asks the sentence, too, is linked."""
    rows = []
    for claim in (claim for claim in claims.values() if section_of(claim, verdicts) == section):
        verdict = verdicts.get(claim.id)
        drawn = f"{Word.NOT_RUN} over drawn settings" if claim.answered_in and claim.drawn else Word.NOT_RUN
        answers = [f"**{cell(with_scope(verdict))}**", family.in_words(verdict)] if verdict else [drawn]
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
