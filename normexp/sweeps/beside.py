"""How much faster runs of one configuration train side by side in one process than one after the other."""

from dataclasses import dataclass, field

import torch

from normexp.parts import Parts
from normexp.training.fit_replicas import why_not

# Model -> up to this much work a step (parameters times batch size): number of runs -> times as many steps a second,
# both ways in each of two processes of one thread on a CPU. `python scripts/benchmark.py replicas` measures it,
# docs/replicas_benchmark.json has the figures; what is not here was not faster, or was not measured.
SPEEDUPS = {"MLP": {1e6: {4: 1.4, 8: 1.5, 16: 2.0}, 1e7: {4: 1.3, 8: 1.2}}}
# On a GPU nothing was measured yet. A small network leaves most of it idle: a step takes as long as starting its
# kernels, once for all runs.
SPEEDUPS_ON_GPU = {2: 1.5, 4: 2.0, 8: 4.0, 16: 8.0}
PARAMETERS_ON_GPU = 1_000_000


@dataclass
class Beside:
    speedups: dict[int, float] = field(default_factory=dict)  # empty where it is not faster
    why_not: str | None = None


def beside(parts: Parts) -> Beside:
    """Whether runs that differ in seed and learning rate can be trained beside this one, and what that gives."""
    speedups = measured(parts)
    if not speedups:
        return Beside(why_not="not faster side by side")
    config = parts.config
    if config["replicas"] != {"seeds": 1, "lr": None}:
        return Beside(speedups, "is several runs already")
    if config["run_dir"]:
        return Beside(speedups, "has a folder of its own")
    return Beside(speedups, why_not(parts))


def measured(parts: Parts) -> dict[int, float]:
    parameters = sum(p.numel() for p in parts.module.parameters())
    if parts.config["trainer"].get("accelerator") != "cpu" and torch.cuda.is_available():
        return SPEEDUPS_ON_GPU if parameters <= PARAMETERS_ON_GPU else {}
    work = parameters * parts.config["batch_size"]
    by_work = SPEEDUPS.get(type(parts.module.model).__name__, {})
    return next((speedups for most, speedups in sorted(by_work.items()) if work <= most), {})
