"""How much faster runs of one configuration train side by side in one process than one after the other."""

import math
from dataclasses import dataclass, field

import torch

from normexp.config.run_parts import Parts
from normexp.training.replicas.fit_replicas import why_not

# Model -> up to this much work a step (parameters times batch size): number of runs -> times as many steps a second,
# both ways in each of two processes of one thread on a CPU. `python scripts/benchmark.py replicas` measures it,
# docs/replicas_benchmark.json has the figures; what is not here was not faster, or was not measured.
SPEEDUPS = {"MLP": {1e6: {4: 1.4, 8: 1.9, 16: 2.1}, 1e7: {4: 1.1, 8: 1.2, 16: 1.4}}}
# A step that monitors watch is computed run by run: the speedups hold for the pace of `light`.
WATCHED = 0.02


@dataclass
class Beside:
    """What training several seeds of one configuration side by side would gain."""

    speedups: dict[int, float] = field(default_factory=dict)  # empty where it is not known to be faster
    why_not: str | None = None  # what forbids it


def beside(parts: Parts) -> Beside:
    """Whether runs that differ in seed and learning rate can be trained beside this one, and what that gives."""
    config = parts.config
    return Beside(measured(parts), "has a folder of its own" if config["run_dir"] else why_not(parts))


def measured(parts: Parts) -> dict[int, float]:
    """How many at a time -> times as fast as one after the other, as measured for a model of this size."""
    if parts.config["trainer"].get("accelerator") != "cpu" and torch.cuda.is_available():
        return {}  # not measured
    if sum(1 / getattr(monitor, "every_n_steps", math.inf) for monitor in parts.monitors) > WATCHED:
        return {}
    work = sum(p.numel() for p in parts.module.parameters()) * parts.config["batch_size"]
    by_work = SPEEDUPS.get(type(parts.module.model).__name__, {})
    return next((speedups for most, speedups in sorted(by_work.items()) if work <= most), {})
