"""A file of numbers mapped into memory. Memory holds only the parts in use, once for all processes."""

import mmap
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch import Tensor

LARGE = 2**30  # bytes; a larger file may not fit into memory


class MappedFile:
    """An array on disk.

    Attributes:
        tensor: the whole array; do not write to it.
        large: whether to ask for rows ahead of time. The system would otherwise read on after each row, and push
            needed rows out of memory.
    """

    def __init__(self, path: Path, shape: Sequence[int], dtype: DTypeLike = np.uint8) -> None:
        with open(path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.large = len(self._map) > LARGE
        self._advises = self.large and hasattr(mmap, "MADV_WILLNEED")
        if self._advises:
            self._map.madvise(mmap.MADV_RANDOM)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            self.tensor: Tensor = torch.from_numpy(np.frombuffer(self._map, dtype).reshape(tuple(shape)))
        self._row = len(self._map) // shape[0]

    def ask_for(self, rows: Iterable[int]) -> None:
        """Ask the system to read rows from disk; do not wait."""
        if not self._advises:
            return
        for row in rows:
            start = row * self._row
            page = start - start % mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, page, start + self._row - page)
