"""Whether today's code computes what the code of a finished run computed.

It does if it still has each part that the run recorded, or if golden runs lead from a version with these parts to one
that today's code still has. `scripts/golden_runs.py` finds such versions and writes `equal_code.json`, which a wheel
holds. Golden runs are a few steps long; equal bits in all of them are evidence from small runs, and no proof. They run
on a CPU, without torch's compiler, and test the classes that an entry lists, so they count for such runs only. If code
was changed on purpose for runs with some setting, an entry holds only `where` that setting has its usual value.

Earlier versions of normexp recorded a digest for each class. `equal_classes` says which commits had them, of those
whose golden runs equal the runs of commit 40e1806. `since` has the parts of that commit.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from normexp.config.code.parts import MONITORS, NORMEXP, OURS, PART, ROOT, named_parts, own_digest, targets
from normexp.config.settings import value_at

RECORD = Path(__file__).with_name("equal_code.json")
TESTED = {"torch.optim.SGD", "torch.optim.Adam", "torch.optim.AdamW"}
SINCE = "z"  # commit 40e1806 in `equal_classes`
SHOWN = 3  # most names in a sentence


def changed(summary: dict[str, Any], *, watched: bool = True) -> list[str]:
    """The parts of today's code that differ from those that computed a run; none if it recorded nothing.

    Args:
        summary: of the run; its `config`, `sources` and `execution` are read.
        watched: whether the code of monitors counts. It changes the logs and no other result.
    """
    config, device = summary["config"], str(summary["execution"].get("device", "cpu"))
    golden = device.startswith("cpu") and not config.get("compile")
    return different_code(summary.get("sources") or {}, config, watched=watched, golden=golden)


def different_code(
    record: dict[str, str],
    config: dict[str, Any] | None = None,
    *,
    watched: bool = True,
    golden: bool = True,
) -> list[str]:
    """The modules and classes of today's code that are not those of a record; empty if it computes the same.

    Imports no torch, and needs a quarter of a second in a process that has not yet read its code.

    Args:
        record: of a run, from its summary or from `code.json` of the ledger.
        config: of the run. Where parts differ, golden runs must have tested its classes and settings. None: of a run
            with nothing but what they test, as those of the bank are.
        watched: whether the code of monitors counts.
        golden: whether golden runs count; see above.
    """
    config = {**(config or {}), "monitor": None}
    golden = golden and {name for name in targets(config) if name.startswith("torch.optim.")} <= TESTED
    by_class = {name: part for name, part in record.items() if name.startswith(f"{OURS}.")}
    if by_class:  # recorded by an earlier version
        counted = {n: part for n, part in by_class.items() if watched or f".{MONITORS}." not in n}
        if found := _differing_classes(counted, golden):
            return found
        since = _entries()["since"]
        record = {name: part for name, part in record.items() if name not in by_class}
        record |= {room: since[room] for room in (NORMEXP, MONITORS) if any(room in name for name in counted)}
    found = []
    for name, recorded in record.items():
        if name not in (NORMEXP, MONITORS):
            found += [name] if recorded != own_digest(name) else []
        elif watched or name == NORMEXP:
            for version in recorded.split("+"):
                found += _differing(name, _equal(name, version, config, golden))
    return sorted({*found})


def in_words(names: list[str]) -> str:
    """The result of `changed` in words that can follow "computed by"."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"another version of {', '.join(names[:SHOWN])}{more}"


def _differing_classes(record: dict[str, str], golden: bool) -> list[str]:
    """The classes that no commit with equal golden runs had together. `old+new` is recorded of a run that was resumed;
    there must be such commits for both."""
    known = {name: _entries()["equal_classes"].get(name, {}) for name in record}
    launches = {name: recorded.split("+") for name, recorded in record.items()}
    differing = set()
    for launch in range(max(map(len, launches.values()), default=0)):
        at = {name: parts[min(launch, len(parts) - 1)] for name, parts in launches.items()}
        commits = [set(known[name].get(part, "")) for name, part in at.items()]
        if not set.intersection(*commits) & (set(_entries()["how"]["commits"]) if golden else {SINCE}):
            differing |= {name for name, part in at.items() if SINCE not in known[name].get(part, "")}
    return sorted(differing)


def _equal(room: str, recorded: str, config: dict[str, Any], golden: bool) -> set[frozenset[str]]:
    """The recorded parts, and those of all code that golden runs showed to be equal."""
    found, todo = set(), [_parts(recorded)]
    while todo:
        version = todo.pop()
        if version not in found:
            found.add(version)
            todo += _equal_versions(version, room, config) if golden else ()
    return found


def _equal_versions(version: frozenset[str], room: str, config: dict[str, Any]) -> Iterator[frozenset[str]]:
    classes = {name.rpartition(".")[2] for name in targets(config) if name.startswith(OURS)}
    for entry in _entries()["equal"]:
        settings = all(str(value_at(config, key)) in ("None", value) for key, value in entry["where"].items())
        if settings and classes <= set(entry["tested"]):
            before, after = (_parts(entry[side][room]) for side in ("before", "after"))
            yield from ([after] if version <= before else [])
            yield from ([before] if version <= after else [])


def _differing(room: str, versions: set[frozenset[str]]) -> list[str]:
    """The modules that hold parts which the nearest of equal versions lacks, the room's name if it has parts that are
    gone; empty if today's code has all parts of one version."""
    present = named_parts(ROOT, room)
    nearest = min(versions, key=lambda version: len(version - present.keys()))
    if nearest <= present.keys():
        return []
    return sorted({module for part, module in present.items() if part not in nearest}) or [room]


@cache
def _parts(recorded: str) -> frozenset[str]:
    return frozenset(recorded[start : start + PART] for start in range(0, len(recorded), PART))


@cache
def _entries() -> dict[str, Any]:
    try:
        return json.loads(RECORD.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{RECORD}: damaged ({error}); install normexp again, or check the file out again"
        ) from error
