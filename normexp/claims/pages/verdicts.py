"""`docs/verdicts.md`: every claim with its verdict in a short row, made only from verdicts and the yaml."""

import json
from collections import Counter
from pathlib import Path

from normexp.claims.judge.verdict import BEGUN, NOT_RUN, WITHDRAWN, WORDS, Verdict
from normexp.claims.pages.holm import Family
from normexp.claims.pages.markdown import markdown_page, markdown_table
from normexp.claims.spec.claim import Claim
from normexp.claims.units import capital, number
from normexp.claims.words import note, numbers_of, with_scope
from normexp.config.folder import CONFIGS
from normexp.format import duration
from normexp.runs.files import write_text

ERRORS = CONFIGS.parent / "docs" / "data" / "judge_errors.json"  # of the judge
SOURCES = {"S": "source documents", "P": "papers", "X": "others"}


def write_verdicts(path: Path, claims: dict[str, Claim], verdicts: dict[str, Verdict]) -> str:
    """Write the page. A claim without a verdict counts as not yet run. Returns a line on the content."""
    begun = sum(verdict.word == BEGUN for verdict in verdicts.values())
    write_text(path, page_of(claims, verdicts))
    more = f"; {begun} more have begun" if begun else ""
    return f"{path}: {len(verdicts) - begun} verdicts of {len(claims)} claims{more}"


def page_of(claims: dict[str, Claim], verdicts: dict[str, Verdict]) -> str:
    """The page as text, with the judge's error rates."""
    counts = Counter((name[0], verdicts[name].word if name in verdicts else NOT_RUN) for name in claims)
    rows = [(source, *(counts[letter, word] for word in WORDS)) for letter, source in SOURCES.items()]
    family = Family.of(verdicts)
    trained = [verdict for verdict in verdicts.values() if verdict.evidence == "training"]
    return markdown_page(
        "verdicts.md.j2",
        words=markdown_table(("", *WORDS), rows, range(1, len(WORDS) + 1)),
        tables={letter: table(claims, verdicts, letter, family) for letter in SOURCES},
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
        withdrawn = " (withdrawn)" * (verdicts[key[0]].word == WITHDRAWN)
        rows.append(
            (
                name,
                result.word + withdrawn,
                number(result.p),
                number(one),
                "yes" if family.stays[key] else "no",
            )
        )
    return markdown_table(("id", "verdict", "p", "q", "stays under Holm"), rows, numbers=(2, 3))


def table(claims: dict[str, Claim], verdicts: dict[str, Verdict], letter: str, family: Family) -> str:
    """The claims whose id starts with `letter`, one row each, in Markdown."""
    rows = []
    for claim in (claim for claim in claims.values() if claim.id.startswith(letter)):
        verdict = verdicts.get(claim.id)
        said = [f"**{cell(with_scope(verdict))}**", family.in_words(verdict)] if verdict else [NOT_RUN]
        word = "; ".join(filter(None, said))
        told = (numbers_of(verdict, asked=False), note(verdict)) if verdict else ()
        says = ". ".join(capital(text) for text in told if text)
        rows.append((claim.id, f"{cell(claim.sentence)} *{cell(claim.source)}*", word, cell(says)))
    return markdown_table(("id", "sentence", "verdict", "numbers"), rows)


def cell(text: str) -> str:
    """Text escaped for a table in Markdown."""
    return text.replace("|", "\\|").replace("*", "\\*")
