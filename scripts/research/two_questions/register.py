"""Check that the plans of the two questions are those of the registry's rows, which came before their first run.

python scripts/research/two_questions/register.py
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
REGISTRY = HERE.parents[2] / "docs" / "evidence" / "registry.jsonl"
PLANS = ("learned", "depth", "shift", "batches", "warmup", "doubling", "resnet")


def digest(name: str) -> str:
    """The hash of a plan; of `learned` with the predictions for its six settings."""
    protocol: dict[str, Any] = {"plan": yaml.safe_load((HERE / f"{name}.yaml").read_text())}
    if name == "learned":
        protocol["predictions"] = json.loads((HERE / "predictions.json").read_text())
    return hashlib.sha256(json.dumps(protocol, sort_keys=True).encode()).hexdigest()


def main() -> None:
    """Exit with 1 if a plan is another than its row's."""
    rows = {row["subject"]: row for row in map(json.loads, REGISTRY.read_text().splitlines())}
    changed = [name for name in PLANS if rows[f"plan {name}"]["protocol"] != digest(name)]
    sys.exit(f"Error: {', '.join(changed)}: is not what was registered" if changed else 0)


if __name__ == "__main__":
    main()
