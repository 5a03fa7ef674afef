"""Which code a run was computed by: one digest for each class that its configuration names, and one for training."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from normexp.config.code.imports import Code

HERE = Code(Path(__file__).parents[3])
LIBRARIES = ("torch", "torchvision", "pytorch_lightning", "lightning_fabric")  # their versions are recorded
TRAINING, REPLICAS = "normexp.training", "normexp.training.replicas"
# What trains a run alone, and what trains runs side by side.
ROOTS = {
    TRAINING: ("normexp.build", "normexp.training.fit"),
    REPLICAS: ("normexp.build", "normexp.training.replicas.fit_replicas"),
}
# Reached from there, but no number of a result passes through: what makes a configuration (its values are part of a
# run's identity), what reads and writes finished runs, the progress bar, and monitors, which change nothing.
LEFT_OUT = ("normexp.config", "normexp.runs", "normexp.training.progress", "normexp.monitors")
# What builds the objects, and what the summary says of convergence.
BUT = ("normexp.config.construct", "normexp.monitors.convergence")
MEASURING = "normexp.monitors.measure_without_fit"  # runs the monitors of a run of zero steps


def sources(config: dict[str, Any], *trained_by: str) -> dict[str, str]:
    """`_target_` -> digest of the code of all files that it reaches; the same for the code that trains.

    Classes of normexp and of one's own packages count; of libraries the versions are recorded elsewhere. Comments,
    docstrings and layout do not count.

    Args:
        trained_by: `TRAINING`, the default, `REPLICAS` for a replica, or both.
    """
    watching = set(monitors(config))
    names = [*filter(_counts, all_targets(config)), *(trained_by or [TRAINING])]
    digests = {name: digest_of(name, monitor=name in watching) for name in sorted(names)}
    return {name: digest for name, digest in digests.items() if digest is not None}


def digest_of(name: str, *, monitor: bool = False) -> str | None:
    """Of a class or of `TRAINING` or `REPLICAS`; None for a class that is built in or gone."""
    if name in ROOTS:
        digest = HERE.digest(*ROOTS[name], without=LEFT_OUT, but=BUT)
        if digest is None:  # it would never count as changed
            raise RuntimeError(f"{name}: {' or '.join(ROOTS[name])} is gone; correct ROOTS in {__name__}")
        return digest
    return HERE.digest(name, MEASURING) if monitor else HERE.digest(name)


def monitors(config: dict[str, Any]) -> list[str]:
    """The classes that only watch a run."""
    return [name for name in all_targets(config.get("monitor")) if _counts(name)]


def all_targets(node: Any) -> list[str]:
    """Each `_target_` in a configuration, once."""
    return sorted(set(_targets(node)))


def _targets(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("_target_"), str):
            yield node["_target_"]
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _targets(child)


def _counts(name: str) -> bool:
    return name.split(".")[0] not in LIBRARIES
