"""Compute the column `key` of runs.parquet again, after a change of what identifies a run.

The words of a row are composed once, with a seed and a rate that stand for all; the row has the fingerprint of its
data. A folder of one's own runs is trained again, or read from its old place: its summaries keep their old hash.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.disk import words_of
from normexp.claims.evidence.table import EVIDENCE, RUNS
from normexp.config.compose import compose, plain_values
from normexp.config.identity import config_hash, processes_of

SEED, RATE = 123457, 0.012345678  # found again in the composed values
DIGITS = 16


def placed(node: Any, seed: int, rate: float) -> Any:
    """The values with the seed and the rate of a run."""
    if isinstance(node, dict):
        return {key: placed(value, seed, rate) for key, value in node.items()}
    if isinstance(node, list):
        return [placed(value, seed, rate) for value in node]
    return seed if type(node) is int and node == SEED else rate if node == RATE else node


def main() -> None:
    runs = pd.read_parquet(EVIDENCE / RUNS)
    keys = pd.Series("", index=runs.index)
    for text, rows in runs.groupby("overrides", sort=False, observed=True):
        words = [word.replace(r"$\{seed\}", "${seed}") for word in words_of(str(text), Path("outputs"))]
        config = plain_values(compose([*words, f"seed={SEED}", f"lr={RATE}"])[0])
        fingerprint, processes = str(rows["fingerprint"].iloc[0]), processes_of(config) or 1
        for place, seed, rate in zip(rows.index, rows["seed"].tolist(), rows["lr"].tolist(), strict=True):
            keys[place] = config_hash(placed(config, seed, rate), fingerprint, processes)[:DIGITS]
    print(f"{(keys != runs['key'].astype(str)).sum()} of {len(runs)} keys changed")
    runs.assign(key=keys).to_parquet(EVIDENCE / RUNS, index=False, compression="zstd", compression_level=15)


if __name__ == "__main__":
    main()
