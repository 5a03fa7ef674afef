"""Hostile files: pickles that leave a mark when they are loaded."""

import pickle
from pathlib import Path


class Trap:
    """A pickle of this touches a file when it is loaded."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def write_trap(path: Path, mark: Path) -> Path:
    path.write_bytes(pickle.dumps(Trap(mark)))
    return path
