"""`os.fsync` without the disk. It takes 5 ms, and a run calls it twenty times. No test loses its power, and those that
ask what reaches the disk watch the calls."""

import os


def leave_to_the_kernel() -> None:
    """From now on, in this process: `os.fsync` checks its file and returns."""
    os.fsync = _checked


def _checked(file: int) -> None:
    os.fstat(file)
