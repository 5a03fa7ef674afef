"""A verdict in words: for the screen, for pages, for a section of a report."""

import textwrap
from typing import Any

from normexp.claims.judge.verdict import ONE_SETTING

WIDTH = 110  # of a paragraph in a file; a narrower screen has narrower lines


def paragraph(verdict: dict[str, Any], width: int = WIDTH) -> str:
    """The text for the screen, in lines of at most `width` letters."""
    low, high = verdict["interval"]
    universal = verdict["comparison"]["kind"] == "every"
    span = f"all values from {low:.4g} to {high:.4g}" if universal else (
        f"{verdict['level']:.4g} interval {low:.4g} to {high:.4g}, {verdict['method']}"
    )  # fmt: skip
    effect = "decisive value" if universal else describe_effect(verdict["comparison"])
    seeds = f"{verdict['n_seeds']} seeds" + (" a setting" if verdict["settings"] else "")
    lines = [
        f"{title(verdict, upper=True)}: {verdict['sentence']}",
        f"{verdict['measure']}: {effect} {verdict['effect']:.4g} ({span}, {seeds}); "
        f"asked: {describe_question(verdict['comparison'])}."
        + (f" {verdict['note'][0].upper()}{verdict['note'][1:]}." if verdict["note"] else "")
        + (f" {verdict['means']}" if verdict["means"] else ""),
    ]
    if verdict["as_expected"] is False:
        lines.append(
            f"UNEXPECTED: mathematics says {verdict['expected']}; look for an error before you believe this."
        )
    lines.append(f"source: {verdict['source']}")
    return "\n".join(textwrap.fill(line, width, subsequent_indent="    ") for line in lines)


def title(verdict: dict[str, Any], *, upper: bool = False) -> str:
    """The id and the word with its scope. It says so if the claim tunes learning rates but this verdict did not."""
    untuned = " (untuned)" if verdict.get("untuned") else ""
    return f"{verdict['id']}{untuned}{'  ' if upper else ': '}{with_scope(verdict, upper=upper)}"


def with_scope(verdict: dict[str, Any], *, upper: bool = False) -> str:
    """The word with its scope: "supported in 7 of 8 settings (digits, MNIST; MLP, CNN)"."""
    word = verdict["verdict"].upper() if upper else verdict["verdict"]
    scope = verdict.get("scope", "")
    if not scope:
        return word
    if scope == ONE_SETTING:
        return f"{word} ({scope})"
    says_more = verdict["verdict"].startswith(("depends", "varies")) or scope.startswith("supported")
    return f"{word}: {scope}" if says_more else f"{word} {scope}"


def describe_effect(comparison: dict[str, Any]) -> str:
    """What the number of a verdict means, for its line on the screen."""
    against = comparison.get("baseline") or (f"{comparison['target']:g}" if "target" in comparison else None)
    what = f"{comparison['arm']} minus {against}" if against else comparison["arm"]
    if comparison["kind"] in ("increasing", "decreasing", "flat"):
        what = ("Kendall's tau of " if comparison.get("by") == "rank" else "slope of ") + what
        what += f" over {comparison['over']}" if "over" in comparison else ""
    return f"{what}{' (logarithms)' if comparison.get('log') else ''} ="


def describe_question(comparison: dict[str, Any]) -> str:
    """The comparison and its threshold, as fixed in the yaml."""
    kind, margin = comparison["kind"], comparison.get("margin", 0.0)
    if kind == "every":
        bounds = {"at_most": "at most", "at_least": "at least", "equals": "equal to"}
        parts = [f"{text} {_bound(comparison[key])}" for key, text in bounds.items() if key in comparison]
        within = f" within {comparison['tolerance']:g}" if "tolerance" in comparison else ""
        return f"every value {' and '.join(parts)}{within}"
    if kind in ("equivalent", "flat"):
        if kind == "flat" and "target" in comparison:
            return f"a slope of {comparison['target']:g} within {margin:g}"
        return f"{'no slope' if kind == 'flat' else 'no difference'} beyond {margin:g}"
    return f"{kind} by more than {margin:g}"


def _bound(bound: Any) -> str:
    if isinstance(bound, dict):
        return "; ".join(f"{arm}: {_bound(value)}" for arm, value in bound.items())
    return "[" + ", ".join(f"{value:g}" for value in bound) + "]" if isinstance(bound, list) else f"{bound:g}"


def section(verdict: dict[str, Any]) -> str:
    """A section of a report in Markdown, to stand beside `figure.png`."""
    return (
        f"## {title(verdict)}\n\n> {verdict['sentence']}\n\n{verdict['source']}\n\n"
        f"```\n{paragraph(verdict)}\n```\n\n![{verdict['id']}](figure.png)\n\n`{verdict['command']}`\n"
    )
