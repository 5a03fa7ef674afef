"""From trained runs to settings for the judge: one run per arm, level and seed."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from scipy import stats

from normexp.claims.judge.outcomes import Arm, Outcomes, Setting
from normexp.claims.spec.bank import BankCell
from normexp.runs import TestExamples

ABOVE_CHANCE = 0.001  # of a thousand runs that guess, one is taken for a run that learned
MOST_LOSS = 10.0  # times that of guessing, of a run that did not fail
FAILURE_RULES = {
    "p above which a run never got above chance": ABOVE_CHANCE,
    "loss of a drawn run that did not fail, at most, times that of guessing": MOST_LOSS,
}
OF_TEST = {"error": "test_accuracy", "loss": "test_loss"}
Examples = Callable[[str], TestExamples | None]  # of a run


def setting_of_runs(
    cell: BankCell, runs: pd.DataFrame, measure: str, of: Examples | None = None, column: str = "value"
) -> Setting:
    """From one run of each arm (column `norm`), level (if there are any) and seed.

    Args:
        of: gives the test examples of a run, to know how many there are.
        column: the number of a run where the measure is another than the error or the loss on test.
    """
    runs = runs if "level" in runs else runs.assign(level="")
    failed = failed_runs(runs, cell)
    values = (
        failed.astype(float) if measure == "failed" else runs[OF_TEST.get(measure, column)].to_numpy(float)
    )
    values = 1 - values if measure == "error" else values
    runs = runs.assign(measured=values, failed=failed | ~np.isfinite(values))
    outcomes: dict[Arm, Outcomes] = {}
    for (arm, level), unsorted in runs.groupby(["norm", "level"], sort=False):
        arm_runs = unsorted.sort_values("seed")
        outcomes[str(arm), level] = Outcomes(
            *(arm_runs[c].to_numpy() for c in ("seed", "measured", "failed"))
        )
    guesses = {"error": 1 - cell.chance, "loss": cell.guess_loss, "fit": cell.guess_loss, "failed": 1.0}
    examples = of(str(runs["hash"].iloc[0])) if of and measure == "error" else None
    answers = cell.validation if examples is None else examples.right.size
    return Setting(
        name=cell.name,
        outcomes=outcomes,
        measure=measure,
        guess=float(runs["steps"].max()) if measure == "steps" else guesses.get(measure),
        answer=1 / answers if measure == "error" else 0.0,
        labels=cell.labels,
    )


def unfitted_arms(cell: BankCell, runs: pd.DataFrame, rules: Mapping[str, float]) -> tuple[str, ...]:
    """Arms of a drawn setting of which most runs did not learn to an end: their error on the training split is no less
    than `learned` of guessing's (of a text this is not asked), and that on validation (of a text: the loss) still fell
    by `gain` or more after two fifths of the updates. Arms of the bank were fitted by its pilots; see `late_gain`."""
    if "late_gain" not in runs:
        return ()
    done = runs[~failed_runs(runs, cell) & runs["late_gain"].notna()]
    done = done[done["bank"] != True] if "bank" in done else done  # noqa: E712  (runs of this disk have none)
    open_ = done["late_gain"] >= rules["gain"]
    if cell.test != "blocks":
        open_ &= 1 - done["train_accuracy"] >= rules["learned"] * (1 - cell.chance)
    return tuple(
        str(arm) for arm, share in open_.groupby(done["norm"], sort=False).mean().items() if share > 0.5
    )


def failed_runs(runs: pd.DataFrame, cell: BankCell) -> np.ndarray:
    """Whether each run failed: it diverged, or ended no better on validation than guessing, or, in a drawn setting,
    with a loss above ten times that of guessing."""
    if not cell.validation:
        raise ValueError(
            f"setting={cell.name}: its facts are not known; write facts: {{validation: ...}} into its bank"
        )
    right = np.round(runs["val_accuracy"].fillna(0.0).to_numpy(float) * cell.validation)
    failed = (
        never_above_chance(right, cell.validation, cell.chance) | (runs["status"] != "completed").to_numpy()
    )
    if cell.draw:
        losses = runs[["train_loss", "val_loss"]].to_numpy(float)  # not a number: failed
        failed |= ~(losses <= MOST_LOSS * cell.guess_loss).all(1)
    return failed


def never_above_chance(right: np.ndarray, examples: int, chance: float) -> np.ndarray:
    """Whether each run only guessed: at its best validation it had `right` of `examples` answers right, no more than
    guessing gives, by a one-sided binomial test at 0.1%. `chance` is the share of the largest class."""
    return stats.binom.sf(np.asarray(right) - 1, examples, chance) > ABOVE_CHANCE
