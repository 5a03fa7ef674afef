"""From the ledger to settings for the judge: every seed at its own best rate, with its test examples."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from normexp.claims.evidence.ledger import read_examples, read_ledger, tuned_runs
from normexp.claims.judge.failures import never_above_chance
from normexp.claims.judge.outcomes import Arm, Outcomes, Setting, blocks
from normexp.claims.spec.bank import Bank, BankCell

BLOCK = 16  # windows of a text that count as one example


def bank_settings(
    bank: Bank,
    folder: Path,
    arms: Mapping[str, str],
    measure: str,
    cells: Sequence[str] = (),
    rate: str = "own",
) -> list[Setting]:
    """The settings of the bank in which every arm is finished.

    Args:
        folder: of the ledger.
        arms: name of an arm -> norm of the bank.
        measure: `error` (wrong answers) or `loss` on test. The same measure on validation chooses the rates. Or
            `failed`, for which no test examples are read.
        cells: names of cells; empty for all.
        rate: `own`, the best rate of each seed, or the `lowest`, `middle` or `highest` of the cell's grid.
    """
    names = list(cells or bank.cells)
    ledger = read_ledger(folder, names)
    found = []
    for name in names:
        cell = bank.cell(name)
        runs = ledger[ledger["cell"] == name]
        runs = runs[runs["norm"].isin(set(arms.values()))] if len(runs) else runs
        if len(runs) == len(cell.rates) * bank.seeds * len(set(arms.values())):
            at_rate = tuned_runs(runs, measure) if rate == "own" else runs[runs["lr"] == cell.rate(rate)]
            found.append(_setting(cell, at_rate, arms, measure, folder))
    return found


def _setting(
    cell: BankCell, runs: pd.DataFrame, arms: Mapping[str, str], measure: str, folder: Path
) -> Setting:
    """A setting from one run per norm and seed."""
    outcomes: dict[Arm, Outcomes] = {}
    for arm, norm in arms.items():
        own = runs[runs["norm"] == norm].sort_values("seed")
        failed, names = _failed(own, cell), tuple(own["hash"])
        if measure == "failed":
            outcomes[arm, ""] = Outcomes(own["seed"].to_numpy(), failed.astype(float), failed, None, names)
            continue
        of = read_examples(folder, cell.name)
        values = np.stack([_each(item.right, item.loss, measure, cell) for item in map(of, own["hash"])])
        outcomes[arm, ""] = Outcomes(own["seed"].to_numpy(), values.mean(1), failed, values, names)
    if measure == "failed":
        return Setting(name=cell.name, outcomes=outcomes, labels=cell.labels)
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


def _failed(runs: pd.DataFrame, cell: BankCell) -> np.ndarray:
    """Whether each run failed: it diverged, or ended no better on validation than guessing."""
    accuracy = runs["val_accuracy"].fillna(0.0).to_numpy()
    right = np.round(accuracy * cell.validation)
    return (runs["status"] != "completed").to_numpy() | never_above_chance(
        right, cell.validation, cell.chance
    )


def norm_table(bank: Bank, folder: Path, measure: str = "error") -> pd.DataFrame:
    """Columns: cell, norm, mean over seeds at each seed's best rate, half its interval, failed runs, seeds."""
    from normexp.claims.judge.noise import crossed, cut_again
    from normexp.claims.judge.uncertain_mean import UncertainMean

    rows = []
    for setting in bank_settings(bank, folder, {norm: norm for norm in bank.norms}, measure):
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
            noise = (
                cut_again(trained.values, setting.test_to_train)
                if setting.design == "cut again"
                else crossed(trained.known_examples)
            )
            mean = UncertainMean(float(trained.values.mean()), *map(float, noise))
            low, high = mean.interval(0.95)
            rows.append(row | {"mean": mean.effect, "low": low, "high": high})
    return pd.DataFrame(rows)
