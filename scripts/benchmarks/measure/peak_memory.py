"""How much memory a stretch of work takes at its peak, beyond what was there when it began."""

import contextlib
import ctypes
import platform
from pathlib import Path

import torch


class PeakMemory:
    """MiB on a GPU, or of this process under Linux; elsewhere nan."""

    def __init__(self, device: str):
        self.on_gpu = device == "cuda"
        if self.on_gpu:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        elif platform.system() == "Linux":
            give_back()  # freed memory that the process has kept would hide what comes
            with contextlib.suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts over
        self.before = torch.cuda.memory_allocated() / 2**20 if self.on_gpu else resident("VmRSS")

    def rise(self) -> float:
        peak = torch.cuda.max_memory_allocated() / 2**20 if self.on_gpu else resident("VmHWM")
        return peak - self.before


def give_back() -> None:
    """Return freed memory that the process has kept to the system, where the C library offers that."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def resident(field: str) -> float:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 2**10 for line in lines if line.startswith(field)), float("nan"))
