"""Which runs of a sweep are trained side by side in one process: those that differ in seed and learning rate alone,
where all processes together are through sooner that way."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from normexp.runs import read_summary
from normexp.sweeps.cell import Cell

MOST = 16  # runs in one process
# A single run, computed as if it had neighbours, takes this part of the plain speed (docs/performance.md: 0.3 to 0.7).
LONE = 0.5


@dataclass
class Arrangement:
    """Which cells are trained together."""

    jobs: list[list[int]]  # indices into the cells: those of one job are trained in one process
    stacked: bool = False  # every job computes as replicas do, those of one run too
    reason: str | None = None  # why not, where there would have been something to gain


def arrange(cells: Sequence[Cell], places: int) -> Arrangement:
    """The jobs of a sweep: all of them stacked or none.

    The runs of a study are compared with one another by seed, and a pair of which one half was computed alone and the
    other side by side differs in rounding too. So what the study already holds decides; only if it holds nothing of
    these seeds does time decide. Runs of a kind are then cut into equally many jobs, as many as end soonest on so many
    places.
    """
    to_run = [index for index, cell in enumerate(cells) if cell.state == "planned"]
    alone = Arrangement([[index] for index in to_run])
    wanted = [cells[index] for index in to_run]
    before = modes_before(wanted)
    faster = any(cell.speedups for cell in wanted)
    if not faster and "replica" not in before:
        return alone
    alone.reason = _forbidden(wanted, before)
    if alone.reason is not None:
        return alone
    kinds: dict[str, list[int]] = {}
    for index in to_run:
        kinds.setdefault(cells[index].kind, []).append(index)
    best, soonest = None, 0.97 * finish(alone.jobs, cells, places)  # not for a gain that is within the error
    for pieces in range(1, max(map(len, kinds.values()), default=0) + 1):
        jobs = [job for members in kinds.values() for job in _cut(members, pieces)]
        end = finish(jobs, cells, places, stacked=True)
        gains = end < soonest and all(_speedup(job, cells) > 1 for job in jobs if len(job) > 1)
        if gains or ("replica" in before and (best is None or end < soonest)):
            best, soonest = jobs, end
    if best is None:
        alone.reason = "together they would take as long"
        return alone
    return Arrangement(best, stacked=True)


def modes_before(wanted: Sequence[Cell]) -> dict[str, Path]:
    """How the finished runs of the study that share a seed with these were computed -> one of them."""
    seeds = {cell.config["seed"] for cell in wanted}
    found: dict[str, Path] = {}
    for place in dict.fromkeys(cell.folder.parent for cell in wanted if not cell.config["run_dir"]):
        for path in sorted(place.glob("*/summary.json")):
            summary = read_summary(path.parent)
            if summary and summary["config"]["seed"] in seeds:
                found.setdefault(summary["execution"]["mode"], path.parent)
    return found


def _forbidden(wanted: Sequence[Cell], before: dict[str, Path]) -> str | None:
    for cell in wanted:
        if cell.alone is not None:
            return f"{cell.name}: {cell.alone}"
    if "alone" in before:
        return (
            f"{before['alone']} was computed alone, and pairs do not mix (name=<another> starts a new study)"
        )
    return None


def finish(
    jobs: Sequence[Sequence[int]], cells: Sequence[Cell], places: int, *, stacked: bool = False
) -> float:
    """When the last job ends, if each starts where a place is free first; in units of a run where no time is known."""
    free = [0.0] * places
    for job in jobs:
        place = free.index(min(free))
        seconds = sum(cells[index].estimate or 1.0 for index in job)
        free[place] += seconds / (_speedup(job, cells) if stacked else 1.0)
    return max(free)


def share_time(arrangement: Arrangement, cells: Sequence[Cell]) -> None:
    """Correct the estimate of each run by what it saves beside others."""
    if arrangement.stacked:
        for job in arrangement.jobs:
            factor = _speedup(job, cells)
            for cell in (cells[index] for index in job):
                cell.estimate = cell.estimate and cell.estimate / factor


def _speedup(job: Sequence[int], cells: Sequence[Cell]) -> float:
    """Of the largest measured number of runs that is not above this one."""
    if len(job) == 1:
        return LONE
    measured = cells[job[0]].speedups
    return measured.get(max((count for count in measured if count <= len(job)), default=0), 1.0)


def _cut(members: list[int], pieces: int) -> list[list[int]]:
    """At least so many lists whose lengths differ by one at the most, none longer than MOST."""
    pieces = min(len(members), max(pieces, -(-len(members) // MOST)))
    bounds = [len(members) * piece // pieces for piece in range(pieces + 1)]
    return [members[start:end] for start, end in itertools.pairwise(bounds)]
