"""Whether the code that computed a run is still the code at hand."""

from typing import Any

from normexp.config.code.equal import TRIPLE, equal
from normexp.config.code.record import REPLICAS, ROOTS, TRAINING, all_targets, monitors, sources

# A record of the older kind has one digest for each class, of the file that defines it, and none for training.
OLDER = "its older kind of record"


def changed(summary: dict[str, Any], *, watched: bool = True) -> list[str]:
    """The classes of a run whose code has changed since, and `normexp.training` where the code that trains has.

    Code counts as unchanged where golden runs found that both versions compute the same (`equal.py`). A record of the
    older kind counts only where golden runs lead from its version to this one; if they do not, the answer is
    `[OLDER]`. Of a run that recorded nothing, nothing is said.

    Args:
        summary: of the run; its `config`, `sources` and `execution` are read.
        watched: whether the code of monitors counts. It changes what is logged and no other result.
    """
    config, recorded = summary["config"], summary.get("sources")
    if not recorded:
        return []
    older = not ROOTS.keys() & recorded.keys()
    aside = () if watched else monitors(config)
    recorded = {name: digest for name, digest in recorded.items() if name not in aside}
    replicas = summary["execution"].get("mode") == "replica" if older else REPLICAS in recorded
    training = REPLICAS if replicas else TRAINING
    present = {
        name: digest
        for name, digest in sources(config, replicas=replicas).items()
        if name in recorded or (older and name == training)
    }
    other = [name for name, digest in present.items() if recorded.get(name) != digest]
    if not other:
        return []
    targets = {group: config.get(group, {}).get("_target_", "") for group in TRIPLE}
    recorded = {name: digest for name, digest in recorded.items() if name in present}
    if equal(targets, {*all_targets(config), training}, recorded, present, older=older):
        return []
    return [OLDER] if older else other


def in_words(names: list[str]) -> str:
    """What `changed` found, to stand behind "computed by"."""
    if names == [OLDER]:
        return f"code that {OLDER} does not tell from today's"
    return f"another version of {', '.join(names)}"
