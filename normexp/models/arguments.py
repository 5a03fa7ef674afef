"""Checks of what a user may set, each failing with one line: argument, value, remedy."""

from collections.abc import Sequence


def require_at_least(argument: str, value: float, minimum: float) -> None:
    """Raise a ValueError that names the argument where its value is below `minimum`."""
    if value < minimum:
        raise ValueError(f"{argument}={value}: must be at least {minimum}")


def require_choice(argument: str, value: str, choices: Sequence[str]) -> None:
    """Raise a ValueError that names the choices where the value is none of them."""
    if value not in choices:
        raise ValueError(f"{argument}={value}: unknown; choose one of {', '.join(choices)}")
