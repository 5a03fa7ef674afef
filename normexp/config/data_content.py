"""The content of a data set, as far as it belongs to a run's identity."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from normexp.config.construct import construct

if TYPE_CHECKING:
    from normexp.data.base import DataModule

_recent: list["DataModule"] = []  # what the last fingerprint read; the next run that is built shares it


def fingerprint(config: dict[str, Any], allowed: Sequence[str] | None, known: dict[str, str]) -> str:
    """The fingerprint of the data of a configuration, "" for a standard data set. It reads the data.

    Args:
        known: what earlier calls of this launch found, by the data's options. Files may change until the next launch.
    """
    key = json.dumps(config["data"], sort_keys=True, default=str)
    standard = str(config["data"].get("_target_"))
    if standard in known or key in known:
        return known.get(key, "")
    _recent.clear()
    data = load_data(config, allowed)
    _recent.append(data)
    known[key if data.fingerprint else standard] = data.fingerprint
    return data.fingerprint


def load_data(
    config: dict[str, Any], allowed: Sequence[str] | None, like: Sequence["DataModule"] = ()
) -> "DataModule":
    """The data module of a configuration, loaded. It shares the splits of `like`, and of what was read last for a
    fingerprint, if only the order of batches differs."""
    data = construct("data", config["data"], allowed)
    data.load(like=[*like, *_recent])
    _recent.clear()  # files may change before the next run
    return data
