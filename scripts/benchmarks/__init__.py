"""What `python scripts/benchmark.py` measures: `table.py` lists it, the other files hold how."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# (measured, its reference) of each round, in the unit of the measurement, and what else a row says.
Pair = tuple[float, float]
Measured = tuple[list[Pair], dict[str, Any]]


@dataclass(frozen=True)
class Options:
    """How long a case is measured, and on what.

    Args:
        seconds: rounds start until so much time is over, but at least `least` of them.
        quick: a trial of the code on tiny sizes; its numbers mean nothing.
        root: overrides that say where data lies, such as `data.root=/data`.
    """

    seconds: float
    least: int = 3
    quick: bool = False
    root: tuple[str, ...] = ()

    @property
    def data(self) -> list[str]:
        """MNIST, or the digits inside scikit-learn for a trial."""
        return ["data=digits"] if self.quick else ["data=mnist", *self.root]

    def rounds(self) -> Iterator[int]:
        """The numbers of the rounds, while there is time."""
        deadline, number = time.monotonic() + self.seconds, 0
        while number < self.least or time.monotonic() < deadline:
            yield number
            number += 1
