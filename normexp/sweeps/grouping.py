"""Which runs of a sweep are trained side by side in one process: those that differ in seed and learning rate alone,
where all processes together are through sooner that way."""

import itertools
from collections.abc import Sequence

from normexp.sweeps.cell import Cell

MOST = 16  # runs in one process


def arrange(cells: Sequence[Cell], places: int) -> list[list[int]]:
    """The jobs of a sweep, each a list of indices into `cells` that are trained in one process.

    All runs of a kind are cut into equally many jobs, as many as end soonest on so many places. A sweep's runs are
    compared with one another, and a pair of which one half was computed alone and the other side by side differs in
    rounding too: so either all kinds are trained side by side or none is. None is where
    - it would take longer, or just as long;
    - one kind cannot be, or would be slower;
    - runs that finished earlier and pair with these by their seed were computed alone.
    """
    to_run = [index for index, cell in enumerate(cells) if cell.state == "planned"]
    alone = [[index] for index in to_run]
    if why_apart(cells) is not None:
        return alone
    kinds: dict[str, list[int]] = {}
    for index in to_run:
        kinds.setdefault(cells[index].kind, []).append(index)
    best, soonest = alone, 0.97 * finish(alone, cells, places)  # not for a gain that is within the error
    for pieces in range(1, max(map(len, kinds.values()), default=0)):
        jobs = [job for members in kinds.values() for job in _cut(members, pieces)]
        if all(_speedup(job, cells) > 1 for job in jobs if len(job) > 1):
            end = finish(jobs, cells, places)
            if end < soonest:
                best, soonest = jobs, end
    return best


def why_apart(cells: Sequence[Cell]) -> str | None:
    """What keeps the runs of a sweep that could be trained side by side from it; None if nothing does."""
    to_run = [cell for cell in cells if cell.state == "planned"]
    several = [cell for cell in to_run if sum(other.kind == cell.kind for other in to_run) > 1]
    for cell in several:
        if cell.alone is not None:
            return f"{cell.name}: {cell.alone}"
    seeds = {cell.config["seed"] for cell in several}
    for cell in cells:
        if cell.state == "skipped" and cell.mode == "alone" and cell.config["seed"] in seeds:
            return f"{cell.name} was computed alone, and pairs do not mix"
    return None


def seconds(job: Sequence[int], cells: Sequence[Cell]) -> float:
    """Of one process; in units of a run where no time is known."""
    return sum(cells[index].estimate or 1.0 for index in job) / _speedup(job, cells)


def finish(jobs: Sequence[Sequence[int]], cells: Sequence[Cell], places: int) -> float:
    """When the last job ends, if each starts where a place is free first."""
    free = [0.0] * places
    for job in jobs:
        place = free.index(min(free))
        free[place] += seconds(job, cells)
    return max(free)


def share_time(jobs: Sequence[Sequence[int]], cells: Sequence[Cell]) -> None:
    """Correct the estimate of each run by what it saves beside others."""
    for job in jobs:
        factor = _speedup(job, cells)
        for cell in (cells[index] for index in job):
            cell.estimate = cell.estimate and cell.estimate / factor


def _speedup(job: Sequence[int], cells: Sequence[Cell]) -> float:
    """Of the largest measured number of runs that is not above this one."""
    measured = cells[job[0]].speedups
    return measured.get(max((count for count in measured if count <= len(job)), default=0), 1.0)


def _cut(members: list[int], pieces: int) -> list[list[int]]:
    """At least so many lists whose lengths differ by one at the most, none longer than MOST."""
    pieces = min(len(members), max(pieces, -(-len(members) // MOST)))
    bounds = [len(members) * piece // pieces for piece in range(pieces + 1)]
    return [members[start:end] for start, end in itertools.pairwise(bounds)]
