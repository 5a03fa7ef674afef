"""How much of the machine this process may use."""

import os


def cores() -> int:
    """CPU cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
