"""From runs of the ledger to settings for the judge: one run per arm and seed, with its test examples."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from normexp.claims.evidence.chosen_runs import runs_at
from normexp.claims.evidence.ledger import read_examples
from normexp.claims.judge.estimate import UncertainMean
from normexp.claims.judge.failures import never_above_chance
from normexp.claims.judge.outcomes import Arm, Outcomes, Setting, blocks
from normexp.claims.judge.setting_effect import noise_of_mean
from normexp.claims.spec.bank import Bank, BankCell
from normexp.runs import TestExamples

BLOCK = 16  # windows of a text that count as one example


def bank_settings(
    bank: Bank,
    ledger: pd.DataFrame,
    folder: Path,
    arms: Mapping[str, str],
    measure: str,
    cells: Sequence[str] = (),
    rate: str = "own",
) -> list[Setting]:
    """The settings of the bank in which every arm is finished.

    Args:
        ledger: rows of runs, from `read_ledger`.
        folder: of the ledger, for the test examples.
        arms: name of an arm -> norm of the bank.
        measure: `error` (wrong answers) or `loss` on test. The same measure on validation chooses the rates. Or
            `failed`, for which no test examples are read.
        cells: names of cells; empty for all.
        rate: `own`, the best rate of each seed, or the `lowest`, `middle` or `highest` of the cell's grid.
    """
    found, norms = [], set(arms.values())
    for cell in map(bank.cell, cells or bank.cells):
        if bank.has_all(cell, ledger, norms):
            runs = ledger[(ledger["cell"] == cell.name) & ledger["norm"].isin(norms)]
            one = runs_at(runs, cell, measure, rate)
            own = pd.concat([one[one["norm"] == norm].assign(norm=arm) for arm, norm in arms.items()])
            found.append(setting_of_runs(cell, own, measure, read_examples(folder, cell.name)))
    return found


def setting_of_runs(
    cell: BankCell, runs: pd.DataFrame, measure: str, of: Callable[[str], TestExamples], column: str = "value"
) -> Setting:
    """From one run of each arm (column `norm`), level (if there are any) and seed.

    Args:
        of: gives the test examples of a run, for `error` and `loss`.
        column: the number of a run where the measure is another.
    """
    runs = runs if "level" in runs else runs.assign(level="")
    outcomes: dict[Arm, Outcomes] = {}
    for (arm, level), unsorted in runs.groupby(["norm", "level"], sort=False):
        own = unsorted.sort_values("seed")
        seeds, names, failed = own["seed"].to_numpy(), tuple(own["hash"]), failed_runs(own, cell)
        if measure in ("error", "loss"):
            each = np.stack([_each(item.right, item.loss, measure, cell) for item in map(of, names)])
            outcomes[str(arm), level] = Outcomes(seeds, each.mean(1), failed, each, names)
        else:
            values = failed.astype(float) if measure == "failed" else own[column].to_numpy(float)
            outcomes[str(arm), level] = Outcomes(seeds, values, failed | ~np.isfinite(values), None, names)
    if measure not in ("error", "loss"):
        guess = float(runs["steps"].max()) if measure == "steps" else None
        return Setting(name=cell.name, outcomes=outcomes, guess=guess, labels=cell.labels)
    return Setting(
        name=cell.name,
        outcomes=outcomes,
        design="cut again" if cell.test == "cut again" else "test set",
        counts=measure == "error" and cell.test != "blocks",
        shared=cell.labels["data"],
        test_to_train=cell.test_to_train,
        guess=1 - cell.chance if measure == "error" else cell.guess_loss,
        labels=cell.labels,
    )


def _each(right: np.ndarray, loss: np.ndarray, measure: str, cell: BankCell) -> np.ndarray:
    """The value of each example of a run: wrong or not, or its loss. For a text, the mean of each block of windows."""
    values = ~right if measure == "error" else loss
    values = values.astype(float)
    if values.ndim == 2:  # a text: tokens of windows
        values = values.mean(1)
    return blocks(values, BLOCK) if cell.test == "blocks" else values


def failed_runs(runs: pd.DataFrame, cell: BankCell) -> np.ndarray:
    """Whether each run failed: it diverged, or ended no better on validation than guessing."""
    accuracy = runs["val_accuracy"].fillna(0.0).to_numpy()
    right = np.round(accuracy * cell.validation)
    return (runs["status"] != "completed").to_numpy() | never_above_chance(
        right, cell.validation, cell.chance
    )


def norm_table(bank: Bank, ledger: pd.DataFrame, folder: Path, measure: str = "error") -> pd.DataFrame:
    """Columns: cell, norm, mean over seeds at each seed's best rate, half its interval, failed runs, seeds."""
    rows = []
    for setting in bank_settings(bank, ledger, folder, {norm: norm for norm in bank.norms}, measure):
        for (norm, _), own in setting.outcomes.items():
            trained = own.at(~own.failed)
            row = {
                "cell": setting.name,
                "norm": norm,
                "failed": int(own.failed.sum()),
                "seeds": len(own.seeds),
            }
            if len(trained.seeds) < 3:
                rows.append(row | {"mean": math.nan, "low": math.nan, "high": math.nan})
                continue
            variance, df, third = map(float, noise_of_mean(setting, trained.known_examples))
            mean = UncertainMean(float(trained.values.mean()), variance, df, third)
            low, high = mean.interval(0.95)
            rows.append(row | {"mean": mean.effect, "low": low, "high": high})
    return pd.DataFrame(rows)
