"""Checks of arguments. Each fails with one line: argument, value, remedy."""

from collections.abc import Collection

MOST_LAYERS = 20_000


def require_at_least(argument: str, value: float | None, least: float) -> None:
    """Raise a ValueError that names the argument if its value is below `least`. None is allowed."""
    if value is not None and not value >= least:
        raise ValueError(f"{argument}={value}: too small; use {least} or more")


def require_depth(depth: int) -> None:
    """Raise a ValueError unless a number of layers is at least 1 and small enough to be built within minutes."""
    require_at_least("depth", depth, 1)
    if depth > MOST_LAYERS:
        raise ValueError(f"depth={depth}: would take minutes to build; choose at most {MOST_LAYERS}")


def require_choice(argument: str, value: str, choices: Collection[str]) -> None:
    """Raise a ValueError that names the choices if the value is none of them."""
    if value not in choices:
        raise ValueError(f"{argument}={value}: unknown; use one of {', '.join(choices)}")
