"""What to say when a finished run is asked for again with other measurements."""

import json
from typing import Any

from normexp.config.code import changed, in_words
from normexp.config.run_parts import Parts
from normexp.config.settings import RECORDED


def asked_otherwise(parts: Parts, summary: dict[str, Any]) -> str | None:
    """One line that says what the finished run measured and how to get the other measurements; None if they are the
    same."""
    asked, found = parts.config, summary["config"]
    differing = [key for key in RECORDED if key in found and _text(asked[key]) != _text(found[key])]
    words = [_words(key, parts, summary) for key in differing]
    if other := changed(summary):
        words.append(in_words(other))
    if not words:
        return None
    remedy = "run_dir" if asked["run_dir"] else "name"
    return f"finished with {', and '.join(words)}; {remedy}=<another> trains it again with what was asked for"


def _words(key: str, parts: Parts, summary: dict[str, Any]) -> str:
    if key != "monitor":
        return f"{key}={_text(summary['config'][key])}, not {_text(parts.config[key])}"
    found, asked = summary["choices"].get(key), parts.choices.get(key)
    return f"monitor={found}, not {asked}" if found != asked else f"other options of monitor={found}"


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
