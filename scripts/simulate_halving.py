"""How often does halving the learning rates change a word? The stored runs of the small bank, with and without it.

    python scripts/simulate_halving.py

Each stored run has its validation curve, so halving is replayed: at a quarter and at half of a run, the runs of an arm
whose rate is behind count as cut, and no seed can choose them. Printed are, for each setting, the share of the steps
that remains and how much worse the chosen runs are on test; then the claims whose word changes.
"""

import math
import sys
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

from normexp.claims.conclude import conclude
from normexp.claims.evidence.choose_rates import tuned_runs
from normexp.claims.evidence.curves import level_text, own_curves, read_curves
from normexp.claims.evidence.disk_runs import RunKey
from normexp.claims.evidence.plan import KEY, Known
from normexp.claims.evidence.stored import EVIDENCE, StoredEvidence, grid_arms
from normexp.claims.spec.select import known_claims
from normexp.sweeps.halving import RUNGS, survivors

CUT = "cut"
GRID, OWN = EVIDENCE / "bank", EVIDENCE / "claims"


def steps_allowed(curves: pd.DataFrame, whole: pd.Series, *, by_seed: bool) -> pd.Series:
    """Of each run in `whole` (index KEY, its steps): the steps that halving lets it train.

    Args:
        curves: index KEY, columns step and accuracy.
        by_seed: whether each seed has survivors of its own; otherwise an arm's rates are compared by means over seeds.
    """
    left = whole.copy()
    by = ["norm", "level", *(["seed"] if by_seed else [])]
    alive = whole.index.to_frame(index=False)
    for at in RUNGS:
        far = curves[curves["step"] >= at * whole.reindex(curves.index) - 1e-9].groupby(level=KEY)
        scores = far["accuracy"].first().reindex(pd.MultiIndex.from_frame(alive)).fillna(0.0).reset_index()
        kept = []
        for _, group in scores.groupby(by, sort=False):
            rates = survivors(group.groupby("lr")["accuracy"].mean().to_dict())
            kept.append(group["lr"].isin(rates))
        goes_on = pd.concat(kept).sort_index()
        stopped = pd.MultiIndex.from_frame(alive[~goes_on.to_numpy()])
        left[stopped] = left[stopped] * at
        alive = alive[goes_on.to_numpy()].reset_index(drop=True)
    return left


class Whole(Known):
    """The known runs of a claim. No verdict follows, so the code that computed them does not matter."""

    def _check_code(self, rows: pd.DataFrame) -> None:
        pass


class Halved(Whole):
    """The known runs of a claim, as halving would have left them."""

    by_seed = False
    used = total = 0.0  # steps

    def rows(self, keys: list[RunKey]) -> pd.DataFrame:
        rows = super().rows(keys)
        if len(rows) < 2 or rows["lr"].nunique() < 2:
            return rows
        cell = self.claim.cells[rows["cell"].iloc[0]]
        grid, own = (
            read_curves(GRID / f"{cell.name}.curves.csv.gz"),
            read_curves(own_curves(OWN, self.claim.id)),
        )
        arms = grid_arms(self.claim, cell).items()
        named = [grid[grid["norm"] == norm].assign(norm=arm, level=level) for (arm, level), norm in arms]
        curves = pd.concat([own[own["cell"] == cell.name], *named], ignore_index=True)
        rows_, curves = (table.assign(level=table["level"].map(level_text)) for table in (rows, curves))
        curves = curves.drop_duplicates([*KEY, "step"]).set_index(KEY)[["step", "accuracy"]]
        whole = rows_.set_index(KEY)["steps"].astype(float)
        left = steps_allowed(curves, whole, by_seed=self.by_seed)
        Halved.used, Halved.total = Halved.used + left.sum(), Halved.total + whole.sum()
        return rows.assign(status=rows["status"].where((left >= whole).to_numpy(), CUT))


def settings_table(stored: StoredEvidence, *, by_seed: bool) -> pd.DataFrame:
    """Of each setting of the grid: the share of the steps that remains, how often a seed's choice changes, and the mean
    loss of test accuracy of the chosen runs, over all norms, and the most of one norm."""
    found = []
    for path in sorted(GRID.glob("*.csv")):
        runs = stored.grid_rows([path.stem])
        runs = runs.assign(level="")
        curves = read_curves(GRID / f"{path.stem}.curves.csv.gz").set_index(KEY)[["step", "accuracy"]]
        whole = runs.set_index(KEY)["steps"].astype(float)
        left = steps_allowed(curves, whole, by_seed=by_seed)
        halved = runs.assign(status=runs["status"].where((left >= whole).to_numpy(), CUT))
        before, after = (
            tuned_runs(own, "error").set_index(["norm", "seed"]).sort_index() for own in (runs, halved)
        )
        loss = before["test_accuracy"].fillna(0.1) - after["test_accuracy"].fillna(0.1)
        by_norm = loss.groupby("norm").mean()
        found.append(
            {"setting": path.stem, "share of steps": left.sum() / whole.sum(),
             "other choice": (before["lr"] != after["lr"]).mean(), "points lost": 100 * loss.mean(),
             "most lost by a norm": 100 * by_norm.max(), "that norm": by_norm.idxmax()}
        )  # fmt: skip
    return pd.DataFrame(found)


def words(by_seed: bool) -> None:
    """Print the claims whose word changes, and how many do not."""
    Halved.by_seed, Halved.used, Halved.total = by_seed, 0.0, 0.0
    same, found = 0, []
    claims, _ = known_claims()
    for claim in claims.values():
        if claim.evidence != "training" or not claim.settings or claim.drawn or claim.rate != "own":
            continue
        try:
            pair = [conclude(claim, kind(claim, StoredEvidence(), None))[1] for kind in (Whole, Halved)]
        except ValueError as error:
            print(f"{claim.id}: left out: {str(error)[:90]}")
            continue
        if pair[0]["verdict"] == pair[1]["verdict"]:
            same += 1
        else:
            found.append(f"{claim.id}: {pair[0]['verdict']} becomes {pair[1]['verdict']}")
        for one, other in zip(*(p["settings"] for p in pair), strict=True):
            if one.get("word", one.get("verdict")) != other.get("word", other.get("verdict")):
                found.append(f"  {claim.id}, {one['name']}: {one.get('word')} becomes {other.get('word')}")
    print(f"\n{same} claims keep their word; steps used {Halved.used / max(Halved.total, 1):.2f}")
    print(*found, sep="\n")


if __name__ == "__main__":
    for each in (False, True):
        print("\nrates compared", "in each seed" if each else "by means over seeds")
        table = settings_table(StoredEvidence(), by_seed=each)
        print(table.to_string(index=False, float_format=lambda x: f"{x:.3f}" if not math.isnan(x) else "-"))
        words(each)
