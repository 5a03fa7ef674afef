"""Find the folders of runs under a path, finished or not."""

import os
from pathlib import Path

from normexp.runs.summary import SUMMARY

IDENTITY = Path(".hydra") / "identity"


def find_runs(path: str | Path) -> tuple[list[Path], list[Path]]:
    """Folders of finished and of unfinished runs at or under `path`, sorted. Folders inside a run and hidden folders
    are not searched.

    Raises ValueError if `path` is no folder.
    """
    root = Path(path)
    if not root.is_dir():
        raise ValueError(f"path={root}: no such folder; runs go to outputs/<name>, check the name")
    finished, unfinished = [], []
    for folder, below, files in os.walk(root):
        if SUMMARY in files:
            finished.append(Path(folder))
            below.clear()
        elif (Path(folder) / IDENTITY).exists():
            unfinished.append(Path(folder))
            below.clear()
        else:
            below[:] = [name for name in below if not name.startswith(".")]
    return sorted(finished), sorted(unfinished)
