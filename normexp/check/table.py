"""The table `[tool.normexp.check]` of a project's pyproject.toml. Imports nothing heavy."""

import tomllib
from pathlib import Path
from typing import Any

from normexp.config.options import suggest

TABLE = ("select", "ignore", "baseline", "precision", "accumulate", "devices", "steps", "samples", "seed")
OF_COMMAND = (*TABLE, "format", "strict")  # a test always fails, and has no format


def table(folder: Path) -> dict[str, Any]:
    """The table of the nearest pyproject.toml in a folder or above it; empty if there is none. A baseline's path is
    read from where the file lies. What names code to import stands on the command line alone, so no key does here.

    Raises ValueError with one line for a key that may not stand there, or a file that is no TOML.
    """
    found = (parent / "pyproject.toml" for parent in (folder.resolve(), *folder.resolve().parents))
    if (path := next((file for file in found if file.is_file()), None)) is None:
        return {}
    try:
        rows: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    for name in ("tool", "normexp", "check"):
        rows = rows.get(name, {})
        if not isinstance(rows, dict):
            raise ValueError(f"{path}: {name}={rows}: must be a table, [tool.normexp.check]")
    rows = {key.replace("-", "_"): value for key, value in rows.items()}
    for key in rows:
        if key not in OF_COMMAND:
            raise ValueError(
                f"{path}: tool.normexp.check.{key}: no such key; {suggest(key, list(OF_COMMAND))}"
            )
    for key in ("select", "ignore"):
        if key in rows and not (isinstance(rows[key], list) and all(isinstance(id, str) for id in rows[key])):
            raise ValueError(f"{path}: tool.normexp.check.{key}={rows[key]}: must be a list of ids")
    if not isinstance(rows.get("baseline", ""), str):
        raise ValueError(
            f"{path}: tool.normexp.check.baseline={rows['baseline']}: must be the path of a file"
        )
    return rows | ({"baseline": str(path.parent / rows["baseline"])} if "baseline" in rows else {})
