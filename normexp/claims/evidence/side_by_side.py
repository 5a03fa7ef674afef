"""Whether a claim's runs are trained side by side, and doing so."""

import contextlib
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from normexp.build import build
from normexp.config.run_parts import Parts
from normexp.sweeps.beside import beside
from normexp.sweeps.grouping import MOST
from normexp.training.replicas.launch_replicas import launch_replicas


class Wanted(NamedTuple):
    """One run of a claim."""

    arm: str
    level: Any
    seed: int
    lr: float | None


def pays(every_arm: Iterable[Parts], seeds: int) -> bool:
    """Whether so many seeds of each arm are trained faster side by side, without exception: a function of the claim
    alone and not of what is in the cache, so that no comparison mixes two ways of computing."""
    found = (beside(parts) for parts in every_arm)
    return all(one.why_not is None and min(one.speedups, default=seeds + 1) <= seeds for one in found)


def train_side_by_side(
    runs: Sequence[Wanted],
    config_of: Callable[[Wanted], tuple[Any, dict[str, str]]],
    files_of: Callable[[Wanted], dict[str, str]],
    report: Callable[[str], None],
    command: str,
) -> list[Parts]:
    """Train the missing runs of one arm, a single one as its neighbours were.

    Args:
        config_of: configuration and choices of a run.
        files_of: what its folder says about how it was composed.
        command: the command line that asks for the runs.
    """
    trained = []
    for start in range(0, len(runs), MOST):
        some = runs[start : start + MOST]
        report(" ".join(f"{some[0].arm} {some[0].level}".split()) + f" {len(some)} runs side by side")
        parts: list[Parts] = []
        for run in some:
            loaded = [other.data for other in parts]
            parts.append(build(*config_of(run), files=files_of(run), command=command, loaded=loaded))
        with contextlib.redirect_stdout(io.StringIO()):
            launch_replicas(parts)
        trained += parts
    return trained
