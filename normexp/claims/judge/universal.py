"""Universal sentences: one counterexample refutes, and any number of examples only supports."""

from typing import Any

import numpy as np
import pandas as pd

from normexp.claims.judge.comparison import Comparison


def judge_universal(table: pd.DataFrame, comparison: Comparison) -> dict[str, Any]:
    """Check each single value against its bound. The effect is the value that fails most, or passes most narrowly.

    The interval is the range of all values. A value that is not a number fails.
    """
    rows = table if comparison.arm is None else table[table["arm"] == comparison.arm]
    if comparison.at is not None:
        rows = rows[rows["factor"] == comparison.at]
    if rows.empty:
        raise ValueError(f"comparison: no value of arm={comparison.arm} at={comparison.at}; check the yaml")
    levels = list(dict.fromkeys(table["factor"]))
    excess = np.array([outside(comparison, row, levels) for row in rows.itertuples(index=False)])
    worst = rows.iloc[int(np.argmax(excess))]
    where = f"arm={worst['arm']}" + (f" factor={worst['factor']}" if worst["factor"] != "" else "")
    where = str(worst["case"]) if "case" in rows else f"{where} seed={worst['seed']}"
    failing = int((excess > 0).sum())
    note = f"{failing} of {len(rows)} cases fail, the worst: {where}" if failing else ""
    return {
        "verdict": "refuted" if failing else "supported",
        "effect": float(worst["value"]),
        "interval": (float(rows["value"].min()), float(rows["value"].max())),
        "method": "counterexample" if failing else f"no counterexample in {len(rows)} cases",
        "note": note,
    }


def outside(comparison: Comparison, row: Any, levels: list) -> float:
    """How far a value lies outside its bound; 0 or below if it lies within."""
    if np.isnan(row.value):
        return float("inf")
    found = []
    if comparison.at_most is not None:
        found.append(row.value - _bound(comparison.at_most, row, levels))
    if comparison.at_least is not None:
        found.append(_bound(comparison.at_least, row, levels) - row.value)
    if comparison.equals is not None:
        found.append(abs(row.value - _bound(comparison.equals, row, levels)) - comparison.tolerance)
    return max(found)


def _bound(bound: Any, row: Any, levels: list) -> float:
    if isinstance(bound, dict):
        bound = bound[row.arm]
    return bound[levels.index(row.factor)] if isinstance(bound, list) else bound
