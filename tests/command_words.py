"""What a command's function gets for the words of a command line."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from normexp.cli.words import call


def options_of(command: Callable, words: list[str]) -> dict[str, Any]:
    """Each argument of a command, with its default where the words do not set it; `others` are words without a key."""
    seen = {key: own.default for key, own in inspect.signature(command).parameters.items()}

    @functools.wraps(command)
    def spy(*others, **given):
        seen.update(given, others=others)

    call("spy", spy, words)
    return seen
