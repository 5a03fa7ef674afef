"""Git repositories that tests make."""

import shutil
import subprocess
from pathlib import Path

import pytest


def git(folder: Path, *arguments: str) -> str:
    """What git prints, as an author that needs no configuration. Without git the test is skipped."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    config = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *config, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout
