"""pytest's fixture `normexp_check`, which every project has where normexp is installed. Imports nothing heavy."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from normexp.check.table import TABLE, table

if TYPE_CHECKING:
    from normexp.check.result import Result


@pytest.fixture
def normexp_check(pytestconfig: pytest.Config) -> "Callable[..., Result]":
    """`normexp_check(module, loader, ...)` fails the test if the norms of a network have an error or a warning.

    It takes what `normexp.check` takes: `ignore=("small_batch", "eps@stem.*")`, `select=`, `baseline=`, `mask=`, ...
    What it is not told it takes from `[tool.normexp.check]` of pyproject.toml, as the command does. `allow=` is another
    word for `ignore=`. Returns the result.
    """

    def run(module: Any, loader: Any = None, *, allow: Sequence[str] = (), **options: Any) -> "Result":
        from normexp.check.rules import several
        from normexp.check.run import check

        given = {key: value for key, value in table(pytestconfig.rootpath).items() if key in TABLE}
        given |= options | (
            {"ignore": (*several(options.get("ignore", ())), *several(allow))} if allow else {}
        )
        result = check(module, loader, **given)
        bad = [f for f in result.findings if f.severity != "note"]
        if bad:
            ids = ", ".join(dict.fromkeys(f'"{f.id}"' for f in bad))
            known = f"To accept what is known: normexp_check(..., ignore=({ids},))"
            pytest.fail("\n".join([*(f.line() for f in bad), known]), pytrace=False)
        return result

    return run
