"""Versions of the code that compute the same. `scripts/golden_runs.py` finds them and writes `equal_code.json`.

Golden runs are short: a few steps each. An entry holds their results and the versions of the code that gave exactly
these results: their commits, and the digests of `sources`. A result stands under a key that lists what the run tests,
such as "MLP LayerNorm SGD training". It is a digest of the run's losses, metrics and final weights, bit for bit. Two
entries can be compared if one torch on one machine computed both. Then their versions agree in the keys whose results
are equal.

This is evidence from small runs, not a proof. A run counts as unchanged only if all of this holds: golden runs used its
model, norm and optimizer together; they tested each class that differs; no golden run of what the run uses differs.
"""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("equal_code.json")  # inside the package, so a wheel has it
Digests = dict[str, str]  # from `sources`
Entry = dict[str, Any]


@cache
def entries(path: Path) -> list[Entry]:
    """The entries that golden runs recorded; none if there is no file."""
    return json.loads(path.read_text()) if path.exists() else []


def equal(
    recorded: Digests, present: Digests, uses: set[str], together: list[set[str]], device: str, *, older: bool
) -> bool:
    """Whether golden runs lead from the recorded version to the present one, perhaps through versions between.

    Args:
        recorded: digests of a run's classes.
        present: the digests of the same classes now, and of the training code.
        uses: everything that the run uses: its classes, those of libraries too, and the training code.
        together: sets of names from `uses`. Some golden run must have used all names of a set.
        device: `cpu` or `cuda`, where the run was computed.
        older: `recorded` is an older record: a digest of the one file that defines each class.
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
    """(an entry with `version`, an entry that it can be compared with, the digests of a version in the second)."""
    there = [entry for entry in entries(RECORD) if entry["place"]["device"] == device]
    for first in there:
        if any(_is(version, known.get(kind, {})) for known in first["versions"]):
            for second in there:
                if second["place"] == first["place"]:
                    yield from ((first, second, v["sources"]) for v in second["versions"] if "sources" in v)


def _is(version: Digests, known: Digests) -> bool:
    """Whether two records of a version agree in the classes that both have. Golden runs know no class of a user."""
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
    """The names of classes in keys: the last part for classes of normexp and torch, the whole name for others."""
    return {name.rpartition(".")[2] if name.split(".")[0] in ("normexp", "torch") else name for name in names}
