"""The cores and the memory that this process may use."""

import contextlib
import os
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CPU_INFO = Path("/proc/cpuinfo")
BFLOAT16 = r"\b(amx_bf16|avx512_bf16|bf16)\b"  # as Linux names the instructions of Intel and AMD, and of ARM


def cores() -> int:
    """Number of CPU cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int:
    """Bytes of main memory of the machine, or of the container if it has less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else []
    with contextlib.suppress(OSError, ValueError):  # "max" means no limit
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(limits, default=2**63)


def peak_memory() -> int:
    """Bytes of main memory that this process held at its peak; 0 where the system does not tell (Windows)."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def own_memory() -> int:
    """Bytes of main memory that this process holds now without the files that it maps, which processes share. Where
    the system does not tell (macOS, Windows), its peak."""
    status = Path("/proc/self/status")
    found = re.search(r"RssAnon:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return 1024 * int(found[1]) if found else peak_memory()


def precision_here(trainer: Mapping[str, Any]) -> str:
    """The precision of a trainer's options, and what this machine's processor makes of it:
    `bf16-mixed by avx512_bf16`, or that it will be slow. A GPU, and a system that does not tell, leave it as it is."""
    precision = str(trainer.get("precision", "32-true"))
    if not precision.startswith("bf16") or not CPU_INFO.exists():
        return precision
    if trainer.get("accelerator") != "cpu":
        import torch  # takes seconds

        if torch.cuda.is_available():
            return precision
    if found := re.search(BFLOAT16, CPU_INFO.read_text()):
        return f"{precision} by {found[1]}"
    return f"{precision} (slow: this processor has no bfloat16 instructions; trainer=cpu is float32)"


def processor() -> str:
    """The name of this machine's processor, with family and model where the system tells them."""
    try:
        lines = CPU_INFO.read_text().split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    node = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    numbers = [f"{key} {node[key]}" for key in ("cpu family", "model", "stepping") if key in node]
    return f"{node.get('model name', platform.machine())} ({', '.join(numbers)})"


def in_bytes(count: int) -> str:
    """A number of bytes for people: `1.2 GB`."""
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.0f} PB"
