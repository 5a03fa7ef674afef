"""Would `--rates halving` change a word over the drawn bank? It cuts the runs of the ledger by their own curves.

python scripts/replay_halving.py P06a P03c P08 P10b P10c S47
"""

import sys

import pandas as pd

from normexp.claims.evidence.curves import bank_curves, level_text, own_curves, read_curves
from normexp.claims.evidence.plan import KEY, Known
from normexp.claims.evidence.stored import StoredEvidence, grid_arms
from normexp.claims.judge.verdict import judge
from normexp.claims.spec.select import known_claims
from normexp.sweeps.halving import RUNGS, survivors


def halved(runs: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """The runs of a setting with the status `cut` where halving ends them, and the steps `used` until then."""
    runs = runs.assign(level=runs["level"].map(level_text), used=runs["steps"]).set_index(KEY)
    for _, arm in runs.groupby(level=["norm", "level"], sort=False):
        alive = arm
        for rung in RUNGS:
            late = curves[curves["step"] >= rung * arm["steps"].max() - 1e-9].groupby(KEY).first()
            late = late.reindex(alive.index)
            late.loc[alive["status"] != "completed", "accuracy"] = 0.0
            scores = late["accuracy"].fillna(0.0).groupby(level="lr").mean()
            survives = alive.index.isin(survivors(scores.to_dict()), level="lr")
            gone = alive[~survives]
            runs.loc[gone.index, "used"] = late["step"][~survives].fillna(gone["steps"])
            runs.loc[gone.index, "status"] = gone["status"].replace("completed", "cut")
            alive = alive[survives]
    return runs.reset_index()


for name in sys.argv[1:]:
    claim = known_claims(name)[0][name]
    known, pairs, used = Known(claim, StoredEvidence(), None), [], pd.Series(0.0, ["used", "steps"])
    assert known.stored
    for cell in claim.cells.values():
        runs = known.stored.rows(claim, cell)
        grid = read_curves(bank_curves(known.stored.folder / "bank", cell.name))
        claim_curves = read_curves(own_curves(known.stored.folder / "claims", name))
        arms = grid_arms(claim, cell).items()
        parts = [grid[grid["norm"] == norm].assign(norm=arm, level=at) for (arm, at), norm in arms]
        curves = pd.concat([claim_curves[claim_curves["cell"] == cell.name], *parts]).sort_values("step")
        cut = halved(runs, curves.assign(level=curves["level"].map(level_text)))
        used += cut[["used", "steps"]].sum()
        pairs.append([known.setting(cell, table) for table in (runs, cut.assign(level=runs["level"]))])
    for first in (12, len(pairs)):
        words = [judge([p[i] for p in pairs[:first]], claim, drawn=True, asked=first) for i in (0, 1)]
        print(name, *(f"{w['verdict']}: {w['holds']} of {w['n']};" for w in words))
    print(f"steps that remain: {used['used'] / used['steps']:.2f}", flush=True)
