"""Successive halving over learning rates: rates that are behind early are cut, and the others train on.

Runs that differ in rate and seed alone make a group. At a quarter and at half of its length, the better half of a
group's rates goes on, by mean validation accuracy over seeds (Jamieson, Talwalkar 2016), and with it the next rate
above the best. A run that diverged counts as 0. A run that was cut keeps its checkpoint and has no summary; the same
command without halving trains it to its end.

A choice among rates then knows some rates by a part of a run, so it may differ; docs/sweeps.md says how often.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from normexp.config.run_spec import kind_of
from normexp.runs.read import HEADER, METRICS
from normexp.sweeps.cell import Cell

RUNGS = (0.25, 0.5)  # of a run's length
MIDWAY = 1e-9


class Halving:
    """Decides which cells train on. Each has a state: `paused` at a rung until its group is there, then `planned` or
    `cut`.

    Raises ValueError for runs without a validation before their end.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._groups: dict[str, list[Cell]] = {}
        self._rung: dict[str, int] = {}
        for cell in cells:
            if cell.config["max_steps"] is None and cell.config["max_epochs"] < 2:
                raise ValueError(
                    "--rates=halving: needs a validation before the end; set val_every_n_steps and max_steps"
                )
            self._groups.setdefault(kind_of(cell.specs[0]), []).append(cell)
        for name, group in self._groups.items():
            self._rung[name] = 0 if len({cell.config["lr"] for cell in group}) > 1 else len(RUNGS)
            for cell in group:
                self._pause(cell)
            self._decide(name)

    def pause_at(self, cell: Cell) -> float | None:
        """The part of its length at which a cell that starts now must pause; None for its end."""
        rung = self._rung[kind_of(cell.specs[0])]
        return RUNGS[rung] if rung < len(RUNGS) else None

    def note(self, cell: Cell) -> list[Cell]:
        """Note that a cell's process ended. Returns the cells whose state it changed; those that are planned start."""
        self._pause(cell)
        return self._decide(kind_of(cell.specs[0]))

    def _pause(self, cell: Cell) -> None:
        """Let a cell wait that has come to its rung."""
        at = self.pause_at(cell) if cell.state in ("planned", "interrupted") else None
        if at is not None and score(cell.folder, cell.config, at) is not None:
            cell.state = "paused"

    def _decide(self, name: str) -> list[Cell]:
        """Cut at each rung at which the whole group has come."""
        changed: list[Cell] = []
        while (rung := self._rung[name]) < len(RUNGS):
            group = [cell for cell in self._groups[name] if cell.state != "cut"]
            if any(cell.state in ("planned", "running", "elsewhere", "interrupted") for cell in group):
                return changed
            means = mean_scores(group, RUNGS[rung])
            surviving = survivors(means)
            self._rung[name] += 1
            for cell in (member for member in group if member.state == "paused"):
                rate = cell.config["lr"]
                cell.state = "planned" if rate in surviving else "cut"
                if rate not in surviving:
                    cell.error = (
                        f"at {RUNGS[rung]:.0%} of its length; rate {rate:g} had {means[rate]:.1%} there"
                    )
                changed.append(cell)
            for cell in group:
                self._pause(cell)
        return list(dict.fromkeys(changed))


def mean_scores(group: Sequence[Cell], at: float) -> dict[float, float]:
    """Rate -> mean validation accuracy over seeds at a part of the length."""
    scores: dict[float, list[float]] = {}
    for cell in group:
        accuracy = None if cell.state in ("failed", "diverged") else score(cell.folder, cell.config, at)
        scores.setdefault(cell.config["lr"], []).append(accuracy or 0.0)
    return {rate: sum(values) / len(values) for rate, values in scores.items()}


def survivors(scores: Mapping[float, float]) -> set[float]:
    """The better half of the rates (of an odd number, one more than half; of equal scores, the lower rate), and the
    next rate above the best. High rates are behind early and win late; without it, halving loses ten times as much."""
    order = sorted(scores, key=lambda rate: (-scores[rate], rate))
    above = sorted(rate for rate in scores if rate > order[0])[:1]
    return {*order[: math.ceil(len(order) / 2)], *above}


def score(folder: Path, config: Mapping[str, Any], at: float) -> float | None:
    """The validation accuracy of a run at the first validation past a part of its length; None if it has not come so
    far. A value that is not finite is 0."""
    whole, clock = (config["max_steps"], 0) if config["max_steps"] else (config["max_epochs"], 1)
    try:
        lines = (folder / METRICS).read_bytes().removeprefix(HEADER).splitlines()
    except OSError:
        return None
    for line in lines:
        cells = line.split(b",")
        if len(cells) == 5 and cells[3] == b"val/accuracy" and float(cells[clock]) >= at * whole - MIDWAY:
            value = float(cells[4])
            return value if math.isfinite(value) else 0.0
    return None
