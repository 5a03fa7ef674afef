"""Whether a value of a claim's yaml is of the form that its key needs."""

import math
from collections.abc import Callable
from typing import Any


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


def is_looks(x: Any) -> bool:
    """Whether x is a number of seeds, or several growing numbers."""
    looks = x if isinstance(x, list) else [x]
    return bool(looks) and all(map(is_whole, looks)) and looks == sorted(set(looks))


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
    """Whether x is a list of cells' names and of names with overrides."""
    return isinstance(x, list) and bool(x) and all(is_text(item) or is_named(item, is_texts) for item in x)


def is_contrast(x: Any) -> bool:
    """Whether x describes a contrast: groups of settings, each judged separately."""
    return is_keyed(
        x,
        {
            "varies": is_text,
            "groups": lambda g: is_named(g, is_settings),
            "first_seed": is_whole,
            "seeds": is_whole,
        },
    )


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
