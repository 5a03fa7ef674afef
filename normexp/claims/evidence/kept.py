"""The committed evidence of single claims: a record and a table each, from which a claim is judged again.

`<folder>/<id>.json` holds the protocol of the values, their row of the registry, their cost and their command.
`<folder>/<id>.csv.gz` has one row per setting, arm, level and seed. Runs of the bank are in the bank's ledger. A record
without a table is an older verdict from one setting: its word and numbers as they were published.
"""

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.judge.verdict import ONE_SETTING
from normexp.claims.spec.claim import Claim
from normexp.runs.files import write_json

KEPT = Path("docs") / "evidence" / "verdicts"
# Judging again cannot restore these.
COSTS = ("seconds", "command", "runs", "learning_rates", "learning_rates_at_edge")


@dataclass(frozen=True)
class Kept:
    """The kept evidence of one claim. `table` is None for an older verdict."""

    record: dict[str, Any]
    table: pd.DataFrame | None

    @property
    def known_table(self) -> pd.DataFrame:
        """`table`. Raises ValueError if there is none."""
        if self.table is None:
            raise ValueError(f"claim={self.record['id']}: its values are not kept, only its word")
        return self.table


def keep(folder: Path, claim: Claim, table: pd.DataFrame, verdict: dict[str, Any]) -> None:
    """Write the evidence of one claim. The same values give the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "id": claim.id,
        "protocol": claim.protocol,
        "budget": claim.budget,
        "row": (verdict.get("registered") or {}).get("row"),
        "torch": version("torch"),
        **{key: verdict[key] for key in COSTS if key in verdict},
    }
    table.to_csv(
        folder / f"{claim.id}.csv.gz", index=False, na_rep="nan", compression={"method": "gzip", "mtime": 0}
    )
    write_json(folder / f"{claim.id}.json", record)


def read_kept(folder: Path, claim: Claim) -> Kept | None:
    """The kept evidence of a claim's present protocol, or its older verdict; None if there is neither."""
    path = folder / f"{claim.id}.json"
    if not path.exists():
        return None
    record = json.loads(path.read_text())
    if "verdict" in record:
        return Kept(record, None) if record["sentence"] == claim.sentence else None
    if record["protocol"] != claim.protocol:
        return None
    levels = {str(level): level for level in claim.levels}
    # The table may have 2.0 for a level 2.
    levels |= {str(float(level)): level for level in claim.levels if isinstance(level, int | float)}
    table = pd.read_csv(
        folder / f"{claim.id}.csv.gz", keep_default_na=False, dtype={"factor": str, "value": str}
    )
    values = table["value"].map(float)  # exact to the last bit, with nan and infinities
    return Kept(record, table.assign(factor=table["factor"].map(levels), value=values))


def older(claim: Claim, record: dict[str, Any]) -> dict[str, Any]:
    """A verdict that is older than settings and the registry, in the form that pages read. It has no p."""
    return {
        "id": claim.id,
        "sentence": claim.sentence,
        "evidence": claim.evidence,
        "scope": ONE_SETTING,
        "note": "",
        "p_adjusted": None,
        "as_expected": None,
        "settings": [],
        **record,
    }
