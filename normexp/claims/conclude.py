"""From the evidence of a claim to its verdict. It imports no torch and trains nothing."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from normexp.claims.evidence.grid import OF_BANK, runs_of
from normexp.claims.evidence.metric import with_values
from normexp.claims.evidence.registry import before, registration
from normexp.claims.evidence.settings import compared_runs, different, finished_settings, settings
from normexp.claims.evidence.table import CPU, EVIDENCE
from normexp.claims.gather import Evidence, kept
from normexp.claims.judge.one_setting import judge_values
from normexp.claims.judge.outcomes import COLUMNS
from normexp.claims.judge.over_settings import judge_settings
from normexp.claims.judge.verdict import Cost, Registered, RunsBeforeRegistration, Verdict
from normexp.claims.spec.claim import Claim
from normexp.format import pluralize

Concluded = tuple[pd.DataFrame, Verdict]  # the table that was judged, and the verdict
OF_RUNS = ["setting", *COLUMNS, "lr", "failed"]
MEASURED = {1, 2}  # numerics that may stand side by side: docs/data/numerics_2.json


def conclude(evidence: Evidence, registries: Sequence[Path] | None = None) -> Concluded:
    """Judge a claim. Rows are looked for in `registries`, by default the user's own and that of the evidence. Raises
    ValueError if runs of versions that compute other bits would be compared."""
    claim = evidence.claim
    if claim.cells:
        judge = _over_runs if claim.evidence == "training" else _over_networks
        return judge(evidence, *registration(claim, registries))
    if claim.evidence == "training":
        return _in_one_setting(evidence)
    return evidence.table, judge_values(claim, evidence.table)


def judge_all_again(claims: dict[str, Claim]) -> dict[str, Verdict]:
    """The verdict of every claim of which the evidence has something, by id, from the evidence alone."""
    return {name: conclude(found)[1] for name, claim in claims.items() if (found := kept(claim, EVIDENCE))}


def _in_one_setting(evidence: Evidence) -> Concluded:
    runs = with_values(evidence.claim, runs_of(evidence.grid, evidence.table))
    values = runs.rename(columns={"level": "factor"})[[*COLUMNS, *runs.columns.intersection(["unreached"])]]
    return values, _with_runs(judge_values(evidence.claim, values), runs)


def _over_runs(evidence: Evidence, registered: Registered | None, why: str) -> Concluded:
    claim = evidence.claim
    every = finished_settings(claim, evidence.grid, evidence.table)
    runs = compared_runs(claim, every)
    late = None
    if registered and len(runs):
        early = before(registered.date, runs)
        asked = early & ~runs["asked_by"].str.contains(OF_BANK, regex=False)
        if asked.any():
            why = f"{asked.sum()} of {pluralize(len(runs), 'run')} started before row {registered.row} was registered"
            registered = None
        elif (early := before(registered.date, every)).any():  # at all rates
            late = RunsBeforeRegistration(early=int(early.sum()), of=len(every))
    checked = settings(claim, runs, manipulation=True) if claim.manipulation else ()
    verdict = judge_settings(claim, settings(claim, runs), registered=registered, manipulation=checked)
    verdict = replace(verdict, unregistered_because=why, late=late)
    more = runs.columns.intersection(["unreached", *(["check"] if claim.manipulation else [])])
    return runs.rename(columns={"level": "factor"})[[*OF_RUNS, *more]], _with_runs(verdict, every)


def _over_networks(evidence: Evidence, registered: Registered | None, why: str) -> Concluded:
    claim, values = evidence.claim, evidence.table
    found = different(claim, values)
    if registered and "row" in values and registered.row != values["row"].iloc[0]:
        why = f"gathered before row {registered.row}"
        registered = None
    repeated = len(claim.cells) - len(found)
    verdict = judge_settings(claim, found, registered=registered, repeated=repeated)
    return values, replace(verdict, unregistered_because=why)


def _with_runs(verdict: Verdict, runs: pd.DataFrame) -> Verdict:
    """The verdict with number and seconds of these runs, the versions of arithmetic that computed them, and the
    devices, if runs of several are compared."""
    numerics = {int(number) for number in runs["numerics"]} if len(runs) else set()
    if len(numerics) > 1 and not numerics <= MEASURED:
        raise ValueError(
            f"claim={verdict.claim.id}: its runs were computed by versions whose bits differ, numerics "
            f"{sorted(numerics)}; train them anew with evidence=none and another out="
        )
    cost = Cost(count=len(runs), training_seconds=round(float(runs["seconds"].sum()), 1))
    device = runs.get("device", pd.Series(CPU, runs.index)).fillna(CPU)
    mixed = sorted(set(device[device.groupby(runs["setting"]).transform("nunique") > 1]))
    return replace(verdict, runs=cost, numerics=tuple(sorted(numerics)), devices=tuple(mixed))
