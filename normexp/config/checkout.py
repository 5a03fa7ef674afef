"""The git commit from which a run is launched, and whether files were changed since."""

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
    root = next((place for place in (here, *here.parents, ROOT) if (place / ".git").exists()), None)
    return _checkout(root) if root else None


@cache  # the process loaded its code when it started
def _checkout(root: Path) -> dict[str, Any] | None:
    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "--no-optional-locks", *words], cwd=root, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=SECONDS, check=True,
        ).stdout  # fmt: skip

    try:
        commit = git("rev-parse", "--verify", "HEAD").strip()
        return {"commit": commit, "dirty": bool(git("status", "--porcelain", "--", "*.py", "*.yaml"))}
    except (OSError, subprocess.SubprocessError):
        return None
