"""The code that computes a run: one digest per class that its configuration names, and one of the training code."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from normexp.config.code.imports import Code

HERE = Code(Path(__file__).parents[3])
LIBRARIES = ("torch", "torchvision", "pytorch_lightning", "lightning_fabric")  # their versions are recorded
TRAINING, REPLICAS = "normexp.training", "normexp.training.replicas"
# The code that trains a single run, and the code that trains replicas.
ROOTS = {
    TRAINING: ("normexp.training.build", "normexp.training.fit"),
    REPLICAS: ("normexp.training.build", "normexp.training.replicas.fit_replicas"),
}
# ROOTS reach this code too, but it decides no number of a result: configuration (its values are part of a run's
# identity), reading and writing of finished runs, the progress bar, loggers, and monitors, which change nothing.
LEFT_OUT = (
    *("normexp.config", "normexp.runs", "normexp.monitors"),
    *("normexp.training.progress", "normexp.training.loggers"),
)
# Exceptions: the code that builds the objects, and the convergence numbers of the summary.
BUT = ("normexp.config.construct", "normexp.monitors.convergence")
MEASURING = "normexp.monitors.measure_without_fit"  # runs the monitors when a run takes no step


def sources(config: dict[str, Any], *trained_by: str) -> dict[str, str]:
    """`_target_` -> digest of all files that it reaches; the same for the training code.

    Classes of normexp and of the user's packages count. For libraries, the versions are recorded elsewhere. Comments,
    docstrings and layout do not count.

    Args:
        trained_by: `TRAINING`, the default, `REPLICAS` for a replica, or both.
    """
    watching = set(monitors(config))
    names = [*filter(_counts, all_targets(config)), *(trained_by or [TRAINING])]
    digests = {name: digest_of(name, monitor=name in watching) for name in sorted(names)}
    return {name: digest for name, digest in digests.items() if digest is not None}


def digest_of(name: str, *, monitor: bool = False) -> str | None:
    """Digest of a class, of `TRAINING` or of `REPLICAS`; None for a class that is built in or no longer exists."""
    if name in ROOTS:
        digest = HERE.digest(*ROOTS[name], without=LEFT_OUT, but=BUT)
        if digest is None:  # without a digest, no change would ever be seen
            raise RuntimeError(f"{name}: {' or '.join(ROOTS[name])} is gone; correct ROOTS in {__name__}")
        return digest
    return HERE.digest(name, MEASURING) if monitor else HERE.digest(name)


def read_ahead() -> None:
    """Read the code of every class of normexp now. A process that is forked from this one then reads no file, and
    records the code that it was forked with."""
    for name in ROOTS:
        digest_of(name)
    for package in ("norms", "models", "data", "monitors"):
        for name in importlib.import_module(f"normexp.{package}").__all__:
            digest_of(f"normexp.{package}.{name}", monitor=package == "monitors")


def monitors(config: dict[str, Any]) -> list[str]:
    """The classes of the run's monitors."""
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
