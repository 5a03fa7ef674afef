"""Versions of the code that compute the same: what `scripts/golden_runs.py` found and wrote to `equal_code.json`.

An entry names two versions, by the digests of `sources`, and the golden runs that both trained: a few steps on the CPU
in float32, on one thread. A key of `agree` lists what its runs test, such as "MLP LayerNorm SGD training", with one
digest over their losses, metrics and final weights, bit for bit. A key of `differ` has two digests.

That is evidence about small runs, not a proof about all: a run counts as unchanged only if some golden run has its
model, norm and optimizer, if each class that differs was tested, and if no golden run of what it uses differs.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("equal_code.json")  # inside the package, so that a wheel has it
TRIPLE = ("model", "norm", "optimizer")  # each golden run of training has one of each
Digests = dict[str, str]  # as `sources` gives them


@cache
def entries(path: Path = RECORD) -> list[dict[str, Any]]:
    return json.loads(path.read_text()) if path.exists() else []


def equal(
    targets: dict[str, str], uses: set[str], recorded: Digests, present: Digests, *, older: bool = False
) -> bool:
    """Whether golden runs lead from the recorded version to the present one, be it over versions between.

    Args:
        targets: group -> `_target_`, at least of model, norm and optimizer.
        uses: every `_target_` of the run, libraries' too, and the name of the code that trained it.
        recorded: of the classes in `present`, and of no others.
        older: `recorded` is of the older kind: a digest of the one file that defines each class.
    """
    words = {word(name) for name in uses}
    triple = {word(targets[group]) for group in TRIPLE if group in targets}
    if len(triple) < len(TRIPLE):
        return False
    waiting: list[tuple[Digests, bool]] = [(recorded, older)]
    seen: list[Digests] = []
    while waiting:
        version, is_older = waiting.pop()
        if not is_older and version == present:
            return True
        if version in seen:
            continue
        seen.append(version)
        for entry, before, after in _both_ways():
            then = _then(version, before["older" if is_older else "sources"], after["sources"], present)
            if then is not None and _tested(entry, words, triple, _differing(version, then, is_older)):
                waiting.append((then, False))
    return False


def _both_ways() -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    for entry in entries():
        yield entry, entry["old"], entry["new"]
        yield entry, entry["new"], entry["old"]


def _then(version: Digests, before: Digests, after: Digests, present: Digests) -> Digests | None:
    """The version on the other side of an entry; None if this side of it is another version."""
    if not version or any(before.get(name, digest) != digest for name, digest in version.items()):
        return None
    if not before.keys() & version.keys():
        return None
    then = {name: after.get(name, version.get(name)) for name in present}
    return None if None in then.values() else then


def _differing(version: Digests, then: Digests, is_older: bool) -> set[str]:
    return {word(name) for name, digest in then.items() if is_older or version.get(name) != digest}


def _tested(entry: dict[str, Any], words: set[str], triple: set[str], differing: set[str]) -> bool:
    if any(set(key.split()) <= words for key in entry["differ"]):
        return False
    agreeing = [tested for key in entry["agree"] if (tested := set(key.split())) <= words]
    return any(triple <= tested for tested in agreeing) and differing <= set().union(*agreeing)


def word(name: str) -> str:
    """What a class of normexp or torch is called in keys: its last name; others stay whole."""
    return name.rpartition(".")[2] if name.split(".")[0] in ("normexp", "torch") else name
