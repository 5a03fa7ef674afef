"""Whether the code that computed a run is still the code at hand."""

from typing import Any

from normexp.config.code.equal import equal
from normexp.config.code.record import REPLICAS, ROOTS, TRAINING, all_targets, monitors, sources

# A record of the older kind has one digest for each class, of the file that defines it, and none for training.
OLDER = "recorded in an older way"
GROUPS = ("model", "norm", "optimizer")


def changed(summary: dict[str, Any], *, watched: bool = True) -> list[str]:
    """The classes of a run whose code has changed since, and `normexp.training` where the code that trains has.

    Code counts as unchanged where golden runs on the same kind of device found that both versions compute the same
    (`equal.py`); they do not use torch's compiler, and say nothing of runs that do. A record of the
    older kind counts only where golden runs lead from its version to this one; if they do not, the answer is
    `[OLDER]`. Of a run that recorded nothing, nothing is said.

    Args:
        summary: of the run; its `config`, `sources` and `execution` are read.
        watched: whether the code of monitors counts. It changes what is logged and no other result.
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
    """What golden runs must have had together. Fewer of them are replicas, since those train with the same classes."""
    model, norm, optimizer = (str(config.get(group, {}).get("_target_")) for group in GROUPS)
    alone = {model, norm, optimizer, TRAINING}
    return [alone, {model, norm, REPLICAS}] if REPLICAS in trained_by else [alone]


def _device(execution: dict[str, Any]) -> str:
    return str(execution.get("device", "cpu")).partition(":")[0]


def in_words(names: list[str]) -> str:
    """What `changed` found, to stand behind "computed by"."""
    if names == [OLDER]:
        return f"code that was {OLDER} and cannot be compared with today's"
    return f"another version of {', '.join(names)}"
