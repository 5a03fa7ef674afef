"""Add the golden runs of a version to those of other versions, and say where they differ."""

import json
from pathlib import Path
from typing import Any

from golden.cases import STEPS

REFUSED = "refused"


def results(record: dict[str, Any], known: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Key -> run -> digest. A run that this version refuses gets the keys that it has in other entries."""
    found: dict[str, dict[str, str]] = {}
    keys_of: dict[str, list[str]] = {}
    for entry in known:
        for key, runs in entry["results"].items():
            for name in runs:
                keys_of.setdefault(name, []).append(key)
    for name, run in record["runs"].items():
        for key in run.get("keys", keys_of.get(name, ())):
            found.setdefault(key, {})[name] = run.get("digest", REFUSED)
    return {key: dict(sorted(runs.items())) for key, runs in sorted(found.items())}


def add(known: list[dict[str, Any]], record: dict[str, Any]) -> list[str]:
    """Add a version to the entry with its results, or as a new entry. Returns a line for each run that differs from the
    last entry of the same machine and torch."""
    found, place = results(record, known), {**record["place"], "steps": STEPS, "device": "cpu"}
    beside = [entry for entry in known if entry["place"] == place]
    same = next((entry for entry in beside if entry["results"] == found), None)
    if same is not None:
        if record["version"] not in same["versions"]:
            same["versions"].append(record["version"])
        return []
    known.append({"versions": [record["version"]], "place": place, "results": found})
    return differences(beside[-1]["results"], found) if beside else []


def differences(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> list[str]:
    """A line for each run that differs, or that one of the two lacks."""
    old, new = (
        {name: digest for runs in side.values() for name, digest in runs.items()} for side in (before, after)
    )
    names = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    return [f"{name}: {old.get(name, 'not there')} became {new.get(name, 'not there')}" for name in names]


def write(path: Path, entries: list[dict[str, Any]]) -> None:
    """Write one line per version and per key, so that a diff is readable."""
    path.write_text("[\n" + ",\n".join(_text(entry) for entry in entries) + "\n]\n")


def _text(entry: dict[str, Any]) -> str:
    versions = ",\n".join(json.dumps(version) for version in entry["versions"])
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(runs)}" for key, runs in entry["results"].items())
    place = json.dumps(entry["place"])
    return f'{{"versions": [\n{versions}\n],\n"place": {place},\n"results": {{\n{lines}\n}}}}'
