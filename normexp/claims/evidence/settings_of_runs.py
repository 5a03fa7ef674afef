"""From trained runs to settings for the judge: one run per arm, level and seed, with its test examples."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from normexp.claims.evidence.choose_rates import runs_at
from normexp.claims.evidence.stored import StoredEvidence
from normexp.claims.judge.estimate import UncertainMean
from normexp.claims.judge.failures import never_above_chance
from normexp.claims.judge.outcomes import Arm, Outcomes, Setting, blocks
from normexp.claims.judge.setting_effect import noise_of_mean
from normexp.claims.spec.bank import Bank, BankCell
from normexp.runs import TestExamples

MOST_LOSS = 10.0  # times that of guessing, of a run that did not fail
BLOCK = 16  # windows of a text that count as one example
Examples = Callable[[str], TestExamples | None]  # of a run


def setting_of_runs(
    cell: BankCell, runs: pd.DataFrame, measure: str, of: Examples, column: str = "value"
) -> Setting:
    """From one run of each arm (column `norm`), level (if there are any) and seed.

    Args:
        of: gives the test examples of a run, for `error` and `loss`.
        column: the number of a run where the measure is another.
    """
    runs = runs if "level" in runs else runs.assign(level="")
    drawn = {"error": "test_accuracy", "loss": "test_loss"}.get(measure, column) if cell.draw else ""
    outcomes: dict[Arm, Outcomes] = {}
    for (arm, level), unsorted in runs.groupby(["norm", "level"], sort=False):
        own = unsorted.sort_values("seed")
        seeds, names, failed = own["seed"].to_numpy(), tuple(own["hash"]), failed_runs(own, cell)
        if drawn:  # one number a run; settings are the sample, so examples are not asked for
            values = own[drawn].to_numpy(float)
            values = (
                failed.astype(float) if measure == "failed" else 1 - values if measure == "error" else values
            )
            outcomes[str(arm), level] = Outcomes(seeds, values, failed | ~np.isfinite(values), None, names)
        elif measure in ("error", "loss"):
            each = np.stack([_each(run, of, measure, cell) for run in names])
            outcomes[str(arm), level] = Outcomes(seeds, each.mean(1), failed, each, names)
        else:
            values = failed.astype(float) if measure == "failed" else own[column].to_numpy(float)
            outcomes[str(arm), level] = Outcomes(seeds, values, failed | ~np.isfinite(values), None, names)
    if drawn or measure not in ("error", "loss"):
        guesses = {"steps": float(runs["steps"].max()), "error": 1 - cell.chance, "loss": cell.guess_loss}
        guess = guesses.get(measure)
        return Setting(name=cell.name, outcomes=outcomes, guess=guess, labels=cell.labels)
    return Setting(
        name=cell.name,
        outcomes=outcomes,
        design="cut again" if cell.test == "cut again" else "test set",
        counts=measure == "error" and cell.test != "blocks",
        shared=cell.labels.get("data", ""),
        test_to_train=cell.test_to_train,
        guess=1 - cell.chance if measure == "error" else cell.guess_loss,
        labels=cell.labels,
    )


def _each(run: str, of: Examples, measure: str, cell: BankCell) -> np.ndarray:
    """The value of each example of a run: wrong or not, or its loss. For a text, the mean of each block of windows."""
    examples = of(run)
    if examples is None:
        raise ValueError(f"setting={cell.name}: no test examples of run {run[:8]}; keep the evidence again")
    if measure == "loss" and not len(examples.loss):
        raise ValueError(
            f"setting={cell.name}: losses of test examples lie in the second archive, which is not here; unpack it, or "
            "clone the repository"
        )
    values = (~examples.right if measure == "error" else examples.loss).astype(float)
    if values.ndim == 2:  # a text: tokens of windows
        values = values.mean(1)
    return blocks(values, BLOCK) if cell.test == "blocks" else values


def failed_runs(runs: pd.DataFrame, cell: BankCell) -> np.ndarray:
    """Whether each run failed: it diverged, or ended no better on validation than guessing, or, in a drawn setting,
    with a loss above ten times that of guessing."""
    accuracy = runs["val_accuracy"].fillna(0.0).to_numpy(float)
    right = np.round(accuracy * cell.validation)
    failed = (runs["status"] != "completed").to_numpy() | never_above_chance(
        right, cell.validation, cell.chance
    )
    if cell.draw:
        losses = runs[["train_loss", "val_loss"]].to_numpy(float)  # not a number: failed
        failed |= ~(losses <= MOST_LOSS * cell.guess_loss).all(1)
    return failed


def grid_settings(
    bank: Bank, rows: pd.DataFrame, stored: StoredEvidence, measure: str, cells: Sequence[str] = ()
) -> list[Setting]:
    """The settings of a bank's grid in which every run is stored, with its norms as arms.

    Args:
        rows: of the grid, from `stored`; `bank` has the expanded rates that they ask for.
        measure: `error` or `loss` on test. The same measure on validation chooses the rates.
        cells: names of cells; empty for all.
    """
    found = []
    for cell in map(bank.cell, cells or bank.grid.cells):
        if bank.has_all(cell, rows):
            one = runs_at(rows[rows["cell"] == cell.name], cell, measure, "own")
            ordered = pd.concat([one[one["norm"] == norm] for norm in bank.norms])
            found.append(setting_of_runs(cell, ordered, measure, stored.examples_in(f"bank/{cell.name}")))
    return found


def norm_table(
    bank: Bank, rows: pd.DataFrame, stored: StoredEvidence, measure: str = "error"
) -> pd.DataFrame:
    """Columns: cell, norm, mean over seeds at each seed's best rate, its interval, failed runs, seeds."""
    found = []
    for setting in grid_settings(bank, rows, stored, measure):
        for (norm, _), own in setting.outcomes.items():
            trained = own.at(~own.failed)
            row = {
                "cell": setting.name,
                "norm": norm,
                "failed": int(own.failed.sum()),
                "seeds": len(own.seeds),
            }
            if len(trained.seeds) < 3:
                found.append(row | {"mean": math.nan, "low": math.nan, "high": math.nan})
                continue
            variance, df, third = map(float, noise_of_mean(setting, trained.known_examples))
            mean = UncertainMean(float(trained.values.mean()), variance, df, third)
            low, high = mean.interval(0.95)
            found.append(row | {"mean": mean.effect, "low": low, "high": high})
    return pd.DataFrame(found)
