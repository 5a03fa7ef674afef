"""What of a verdict is held equal, as plain values: `python -m tests.frozen.verdicts` writes the file anew."""

import json
import math
from pathlib import Path
from typing import Any

from normexp.claims.conclude import judge_all_again
from normexp.claims.spec.claim_files import load_claims
from normexp.config.folder import CONFIGS

FILE = Path(__file__).parent / "verdicts.json"
KEYS = ("verdict", "scope", "note", "effect", "interval", "level", "n_seeds", "p", "failures")
COUNTS = ("holds", "n", "share", "share_interval")
OF_COMPARISONS = (
    *("n", "beyond", "within", "opposite", "failed", "holds", "median", "median_interval"),
    *("trained", "failures", "runs", "unfitted", "verdict", "effect", "interval", "n_seeds"),
)


def rounded(value: Any) -> Any:
    """The value with eight digits, as JSON would give it back."""
    if isinstance(value, dict):
        return {str(key): rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.8g}") if math.isfinite(value) else str(value)
    return value


def frozen(verdict: dict[str, Any]) -> dict[str, Any]:
    """Word, counts, medians, intervals, and the number of every setting."""
    kept = {key: verdict[key] for key in (*KEYS, *COUNTS) if key in verdict}
    kept["registered"] = (verdict.get("registered") or {}).get("row")
    kept["comparisons"] = [
        {key: counts[key] for key in OF_COMPARISONS if key in counts} for counts in verdict["comparisons"]
    ]
    kept["settings"] = {
        row["name"]: [None if row["number"] is None else float(f"{row['number']:.5g}"), row["side"]]
        for row in verdict["settings"]
    }
    return rounded(kept)


def all_frozen() -> dict[str, Any]:
    """Every claim of which the evidence has something, judged again."""
    verdicts = judge_all_again(load_claims(CONFIGS / "claims"))
    return {name: frozen(verdict) for name, verdict in sorted(verdicts.items())}


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(verdict)}" for name, verdict in all_frozen().items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
