"""The form of the values in a claim's yaml, and the words of the messages about them."""

import math
from collections.abc import Callable
from typing import Any

Check = tuple[Callable[[Any], bool], str]  # (whether a value fits, what it must be)


def is_text(x: Any) -> bool:
    """Whether x is a text that is not empty."""
    return isinstance(x, str) and bool(x.strip())


def is_texts(x: Any) -> bool:
    """Whether x is a list of texts that are not empty."""
    return isinstance(x, list) and all(is_text(item) for item in x)


def is_whole(x: Any) -> bool:
    """Whether x is a whole number, and not True or False."""
    return isinstance(x, int) and not isinstance(x, bool)


def is_number(x: Any) -> bool:
    """Whether x is a finite number, and not True or False."""
    return isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)


def is_named(x: Any, fits: Callable[[Any], bool]) -> bool:
    """Whether x maps names to fitting values."""
    return isinstance(x, dict) and all(is_text(name) and fits(value) for name, value in x.items())


def is_bound(x: Any) -> bool:
    """Whether x is a number, or a list of numbers along the factor."""
    return is_number(x) or (isinstance(x, list) and bool(x) and all(map(is_number, x)))


def is_tuning(x: Any) -> bool:
    """Whether x has learning rates and a number of seeds for tuning."""
    if not isinstance(x, dict) or set(x) != {"lr", "seeds"}:
        return False
    rates, seeds = x["lr"], x["seeds"]
    return isinstance(rates, list) and bool(rates) and all(is_number(lr) and lr > 0 for lr in rates) and (
        is_whole(seeds) and seeds > 0
    )  # fmt: skip


def is_settings(x: Any) -> bool:
    """Whether x is a list of cells' names and of names with overrides, a mapping of names to overrides, or a mapping of
    labels to their values."""
    if isinstance(x, dict):
        named = is_named(x, is_texts) or is_named(x, lambda one: is_text(one) or is_texts(one))
        return is_sample(x) or (bool(x) and named)
    return isinstance(x, list) and bool(x) and all(is_text(item) or is_named(item, is_texts) for item in x)


def is_sample(x: Any) -> bool:
    """Whether x asks for the first settings of a drawn bank."""
    more = {"at": lambda at: at in ("final", "early"), "where": lambda w: isinstance(w, dict)}
    return is_keyed(x, {"bank": is_text, "first": lambda n: is_whole(n) and n > 0}, more)


def is_search(x: Any) -> bool:
    """Whether x has a budget, and a space that is not empty."""

    def is_space(values: Any) -> bool:
        between = is_keyed(
            values, {"low": is_number, "high": is_number}, {"log": lambda log: isinstance(log, bool)}
        )
        return between or (isinstance(values, list) and bool(values))

    parts = {"choose": lambda c: is_named(c, is_space), "weights": lambda w: isinstance(w, bool)}
    return is_keyed(x, {"cases": lambda n: is_whole(n) and n >= 5}, parts) and len(x) > 1


def is_keyed(
    x: Any, needed: dict[str, Callable[[Any], bool]], optional: dict[str, Callable] | None = None
) -> bool:
    """Whether x is a mapping with all needed keys and no others but optional ones, each with a fitting value."""
    known = needed | (optional or {})
    return (
        isinstance(x, dict)
        and needed.keys() <= x.keys() <= known.keys()
        and all(known[k](v) for k, v in x.items())
    )


def shorten(value: Any) -> str:
    """A value on one line, of at most 60 characters."""
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def check_values(node: dict[str, Any], checks: dict[str, Check], path: str, inside: str = "") -> None:
    """Raise ValueError with one line for the first unknown key, or the first value that does not fit."""
    for key, value in node.items():
        if key not in checks:
            raise ValueError(f"{path}: {inside}{key}: no such key; the keys are {', '.join(checks)}")
        fits, wanted = checks[key]
        if not fits(value):
            raise ValueError(f"{path}: {inside}{key}={shorten(value)}: must be {wanted}")


def unset_or(check: Check) -> Check:
    """The same check, with None allowed."""
    return lambda x: x is None or check[0](x), check[1]


NUMBER = "a number such as 0.01 or 1.0e-3 (1e-3 without the point is text in yaml)"
TEXT: Check = (is_text, "text; quote it if it looks like a number, a list or yes and no")
BOUND: Check = (
    lambda x: x is None or is_bound(x) or is_named(x, is_bound),
    f"{NUMBER}, a list of them along the factor, or one of these for each arm",
)
SWITCH: Check = (lambda x: isinstance(x, bool), "true or false")
NOT_NEGATIVE: Check = (lambda x: is_number(x) and x >= 0, f"{NUMBER}, 0 or above")

COMPARISON: dict[str, Check] = {
    "kind": TEXT,
    "arm": unset_or(TEXT),
    "baseline": unset_or(TEXT),
    "target": unset_or((is_number, NUMBER)),
    "at": (lambda x: not isinstance(x, list | dict), "one level of the factor"),
    # Below 0 if a claimed advantage may be a small loss.
    "margin": (lambda x: is_number(x) or x == "practical", f"{NUMBER}, or practical"),
    "log": SWITCH,
    "log2_factor": SWITCH,
    "over": unset_or(TEXT),
    "at_most": BOUND,
    "at_least": BOUND,
    "equals": BOUND,
    "tolerance": NOT_NEGATIVE,
}
KINDS = ("verbatim", "paraphrase", "ours", "arithmetic", "self-check")  # whose sentence it is
RATES = ("own", "lowest", "middle", "highest")  # the learning rate of a run, from its setting's grid
OVERRIDES: Check = (is_texts, "a list of overrides such as [model=mlp, lr=0.1]")
CLAIM: dict[str, Check] = {
    "name": TEXT,
    "sentence": TEXT,
    "source": TEXT,
    "covers": (is_texts, "a list of ids such as [S37, P03]"),
    "evidence": TEXT,
    "measure": TEXT,
    "function": unset_or(TEXT),
    "metric": unset_or(
        (lambda x: is_text(x) or is_named(x, is_text), "a metric such as test/accuracy, or one for each arm")
    ),
    "arms": (
        lambda x: is_named(x, lambda arm: is_texts(arm) or isinstance(arm, dict)),
        "names with overrides such as {rms: [norm=rmsnorm], none: [norm=none]}",
    ),
    "fixed": OVERRIDES,
    "options": (lambda x: is_named(x, lambda _: True), "names with values such as {batch_size: 64}"),
    "factor": (
        lambda x: is_named(x, lambda levels: isinstance(levels, list) and bool(levels)),
        "a name with its values such as {batch_size: [2, 8, 32]}",
    ),
    "seeds": (is_whole, "a whole number such as 10"),
    "first_seed": (is_whole, "a whole number such as 100"),
    "better": (lambda x: x in (None, "lower", "higher"), "lower or higher"),
    "replicas": SWITCH,
    "universal": SWITCH,
    "tune": unset_or((is_tuning, "rates above 0 and how many seeds, such as {lr: [0.1, 0.3], seeds: 2}")),
    "expected": unset_or(TEXT),
    "seconds": (lambda x: is_number(x) and x > 0, f"{NUMBER}, above 0"),
    "reason": TEXT,
    "note": TEXT,
    "does_not_show": TEXT,
    "kind": (lambda x: x in KINDS, ", ".join(KINDS[:-1]) + f" or {KINDS[-1]}"),
    "settings": unset_or(
        (
            is_settings,
            "names of cells, labels such as {data: MNIST}, or own ones such as {a: [model=mlp, data=digits]}",
        )
    ),
    "rate": (lambda x: x in RATES, ", ".join(RATES[:-1]) + f" or {RATES[-1]}"),
    "paper_effect": (
        lambda x: is_keyed(x, {"value": is_text, "where": is_text, "size": is_text}, {"effect": is_number}),
        "like {value: 10.6 points, where: table 2, size: 'ResNet-50, 1.28M images', effect: 0.4}",
    ),
    "search": (
        is_search,
        "like {cases: 400, weights: true, choose: {model.activation: [relu, tanh], mean: {low: 0, high: 9}}}",
    ),
    "manipulation": unset_or(
        (
            lambda x: is_keyed(
                x,
                {"measure": is_text, "comparison": lambda c: isinstance(c, dict)},
                {"metric": is_text, "function": is_text},
            ),
            "like {metric: logged/shift/*, measure: in words, comparison: {kind: smaller, arm: a, baseline: b}}",
        )
    ),
    "comparison": (
        lambda x: all(isinstance(item, dict) for item in (x if isinstance(x, list) else [x])),
        "like {kind: greater, arm: a, baseline: b, margin: 0.01}, or a list of such",
    ),
}
