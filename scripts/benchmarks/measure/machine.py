"""The machine and the versions of a measurement, for every row of a benchmark's JSON."""

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path


def cpu_model() -> str:
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text().splitlines() if listing.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def memory_gib() -> float | None:
    """Memory of the machine; None if the system does not say."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def machine() -> dict[str, str | int | float | None]:
    """Processor, cores, memory, versions. Threads and GPU come from torch, if this process has imported it."""
    torch = sys.modules.get("torch")
    on_gpu = torch is not None and torch.cuda.is_available()
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": memory_gib(),
        "gpu": torch.cuda.get_device_name() if on_gpu else None,
        "threads": torch.get_num_threads() if torch is not None else None,
        "python": platform.python_version(),
        "torch": version("torch"),
        "lightning": version("pytorch-lightning"),
    }
