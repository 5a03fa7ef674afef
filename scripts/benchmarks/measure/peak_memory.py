"""The peak memory of a piece of work, above the memory at its beginning."""

import contextlib
import ctypes
import platform
from pathlib import Path

import torch


class PeakMemory:
    """MiB on a GPU, or of this process under Linux; nan elsewhere."""

    def __init__(self, device: str):
        self.on_gpu = device == "cuda"
        if self.on_gpu:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        elif platform.system() == "Linux":
            give_back()  # freed memory that the process keeps would hide a new peak
            with contextlib.suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
        self.before = torch.cuda.memory_allocated() / 2**20 if self.on_gpu else resident("VmRSS")

    def rise(self) -> float:
        peak = torch.cuda.max_memory_allocated() / 2**20 if self.on_gpu else resident("VmHWM")
        return peak - self.before


def give_back() -> None:
    """Return freed memory to the system, if the C library can."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def resident(field: str) -> float:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 2**10 for line in lines if line.startswith(field)), float("nan"))
