"""From a grid and the table of finished runs to the verdict of a claim. It imports no torch and trains nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.grid import OF_BANK, runs_of
from normexp.claims.evidence.metric import with_values
from normexp.claims.evidence.registry import before, registration
from normexp.claims.evidence.settings import different, judged, settings, settings_of_values, whole
from normexp.claims.evidence.table import CPU, EVIDENCE, kept_grid, read, runs_in, values_of
from normexp.claims.judge.outcomes import COLUMNS
from normexp.claims.judge.verdict import judge
from normexp.claims.spec.claim import Claim
from normexp.config.process import command

Evidence = tuple[pd.DataFrame, dict[str, Any]]  # table and verdict
OF_RUNS = ["setting", *COLUMNS, "lr", "failed"]
MEASURED = {1, 2}  # numerics that may stand side by side: docs/data/numerics_2.json


def of_runs(
    claim: Claim, grid: pd.DataFrame, table: pd.DataFrame, registries: Sequence[Path] | None = None
) -> Evidence:
    """Table and verdict of a claim about trained networks. Raises ValueError if runs of versions that compute other
    bits would be compared."""
    if not claim.settings:
        runs = with_values(claim, runs_of(grid, table))
        values = runs.rename(columns={"level": "factor"})[COLUMNS]
        return values, judge(values, claim) | _of_runs(claim, runs)
    every = whole(claim, grid, table)
    runs = judged(claim, every)
    row, why = registration(claim, registries)
    late = ""
    if row and len(runs):
        early = before(row, runs)
        own = early & ~runs["asked_by"].str.contains(OF_BANK, regex=False)
        if own.any():
            why = f"{own.sum()} of {len(runs)} runs started before row {row.number} was registered"
            row = None
        elif (early := before(row, every)).any():  # at all rates
            late = f"registered after {early.sum():,} of {len(every):,} runs"
    verdict = judge(
        settings(claim, runs), claim, row=row, drawn=claim.drawn, asked=claim.first, late=late,
        manipulation=settings(claim, runs, manipulation=True) if claim.manipulation else None,
    )  # fmt: skip
    values = runs.rename(columns={"level": "factor"})[[*OF_RUNS, *(["check"] if claim.manipulation else [])]]
    return values, verdict | {"unregistered_because": why} | _of_runs(claim, every)


def of_networks(
    claim: Claim, values: pd.DataFrame, registries: Sequence[Path] | None = None, row: int | None = None
) -> Evidence:
    """Table and verdict of a claim about networks before training over several settings. `row`: the one under which
    kept values were gathered."""
    found = different(claim, values) if claim.drawn else settings_of_values(claim, values)
    twice = len(claim.settings) - len(found)
    registered, why = registration(claim, registries)
    if registered and row is not None and registered.number != row:
        why = f"gathered before row {registered.number}"
        registered = None
    passed_over = f"{twice} of {len(claim.settings)} draws were the same network as an earlier one"
    verdict = judge(
        found, claim, row=registered, drawn=claim.drawn, asked=claim.first - twice,
        passed_over=passed_over * bool(twice),
    )  # fmt: skip
    return values, verdict | {"unregistered_because": why}


def _of_runs(claim: Claim, runs: pd.DataFrame) -> dict[str, Any]:
    """Number and seconds of these runs, and the versions of arithmetic that computed them; the devices, if runs of
    several are compared. Raises ValueError for versions that were never compared."""
    numerics = {int(number) for number in runs["numerics"]} if len(runs) else set()
    if len(numerics) > 1 and not numerics <= MEASURED:
        raise ValueError(
            f"claim={claim.id}: its runs were computed by versions whose bits differ, numerics {sorted(numerics)}; "
            "train them anew with evidence=none and another out="
        )
    cost = {"count": len(runs), "training_seconds": round(float(runs["seconds"].sum()), 1)}
    own = runs.get("device", pd.Series(CPU, runs.index)).fillna(CPU)
    mixed = own.groupby(runs["setting"]).transform("nunique") > 1
    devices = {"devices": sorted(set(own[mixed]))} if mixed.any() else {}
    return {"runs": cost, "numerics": sorted(numerics)} | devices


def judge_all_again(claims: dict[str, Claim]) -> dict[str, dict[str, Any]]:
    """The verdict of every claim of which the evidence has something, by id."""
    return {name: verdict for name, claim in claims.items() if (verdict := judge_again(claim))}


def judge_again(claim: Claim) -> dict[str, Any] | None:
    """The verdict of one claim from the evidence alone; None if it has nothing of it."""
    costs = {"command": f"{command('verify')} claim={claim.id}", "seconds": 0.0}
    if claim.evidence == "training":
        grid = kept_grid(claim, runs_in(EVIDENCE))
        if grid.empty:
            return None
        return of_runs(claim, grid, read(EVIDENCE, grid, claim))[1] | costs
    values = values_of(EVIDENCE, claim)
    if values is None:
        return None
    if claim.settings:
        row = int(values["row"].iloc[0]) if claim.drawn else None
        return of_networks(claim, values, row=row)[1] | costs
    return judge(values, claim) | costs
