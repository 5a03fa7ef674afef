"""The commit of the checkout that the code lies in."""

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

SECONDS = 10  # a checkout on a network drive may take a while; a run does not wait longer for a note


@cache  # the code that this process computes with was loaded when it started
def checkout(root: Path = Path(__file__).parents[3]) -> dict[str, Any] | None:
    """`{"commit": <40 digits>, "dirty": bool}`; None where the code was installed, or where git does not answer.

    Dirty is a checkout with a Python or YAML file that is not as the commit has it, be it changed, new or deleted.
    """
    if not (root / ".git").exists():  # another repository around an installed package says nothing about it
        return None
    options = ["--porcelain=v2", "--branch", "--no-renames", "--untracked-files=normal"]
    # In a hook of some repository these variables name that repository.
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
