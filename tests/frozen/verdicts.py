"""What of a verdict is held equal: every key but how long it took, as plain values, and its paragraph.

`python -m tests.frozen.verdicts` writes the file anew."""

import json
import lzma
import math
from pathlib import Path
from typing import Any

from normexp.claims.conclude import judge_all_again
from normexp.claims.record import to_json
from normexp.claims.spec.find import load_claims
from normexp.claims.words import paragraph
from normexp.config.folder import CONFIGS

FILE = Path(__file__).parent / "verdicts.json.xz"
NOT_HELD = ("seconds", "command", "protocol")


def rounded(value: Any) -> Any:
    """The value with eight digits, as JSON would give it back."""
    if isinstance(value, dict):
        return {str(key): rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.8g}") if math.isfinite(value) else str(value)
    return value


def all_frozen() -> dict[str, Any]:
    """Every claim of which the evidence has something, judged again."""
    verdicts = judge_all_again(load_claims(CONFIGS / "claims"))
    held = {
        name: to_json(verdict) | {"paragraph": paragraph(verdict)}
        for name, verdict in sorted(verdicts.items())
    }
    return {name: rounded({k: v for k, v in own.items() if k not in NOT_HELD}) for name, own in held.items()}


def expected() -> dict[str, Any]:
    """The verdicts that are kept."""
    return json.loads(lzma.decompress(FILE.read_bytes()))


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(verdict)}" for name, verdict in all_frozen().items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    FILE.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
