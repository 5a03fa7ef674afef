"""The git commit from which a run is launched, and whether files were changed since."""

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 10  # for git: a network drive may be slow; a run waits no longer for this note


def checkout(folder: Path | None = None) -> dict[str, Any] | None:
    """`{"commit": <40 digits>, "dirty": bool}` of the git repository in which a process works; of this project's
    checkout if it works in none. None if there is neither, or if git does not answer.

    A checkout is dirty if a Python or YAML file was changed, added or deleted since the commit.
    """
    here = Path.cwd() if folder is None else folder
    return _checkout(next((place for place in (here, *here.parents) if (place / ".git").exists()), ROOT))


@cache  # the process loaded its code when it started
def _checkout(root: Path) -> dict[str, Any] | None:
    if not (root / ".git").exists():
        return None
    options = ["--porcelain=v2", "--branch", "--no-renames", "--untracked-files=normal"]
    # Inside a git hook, these variables point to the hook's repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        found = subprocess.run(
            ["git", "status", *options, "--", "*.py", "*.yaml"],
            cwd=root, env={**environment, "GIT_OPTIONAL_LOCKS": "0"}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=SECONDS, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    lines = found.stdout.splitlines()
    commits = [line.split()[-1] for line in lines if line.startswith("# branch.oid ")]
    changes = [line for line in lines if not line.startswith("# ")]
    return {"commit": commits[0], "dirty": bool(changes)} if commits and commits[0] != "(initial)" else None
