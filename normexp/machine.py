"""Where a run is computed: the cores that it may use, and what it notes of the processor and the commit of the code."""

import os
import platform
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any

CPU_INFO, CPU_TIMES = Path("/proc/cpuinfo"), Path("/proc/stat")
SAMPLE_SECONDS = 0.05  # seconds; the system counts in hundredths
ROOT = Path(__file__).parents[1]
GIT_TIMEOUT = 10  # seconds: a network drive may be slow; a run waits no longer for this note


def cores() -> int:
    """Number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def busy_elsewhere() -> float:
    """How many of the cores that this process may use others keep busy now; 0 where the system does not tell."""
    before = _busy_seconds()
    time.sleep(SAMPLE_SECONDS)
    return (_busy_seconds() - before) / SAMPLE_SECONDS


def _busy_seconds() -> float:
    """Seconds that these cores have worked, or had to leave to another machine, since the system started."""
    try:
        lines = CPU_TIMES.read_text().splitlines()
        allowed, second = {f"cpu{number}" for number in os.sched_getaffinity(0)}, os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):  # Linux alone has both
        return 0.0
    columns = (line.split()[1:9] for line in lines if line.split()[0] in allowed)
    # user, nice, system, idle, waiting for a disk, interrupts of two kinds, stolen
    ticks = sum(sum(map(int, column)) - int(column[3]) - int(column[4]) for column in columns)
    return ticks / second


def processor() -> str:
    """The name of this machine's processor, with family and model where the system tells them."""
    try:
        lines = CPU_INFO.read_text().split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    node = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    numbers = [f"{key} {node[key]}" for key in ("cpu family", "model", "stepping") if key in node]
    return f"{node.get('model name', platform.machine())} ({', '.join(numbers)})"


def checkout() -> dict[str, Any] | None:
    """`{"commit": <40 digits>, "dirty": bool}` of the git repository in which the process works; of this project's
    checkout if it works in none. None if there is neither, or if git does not answer.

    A checkout is dirty if a Python or YAML file was changed, added or deleted since the commit.
    """
    here = Path.cwd()
    root = next((folder for folder in (here, *here.parents, ROOT) if (folder / ".git").exists()), None)
    return _checkout(root) if root else None


@cache  # the process loaded its code when it started
def _checkout(root: Path) -> dict[str, Any] | None:
    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "--no-optional-locks", *arguments], cwd=root, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=GIT_TIMEOUT, check=True,
        ).stdout  # fmt: skip

    try:
        commit = git("rev-parse", "--verify", "HEAD").strip()
        return {"commit": commit, "dirty": bool(git("status", "--porcelain", "--", "*.py", "*.yaml"))}
    except (OSError, subprocess.SubprocessError):
        return None
