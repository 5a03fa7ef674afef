"""A claim that cannot run must not stop the others, so its error becomes a line."""

import traceback
from collections.abc import Callable
from typing import Any

from normexp.claims.spec.claim import Claim
from normexp.cli.errors import full_errors, one_line


def outcome(claim: Claim, verify: Callable[[Claim], dict[str, Any]]) -> dict[str, Any] | str:
    """The verdict of a claim, or one line that says why there is none."""
    try:
        return verify(claim)
    except Exception as error:
        return why(error)


def why(error: Exception) -> str:
    """An error in one line. Prints the traceback if the user asked for it."""
    if full_errors():
        traceback.print_exc()
    return one_line(error)
