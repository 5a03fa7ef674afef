"""Whether today's code is the code that computed a run."""

from typing import Any

from normexp.config.code.equal import equal
from normexp.config.code.record import REPLICAS, ROOTS, TRAINING, all_targets, monitors, sources

# An older record has one digest per class, of the one file that defines it, and none of the training code.
OLDER = "recorded in an older way"
GROUPS = ("model", "norm", "optimizer")


def changed(summary: dict[str, Any], *, watched: bool = True) -> list[str]:
    """The classes of a run whose code has changed since, and `normexp.training` if the training code has.

    Code counts as unchanged if golden runs on the same kind of device showed that both versions compute the same
    (`equal.py`). Golden runs do not use torch's compiler, so they do not count for a compiled run. An older record
    counts only if golden runs lead from its version to this one; otherwise the answer is `[OLDER]`. A run that
    recorded nothing gives an empty list.

    Args:
        summary: of the run; its `config`, `sources` and `execution` are read.
        watched: whether the code of monitors counts. It changes the logs and no other result.
    """
    config, recorded, execution = summary["config"], summary.get("sources"), summary["execution"]
    if not recorded:
        return []
    trained_by = [name for name in ROOTS if name in recorded]
    older = not trained_by
    if older:
        trained_by = [REPLICAS if execution.get("mode") == "replica" else TRAINING]
    aside = set() if watched else set(monitors(config))
    known = {*recorded, *trained_by} - aside
    present = {name: digest for name, digest in sources(config, *trained_by).items() if name in known}
    other = [name for name, digest in present.items() if recorded.get(name) != digest]
    if not other:
        return []
    recorded = {name: recorded[name] for name in present if name in recorded}
    uses = {*all_targets(config), *trained_by, TRAINING} - aside
    if not config.get("compile") and equal(
        recorded, present, uses, _together(config, trained_by), _device(execution), older=older
    ):
        return []
    return [OLDER] if older else other


def _together(config: dict[str, Any], trained_by: list[str]) -> list[set[str]]:
    """Sets of classes that one golden run must have used together. Replicas need fewer: they train the same classes."""
    model, norm, optimizer = (str(config.get(group, {}).get("_target_")) for group in GROUPS)
    alone = {model, norm, optimizer, TRAINING}
    return [alone, {model, norm, REPLICAS}] if REPLICAS in trained_by else [alone]


def _device(execution: dict[str, Any]) -> str:
    return str(execution.get("device", "cpu")).partition(":")[0]


def in_words(names: list[str]) -> str:
    """The result of `changed` in words that can follow "computed by"."""
    if names == [OLDER]:
        return f"code that was {OLDER} and cannot be compared with today's"
    return f"another version of {', '.join(names)}"
