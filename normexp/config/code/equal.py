"""Versions of the code that compute the same: what `scripts/golden_runs.py` found and wrote to `equal_code.json`.

An entry has the results of golden runs, a few steps each, and the versions of the code that gave exactly these: their
commits, and the digests of `sources`. Results stand under a key that lists what a run tests, such as "MLP LayerNorm SGD
training"; each run has a digest of its losses, metrics and final weights, bit for bit. Versions in two entries agree in
the keys whose results are equal, if both were computed in the same place: by one torch on one machine.

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
Entry = dict[str, Any]


@cache
def entries(path: Path) -> list[Entry]:
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
        for first, second, digests in _pairs(version, "older" if is_older else "sources", device):
            then = {name: {**version, **digests}.get(name, "") for name in present}
            differing = named(name for name in then if is_older or then[name] != version.get(name))
            if _agree(first, second, words, needed, differing):
                waiting.append((then, False))
    return False


def _pairs(version: Digests, kind: str, device: str) -> Iterator[tuple[Entry, Entry, Digests]]:
    """Each entry that has the version, each that can be compared with it, and the digests of each version in that."""
    there = [entry for entry in entries(RECORD) if entry["place"]["device"] == device]
    for first in there:
        if any(_is(version, known.get(kind, {})) for known in first["versions"]):
            for second in there:
                if second["place"] == first["place"]:
                    yield from ((first, second, v["sources"]) for v in second["versions"] if "sources" in v)


def _is(version: Digests, known: Digests) -> bool:
    """Whether a version is a known one. One's own classes are not known: nothing is said of them."""
    shared = version.keys() & known.keys()
    return bool(shared) and all(version[name] == known[name] for name in shared)


def _agree(first: Entry, second: Entry, words: set[str], needed: list[set[str]], differing: set[str]) -> bool:
    agreeing: list[set[str]] = []
    for key in first["results"].keys() | second["results"].keys():
        if (tested := set(key.split())) <= words:
            before, after = (entry["results"].get(key) for entry in (first, second))
            if before and after and any(before[run] != after[run] for run in before.keys() & after.keys()):
                return False
            if before and after:
                agreeing.append(tested)
    met = all(any(names <= tested for tested in agreeing) for names in needed)
    return met and differing <= set().union(*agreeing)


def named(names: Iterable[str]) -> set[str]:
    """What classes of normexp and torch are called in keys: by their last name; others stay whole."""
    return {name.rpartition(".")[2] if name.split(".")[0] in ("normexp", "torch") else name for name in names}
