"""Write a row of the registry for each plan of the two questions: the hash of the plan (and of the predictions for
`learned`) and a date, before its first run.

    python scripts/research/two_questions/register.py REASON
"""

import json
import sys
from pathlib import Path

import yaml

from normexp.claims.evidence.protocol import digest
from normexp.claims.spec import registry

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PLANS = ("learned", "depth", "shift", "batches", "warmup", "doubling")


def main() -> None:
    """Add the rows."""
    for name in PLANS:
        protocol = {"plan": yaml.safe_load((HERE / f"{name}.yaml").read_text())}
        if name == "learned":
            protocol["predictions"] = json.loads((HERE / "predictions.json").read_text())
        seeds = protocol["plan"]["seeds"]
        row = registry.register(
            ROOT / "docs" / "evidence" / "registry.jsonl",
            subject=f"plan {name}",
            protocol=digest(protocol),
            reason=sys.argv[1],
            seeds=[[0, max(seeds) + 1]],
        )
        print(row.number, row.subject, row.protocol[:12])


if __name__ == "__main__":
    main()
