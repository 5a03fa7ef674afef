"""Denormal numbers: those below 1.2e-38 in float32, with which a CPU computes many times more slowly. The gradients of
a network without norms that has learned are full of them."""

import contextlib
import ctypes
from collections.abc import Iterator

import torch

PAUSE = 1  # omp_pause_soft: end the threads, keep the settings


@contextlib.contextmanager
def denormals(*, flush: bool) -> Iterator[None]:
    """Inside this context the CPU takes denormal numbers for zero, or not. Afterwards it does what it did before.

    That is a setting of each thread. A new thread has that of the thread that starts it. torch computes the backward
    pass on a CPU in the calling thread, and spreads work over threads that wait for more. So these are ended, and start
    anew when they are needed.
    """
    before = flushed()
    _set(flush)
    try:
        yield
    finally:
        _set(before)


def flushed() -> bool:
    """Whether this thread takes denormal numbers for zero."""
    return bool((torch.full((1,), 1e-40) * 1.0 == 0).item())


def _set(flush: bool) -> None:
    if flushed() == flush:
        return
    torch.set_flush_denormal(flush)
    pause = getattr(ctypes.CDLL(torch._C.__file__), "omp_pause_resource_all", None)
    if pause is not None:  # OpenMP 5.0; not on Windows
        pause(PAUSE)
