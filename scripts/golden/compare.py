"""Compare the golden runs of two versions, and write down where they agree."""

import json
from pathlib import Path
from typing import Any

from golden.cases import STEPS


def compare(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """An entry of `equal_code.json`, of the runs that both versions have.

    Raises ValueError for records of two machines or two versions of torch: those differ by themselves.
    """
    if old["place"] != new["place"]:
        raise ValueError(f"recorded in two places, {old['place']} and {new['place']}; record both here")
    agree: dict[str, dict[str, str]] = {}
    differ: dict[str, dict[str, list[str]]] = {}
    shared = [name for name in old["runs"] if name in new["runs"]]
    for name in shared:
        before, after = old["runs"][name], new["runs"][name]
        for key in after.get("keys") or before.get("keys") or ():  # none where neither version trains it
            if what(before) == what(after):
                agree.setdefault(key, {})[name] = after["digest"]
            else:
                differ.setdefault(key, {})[name] = [what(before), what(after)]
    for key in differ:
        agree.pop(key, None)
    trained = sum("keys" in new["runs"][name] for name in shared)
    about = {
        "runs": trained,
        "steps": STEPS,
        "device": "cpu",
        **new["place"],
    }
    return {"old": old["version"], "new": new["version"], **about, "agree": agree, "differ": differ}


def what(run: dict[str, Any]) -> str:
    return run.get("digest") or f"refused: {run['refused']}"


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """A line for each run that differs: where its loss first does."""
    lines = []
    for name in old["runs"].keys() & new["runs"].keys():
        before, after = old["runs"][name], new["runs"][name]
        if what(before) == what(after) or not (before.get("keys") or after.get("keys")):
            continue
        if "losses" not in before or "losses" not in after:
            lines.append(f"{name}: {what(before)} | {what(after)}")
            continue
        first = next(
            ((a, b) for a, b in zip(before["losses"], after["losses"], strict=False) if a != b), None
        )
        lines.append(
            f"{name}: {f'a loss of {first[0]} became {first[1]}' if first else 'equal losses, other numbers'}"
        )
    return sorted(lines)


def append(path: Path, entry: dict[str, Any]) -> None:
    entries = json.loads(path.read_text()) if path.exists() else []
    path.write_text(json.dumps([*entries, entry], indent=1) + "\n")
