"""How bad input is refused: by a ValueError of one line."""

import contextlib
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def refused(message: str) -> Iterator[pytest.ExceptionInfo[ValueError]]:
    """What is done inside is refused in one line in which this regular expression is found."""
    with pytest.raises(ValueError, match=message) as caught:
        yield caught
    assert "\n" not in str(caught.value)
