"""Check a whole grid before anything starts: every cell is composed and validated, its model built and tried."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from normexp.cli import one_line
from normexp.config.identity import config_hash, default_folder
from normexp.config.run_parts import Parts
from normexp.sweeps.cell import Cell
from normexp.sweeps.run_time import estimate, seconds_per_step

SHOWN = 3  # errors that a message shows; it counts the others


def plan(
    names: Sequence[str],
    overrides: Sequence[list[str]],
    resolve: Callable[[int], tuple[list[dict[str, Any]], dict[str, str]]],
    build: Callable[[int], Parts],
    threads: int = 0,
) -> list[Cell]:
    """The checked cells of a sweep. Finished cells are marked as skipped.

    Args:
        names, overrides: of each cell, for the screen and for its command.
        resolve: the validated configuration of each run of the i-th cell, and the cell's choices.
        build: the parts of the i-th cell. It is called once for all cells that differ only in seed and learning rate.
        threads: of each run, so that a timed step takes as long as in the run; 0 for all threads of this process.

    Raises ValueError with one line that names the cells that cannot run, or two cells that are the same run.
    """
    if threads:
        torch.set_num_threads(threads)
    cells: list[Cell] = []
    broken: dict[str, list[str]] = {}  # error -> cells
    # Kind -> what was learned from building one cell of it.
    built: dict[str, tuple[str, int, float | None]] = {}
    step_seconds: dict[str, float] = {}
    for index, name in enumerate(names):
        try:
            configs, choices = resolve(index)
            config = configs[0]
            kind = _kind(config)
            if kind not in built:
                parts = build(index)
                steps = parts.module.total_steps
                built[kind] = (parts.data.fingerprint, steps, _timed(parts, step_seconds))
        except Exception as error:
            broken.setdefault(one_line(error), []).append(name)
            continue
        fingerprint, steps, seconds = built[kind]
        digests = [config_hash(one, fingerprint) for one in configs]
        folders = [
            Path(one["run_dir"]) if one["run_dir"] else default_folder(one, choices, digest)
            for one, digest in zip(configs, digests, strict=True)
        ]
        time = None if seconds is None else estimate(steps, seconds) * len(configs)
        cell = Cell(name, list(overrides[index]), choices, config, digests[0], folders, time)
        cell.skip_if_finished()
        cells.append(cell)
    if broken:
        raise ValueError(_describe(broken, len(names)))
    _refuse_twins(cells)
    return cells


def _describe(broken: dict[str, list[str]], total: int) -> str:
    parts = []
    for error, names in list(broken.items())[:SHOWN]:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        parts.append(f"{error} [cell {names[0]}{more}]")
    if len(broken) > SHOWN:
        parts.append(f"and {len(broken) - SHOWN} other errors")
    return f"{sum(map(len, broken.values()))} of {total} cells cannot run: {'; '.join(parts)}"


def _kind(config: dict[str, Any]) -> str:
    """A key that is equal for runs that build alike and whose steps take equally long: all values but the seed and the
    learning rate, and those of data and optimizer if they follow."""
    kept = {**config, "seed": None, "lr": None}
    for group, key in (("data", "seed"), ("optimizer", "lr")):
        if config[group].get(key) == config[key]:
            kept[group] = {**config[group], key: None}
    return json.dumps(kept, default=str)


def _timed(parts: Parts, step_seconds: dict[str, float]) -> float | None:
    """Seconds of a step, timed once per model, data and batch size, because the norm changes little. None on a GPU."""
    if parts.config["trainer"].get("accelerator") != "cpu" and torch.cuda.is_available():
        return None
    key = json.dumps([parts.config[name] for name in ("model", "data", "batch_size")], default=str)
    if key not in step_seconds:
        step_seconds[key] = seconds_per_step(parts)
    return step_seconds[key]


def _refuse_twins(cells: list[Cell]) -> None:
    seen: dict[Path, Cell] = {}
    for cell in cells:
        for folder in cell.folders:
            twin = seen.setdefault(folder, cell)
            if twin is not cell:
                raise ValueError(
                    f"cells '{twin.name}' and '{cell.name}' are the same run, {folder}: values that only say how a "
                    "run is computed or where it is kept make no axis of a sweep"
                )
