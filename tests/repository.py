"""Git repositories that tests make."""

import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    """What git prints, as an author that needs no configuration."""
    config = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *config, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout
