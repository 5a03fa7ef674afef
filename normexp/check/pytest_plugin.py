"""pytest's fixture `normexp_check`, which every project has where normexp is installed. Imports nothing heavy."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from normexp.check.result import Result


@pytest.fixture
def normexp_check() -> "Callable[..., Result]":
    """`normexp_check(module, loader, ...)` fails the test if the norms of a network have an error or a warning.

    It takes what `normexp.check` takes, and `allow=`, the ids of findings that are known. Returns the result.
    """

    def run(module: Any, loader: Any = None, *, allow: tuple[str, ...] = (), **options: Any) -> "Result":
        from normexp.check.run import check

        result = check(module, loader, **options)
        bad = [f for f in result.findings if f.severity != "note" and f.id not in allow]
        if bad:
            pytest.fail("\n".join(f.line() for f in bad), pytrace=False)
        return result

    return run
