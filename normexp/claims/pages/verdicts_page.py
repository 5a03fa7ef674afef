"""`docs/verdicts.md`: every claim with its verdict in a short row, made only from verdicts and the yaml."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from normexp.claims.judge.estimate import ALPHA, holm
from normexp.claims.judge.plain_words import (
    BEGUN,
    NOT_RUN,
    REFUTED,
    SUPPORTED,
    WITHDRAWN_WORD,
    WORDS,
    capital,
    number,
    numbers_of,
    with_scope,
)
from normexp.claims.pages import markdown_page, markdown_table
from normexp.claims.spec.claim import Claim
from normexp.config.folder import CONFIGS
from normexp.format import duration

ERRORS = CONFIGS.parent / "docs" / "data" / "judge_errors.json"  # of the judge
DEFINITIONS = ("arithmetic", "self-check")
SOURCES = {"S": "source documents", "P": "papers", "X": "others"}


def write_page(path: Path, claims: dict[str, Claim], verdicts: dict[str, dict[str, Any]]) -> str:
    """Write the page of all verdicts, or of findings where the file has that name. A claim without a verdict counts as
    not yet run. Returns a line on the content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.stem == "findings":
        from normexp.claims.pages.findings import write_findings  # draws

        return write_findings(path, claims, verdicts)
    begun = sum(verdict["verdict"] == BEGUN for verdict in verdicts.values())
    path.write_text(page_of(claims, verdicts))
    more = f"; {begun} more have begun" if begun else ""
    return f"{path}: {len(verdicts) - begun} verdicts of {len(claims)} claims{more}"


def page_of(claims: dict[str, Claim], verdicts: dict[str, dict[str, Any]]) -> str:
    """The page as text, with the judge's error rates."""
    counts = Counter((name[0], verdicts[name]["verdict"] if name in verdicts else NOT_RUN) for name in claims)
    rows = [(source, *(counts[letter, word] for word in WORDS)) for letter, source in SOURCES.items()]
    trained = [verdict for verdict in verdicts.values() if verdict["evidence"] == "training"]
    return markdown_page(
        "verdicts.md.j2",
        words=markdown_table(("", *WORDS), rows, range(1, len(WORDS) + 1)),
        tables={letter: table(claims, verdicts, letter) for letter in SOURCES},
        unexpected=[verdict for verdict in verdicts.values() if verdict["as_expected"] is False],
        shares=shares(verdicts),
        trained=duration(sum(verdict["runs"]["training_seconds"] for verdict in trained)),
        errors=json.loads(ERRORS.read_text()) if ERRORS.exists() else None,
    )


def tested(verdicts: dict[str, dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    """(id, place) -> each comparison with a word over drawn settings, of claims that are no arithmetic."""
    return {
        (name, place): result
        for name, verdict in verdicts.items()
        if verdict["settings"] and verdict["kind"] not in DEFINITIONS
        for place, result in enumerate(verdict["comparisons"], 1)
        if result.get("p") is not None
    }


def under_holm(verdicts: dict[str, dict[str, Any]]) -> dict[tuple[str, int], bool]:
    """Whether the word of each comparison stays if none of the page may be false with 95%."""
    words = tested(verdicts)
    adjusted = holm([result["p"] for result in words.values()]).tolist()
    return {key: p <= ALPHA for key, p in zip(words, adjusted, strict=True)}


def holm_words(verdict: dict[str, Any], verdicts: dict[str, dict[str, Any]]) -> str:
    """Which of a claim's comparisons that are supported or refuted stay under Holm; empty if none is."""
    stays = under_holm(verdicts)
    told = {
        place: "stays" if stays[name, place] else "falls"
        for name, place in stays
        if name == verdict["id"] and verdict["comparisons"][place - 1]["word"] in (SUPPORTED, REFUTED)
    }
    if not told or verdict["verdict"] == WITHDRAWN_WORD:
        return ""
    several = len(verdict["comparisons"]) > 1
    parts = [f"part {place} {word}" if several else word for place, word in told.items()]
    return f"{', '.join(parts)} under Holm over {len(stays)} verdicts"


def shares(verdicts: dict[str, dict[str, Any]]) -> str:
    """A table of the words over drawn settings that are no arithmetic; empty if there are none.

    Each has the p of its share against one half, and Benjamini and Hochberg's q over all of them. The last column says
    whether it stays under Holm.
    """
    from scipy.stats import false_discovery_control

    words, stays = tested(verdicts), under_holm(verdicts)
    if not words:
        return ""
    q = false_discovery_control([result["p"] for result in words.values()])
    rows = []
    for (key, result), one in zip(words.items(), q, strict=True):
        name = key[0] if len(verdicts[key[0]]["comparisons"]) == 1 else f"{key[0]}, part {key[1]}"
        withdrawn = " (withdrawn)" * (verdicts[key[0]]["verdict"] == WITHDRAWN_WORD)
        rows.append(
            (
                name,
                result["word"] + withdrawn,
                number(result["p"]),
                number(one),
                "yes" if stays[key] else "no",
            )
        )
    return markdown_table(("id", "verdict", "p", "q", "stays under Holm"), rows, numbers=(2, 3))


def table(claims: dict[str, Claim], verdicts: dict[str, dict], letter: str) -> str:
    """The claims whose id starts with `letter`, one row each, in Markdown."""
    rows = []
    for claim in (claim for claim in claims.values() if claim.id.startswith(letter)):
        verdict = verdicts.get(claim.id)
        said = [f"**{cell(with_scope(verdict))}**", holm_words(verdict, verdicts)] if verdict else [NOT_RUN]
        word = "; ".join(filter(None, said))
        told = (numbers_of(verdict, asked=False), verdict["note"]) if verdict else ()
        says = ". ".join(capital(text) for text in told if text)
        rows.append((claim.id, f"{cell(claim.sentence)} *{cell(claim.source)}*", word, cell(says)))
    return markdown_table(("id", "sentence", "verdict", "numbers"), rows)


def cell(text: str) -> str:
    """Text escaped for a table in Markdown."""
    return text.replace("|", "\\|").replace("*", "\\*")
