"""A claim's missing runs trained side by side where that is faster: those of all arms of a comparison, or none."""

import contextlib
import io
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from normexp.parts import Parts
from normexp.sweeps.beside import beside
from normexp.sweeps.grouping import MOST
from normexp.training.launch_replicas import launch_all


class Wanted(NamedTuple):
    """One run of a claim."""

    arm: str
    level: Any
    seed: int
    lr: float | None


def train_side_by_side(
    arms: Sequence[Sequence[Wanted]], build: Callable[[Wanted, Any], Parts], report: Callable[[str], None]
) -> list[Parts]:
    """Train each arm's runs side by side, if all arms have the same seeds to go and each is faster that way; returns
    what was trained. Otherwise that is nothing, so that no pair mixes two ways of computing.

    Args:
        arms: the missing runs of each arm.
        build: parts of one run, given the data of another one of its arm or None.
    """
    seeds = [[run.seed for run in arm] for arm in arms]
    if not seeds or len(seeds[0]) < 2 or any(own != seeds[0] for own in seeds):
        return []
    first = [build(arm[0], None) for arm in arms]
    for parts in first:
        found = beside(parts)
        if found.why_not is not None or len(seeds[0]) < min(found.speedups):
            return []
    trained = []
    for arm, parts in zip(arms, first, strict=True):
        every = [parts, *(build(run, parts.data) for run in arm[1:])]
        for start in range(0, len(every), MOST):
            some = every[start : start + MOST]
            report(f"{arm[0].arm} {arm[0].level} {len(some)} runs side by side")
            with contextlib.redirect_stdout(io.StringIO()):
                launch_all(some, [{} for _ in some])
        trained += every
    return trained
