"""Hostile files: pickles that leave a mark when they are loaded, and yamls that grow."""

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


def doubling_yaml(lines: int) -> str:
    """Each line holds the one before twice, by an alias."""
    rows = [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, lines)]
    return "\n".join(["a0: &a0 [x, x]", *rows]) + "\n"


def doubling_references(lines: int) -> str:
    """Each line holds the one before twice, by `${...}`."""
    rows = [f"b{i}: ${{b{i - 1}}}${{b{i - 1}}}" for i in range(1, lines)]
    return "\n".join(["b0: xx", *rows]) + "\n"
