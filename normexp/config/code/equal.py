"""Versions of the code that compute the same: what `scripts/golden_runs.py` found and wrote to `equal_code.json`.

An entry names two versions, by the digests of `sources`, and the golden runs that both trained: a few steps, on one
thread where the device is the CPU. A key of `agree` lists what its runs test, such as "MLP LayerNorm SGD training", and
has for each run a digest of its losses, metrics and final weights, bit for bit. A key of `differ` has two digests for
each run that differs.

That is evidence from small runs, not a proof for all. A run counts as unchanged only if golden runs had its model, norm
and optimizer together, if they tested each class that differs, and if none that tests what the run uses differs.
"""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("equal_code.json")  # inside the package, so that a wheel has it
Digests = dict[str, str]  # as `sources` gives them


@cache
def entries(path: Path) -> list[dict[str, Any]]:
    """What golden runs recorded; nothing where the file is not there."""
    return json.loads(path.read_text()) if path.exists() else []


def equal(
    recorded: Digests, present: Digests, uses: set[str], together: list[set[str]], device: str, *, older: bool
) -> bool:
    """Whether golden runs lead from the recorded version to the present one, be it over versions between.

    Args:
        recorded: digests of a run's classes.
        present: the digests of the same classes now, and of the code that trains.
        uses: all that the run uses: classes, also those of libraries, and the code that trains.
        together: sets of those, each of which one golden run must have had.
        device: `cpu` or `cuda`, where the run was computed.
        older: `recorded` is of the older kind: a digest of the one file that defines each class.
    """
    words, needed = named(uses), [named(names) for names in together]
    waiting, seen = [(recorded, older)], []
    while waiting:
        version, is_older = waiting.pop()
        if not is_older and version == present:
            return True
        if version in seen:
            continue
        seen.append(version)
        for entry, before, after in _both_ways(device):
            then = _beyond(version, before.get("older" if is_older else "sources", {}), after, present)
            if then is None:
                continue
            differing = named(name for name in then if is_older or then[name] != version.get(name))
            if _tested(entry, words, needed, differing):
                waiting.append((then, False))
    return False


def _both_ways(device: str) -> Iterator[tuple[dict[str, Any], dict[str, Any], Digests]]:
    for entry in entries(RECORD):
        if entry["device"] != device:
            continue
        for before, after in (("old", "new"), ("new", "old")):
            yield entry, entry[before], entry[after].get("sources", {})


def _beyond(version: Digests, before: Digests, after: Digests, present: Digests) -> Digests | None:
    """The version that an entry leads to; None where it starts from another one. Classes that no entry knows, one's
    own, stay as they are."""
    if before.keys().isdisjoint(version) or any(
        before.get(name, version[name]) != version[name] for name in version
    ):
        return None
    then = {**version, **after}
    return {name: then[name] for name in present} if present.keys() <= then.keys() else None


def _tested(entry: dict[str, Any], words: set[str], needed: list[set[str]], differing: set[str]) -> bool:
    if any(set(key.split()) <= words for key in entry["differ"]):
        return False
    agreeing = [tested for key in entry["agree"] if (tested := set(key.split())) <= words]
    met = all(any(names <= tested for tested in agreeing) for names in needed)
    return met and differing <= set().union(*agreeing)


def named(names: Iterable[str]) -> set[str]:
    """What classes of normexp and torch are called in keys: by their last name; others stay whole."""
    return {name.rpartition(".")[2] if name.split(".")[0] in ("normexp", "torch") else name for name in names}
