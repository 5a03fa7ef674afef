"""The words of a verdict: its title, its counts, its comparison. `plain_words` says its effect."""

from typing import Any

from normexp.claims.judge.verdict import COUNTED, NOT_SEEN, SEEN, every_one_of


def counts(verdict: dict[str, Any]) -> list[str]:
    """The counts of each comparison over settings; of several, after the settings in which all of them hold."""
    drawn, each = verdict["drawn"], verdict["comparisons"]
    if len(each) == 1:
        return [_counts(each[0], drawn=drawn, alone=True)]
    share = f": share {verdict['share']:.2f}{ends(verdict['share_interval'])}" if drawn else ""
    named = [f"{named_effect(own['comparison'])}: {_counts(own, drawn=drawn, alone=False)}" for own in each]
    return [f"{every_one_of(len(each))} hold in {verdict['holds']} of {verdict['n']}{share}", *named]


def _counts(own: dict[str, Any], *, drawn: bool, alone: bool) -> str:
    """The counts of a comparison, its failures, and for drawn settings the median; `alone` with its share and with the
    median on the other scale."""
    parts = [f"beyond {own['beyond']}, within {own['within']}, opposite {own['opposite']} of {own['n']}"]
    if own["failed"]:
        parts.append(f"no number {own['failed']}")
    if drawn:
        if alone:
            parts.append(f"share {own['share']:.2f}{ends(own['share_interval'])}")
        beside = "as a difference" if own["comparison"].get("log") else "as a log ratio"
        for name, what in (("", "median"), ("points_", beside)):
            if own[f"{name}median"] is not None and (alone or not name):
                middle = " to ".join(map(number, own[f"{name}middle"]))
                median = f"{number(own[f'{name}median'])}{ends(own[f'{name}median_interval'])}"
                parts.append(f"{what} {median}, middle 80% {middle}")
    if failed := [f"{arm} {lost} of {own['runs'][arm]}" for arm, lost in own["failures"].items() if lost]:
        parts.append(f"failed runs: {', '.join(failed)}")
        parts.append(f"given that all trained it holds in {own['trained']['holds']} of {own['trained']['n']}")
    if late := [f"{arm} in {n}" for arm, n in own["unfitted"].items()]:
        parts.append(f"settings where an arm is not fitted: {', '.join(late)}")
    return "; ".join(parts)


def ends(interval: Any) -> str:
    """An interval behind its number."""
    return f" ({number(interval[0])} to {number(interval[1])})"


def number(value: Any) -> str:
    """A number with three digits; JSON has infinities as text."""
    return f"{float(value):.3g}"


def title(verdict: dict[str, Any], *, upper: bool = False) -> str:
    """The id and the word with its scope. It says so if the claim tunes learning rates but this verdict did not."""
    untuned = " (untuned)" if verdict.get("untuned") else ""
    return f"{verdict['id']}{untuned}{'  ' if upper else ': '}{with_scope(verdict, upper=upper)}"


def with_scope(verdict: dict[str, Any], *, upper: bool = False) -> str:
    """The word with its scope: "supported: beyond the margin in 20 of 24 drawn settings"; counts alone where they make
    no word; in one setting what was seen there."""
    word, scope = verdict["verdict"], verdict.get("scope", "")
    if word == COUNTED:
        return scope
    if word in (SEEN, NOT_SEEN):
        seen = f"{number(verdict['effect'])}{ends(verdict['interval'])}, {verdict['n_seeds']} seeds"
        scope = seen if word == SEEN else f"{seen}, asked was {describe_question(verdict['comparison'])}"
    says = word.upper() if upper else word
    if not scope:
        return says
    return f"{says}{' ' if scope.startswith(('in ', 'by ')) else ': '}{scope}"


def describe_effect(comparison: dict[str, Any]) -> str:
    """What the number of a verdict means, for its line on the screen."""
    against = comparison.get("baseline") or (f"{comparison['target']:g}" if "target" in comparison else None)
    what = f"{comparison['arm']} minus {against}" if against else comparison["arm"]
    if comparison["kind"] in ("increasing", "decreasing", "flat"):
        what = f"slope of {what}" + (f" over {comparison['over']}" if "over" in comparison else "")
    return f"{what}{' (logarithms)' if comparison.get('log') else ''} ="


def named_effect(comparison: dict[str, Any]) -> str:
    """A comparison beside others of its claim."""
    level = f" at {comparison['at']}" if "at" in comparison else ""
    return f"{describe_effect(comparison).removesuffix(' =')}{level}"


def describe_question(comparison: dict[str, Any]) -> str:
    """The comparison and its threshold, as fixed in the yaml."""
    kind, margin = comparison["kind"], comparison.get("margin", 0.0)
    if kind == "every":
        bounds = {"at_most": "at most", "at_least": "at least", "equals": "equal to"}
        parts = [f"{text} {_bound(comparison[key])}" for key, text in bounds.items() if key in comparison]
        within = f" within {comparison['tolerance']:g}" if "tolerance" in comparison else ""
        return f"every value {' and '.join(parts)}{within}"
    size = "what matters in practice" if margin == "practical" else f"{margin:g}"
    if kind in ("equivalent", "flat"):
        if kind == "flat" and "target" in comparison:
            return f"a slope of {comparison['target']:g} within {size}"
        return f"{'no slope' if kind == 'flat' else 'no difference'} beyond {size}"
    return f"{kind} by more than {size}"


def _bound(bound: Any) -> str:
    if isinstance(bound, dict):
        return "; ".join(f"{arm}: {_bound(value)}" for arm, value in bound.items())
    return "[" + ", ".join(f"{value:g}" for value in bound) + "]" if isinstance(bound, list) else f"{bound:g}"
