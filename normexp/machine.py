"""The cores and the memory that this process may use."""

import contextlib
import os
import platform
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")


def cores() -> int:
    """Number of CPU cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int:
    """Bytes of main memory of the machine, or of the container if it has less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else []
    with contextlib.suppress(OSError, ValueError):  # "max" means no limit
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(limits, default=2**63)


def processor() -> str:
    """The name of this machine's processor, with family and model where the system tells them."""
    try:
        lines = CPU_INFO.read_text().split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    node = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    numbers = [f"{key} {node[key]}" for key in ("cpu family", "model", "stepping") if key in node]
    return f"{node.get('model name', platform.machine())} ({', '.join(numbers)})"
