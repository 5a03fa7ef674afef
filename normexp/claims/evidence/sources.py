"""The settings of a claim for the judge: from trained runs, from networks at their start, or from the table of these
that was stored."""

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import pandas as pd
from scipy import stats

from normexp.claims.judge.outcomes import Setting
from normexp.claims.spec.cell import BankCell, labels_of
from normexp.claims.spec.claim import Cells, Claim, split_options
from normexp.runs import TestExamples

MANIPULATION = "manipulation"
NETWORK = "network"  # the part by which networks are told apart
SAME = 1e-4  # the largest relative difference of equal networks: sums are rounded in another order
DIRECTIONS = "depth.direction"
DIFFERENT = {  # of drawn networks before training; a registered protocol holds it
    "passed over": "a draw that has in every arm and seed the values and directions of an earlier one",
    "directions": DIRECTIONS,
    "within": SAME,
}
ABOVE_CHANCE = 0.001  # of a thousand runs that guess, one is taken for a run that learned
MOST_LOSS = 10.0  # times that of guessing, of a run that did not fail
FAILURE_RULES = {
    "p above which a run never got above chance": ABOVE_CHANCE,
    "loss of a drawn run that did not fail, at most, times that of guessing": MOST_LOSS,
}
OF_TEST = {"error": "test_accuracy", "loss": "test_loss"}
Examples = Callable[[str], TestExamples | None]  # of a run


class Source(Protocol):
    """Gives the settings of a part of a claim: "" for the claim itself, `MANIPULATION`, or `NETWORK`."""

    def __call__(self, part: str, cells: Cells) -> list[Setting]: ...

    def table(self) -> pd.DataFrame: ...


class InitialSource:
    """The settings of networks at initialization, from a table: that which was stored, or one of networks made anew."""

    def __init__(self, claim: Claim, table: pd.DataFrame):
        self.claim, self._table = claim, table

    def __call__(self, part: str, cells: Cells) -> list[Setting]:
        rows = self._table[self._table["part"] == part]
        rows = rows[rows["seed"].isin(list(self.claim.seed_range))]
        by_setting = dict(iter(rows.groupby("setting", sort=False)))
        if missing := [name for name in cells if name not in by_setting]:
            raise ValueError(
                f"claim={self.claim.id}: setting={missing[0]}: is not in the stored table; verify it anew"
            )
        return [
            Setting.of_table(by_setting[name], name, labels=initial_labels(self.claim, overrides))
            for name, overrides in cells.items()
        ]

    def table(self) -> pd.DataFrame:
        """One row per part, setting, arm, level and seed."""
        return self._table


def different(source: Source, cells: Cells) -> list[Setting]:
    """The settings without those that are the same network as an earlier one: drawn twice, or apart only in what the
    claim's arms fix or do not use, or in a scale of the weights that a norm removes. Equal values alone, of a measure
    at the end of its range, do not make networks equal."""
    distinct: list[Setting] = []
    seen: list[np.ndarray] = []
    for setting, network in zip(source("", cells), source(NETWORK, cells), strict=True):
        values = [outcomes.values for part in (setting, network) for outcomes in part.outcomes.values()]
        numbers = np.concatenate(values)
        if not any(np.allclose(numbers, other, rtol=SAME, equal_nan=True) for other in seen):
            distinct.append(setting)
            seen.append(numbers)
    return distinct


def table_of(parts: dict[str, list[Setting]]) -> pd.DataFrame:
    """One row per part, setting, arm, level and seed."""
    return pd.DataFrame(
        {
            "setting": setting.name,
            "arm": arm,
            "factor": level,
            "seed": seed,
            "value": value,
            "failed": bool(failed),
            "part": part,
        }
        for part, settings in parts.items()
        for setting in settings
        for (arm, level), outcomes in setting.outcomes.items()
        for seed, value, failed in zip(outcomes.seeds, outcomes.values, outcomes.failed, strict=True)
    )


def initial_labels(claim: Claim, overrides: list[str]) -> dict[str, str]:
    """The labels of a setting of initial networks, for the scope. A network without a data set sees noise."""
    if claim.drawn_from:
        return next(dict(cell.labels) for cell in claim.cells.values() if [*cell.overrides] == overrides)
    labels = labels_of([*split_options(overrides)[0], *claim.fixed])
    noise = "random tokens" if labels.get("model") == "GPT" else "Gaussian noise"
    return {"data": noise} | labels


def setting_of_runs(
    cell: BankCell, runs: pd.DataFrame, measure: str, of: Examples | None = None, column: str = "value"
) -> Setting:
    """From one run of each arm (column `norm`), level (if there are any) and seed.

    Args:
        of: gives the test examples of a run, to know how many there are.
        column: the number of a run where the measure is another than the error or the loss on test.
    """
    failed = failed_runs(runs, cell)
    values = failed if measure == "failed" else runs[OF_TEST.get(measure, column)].to_numpy(float)
    table = pd.DataFrame({
        "arm": runs["norm"], "factor": runs.get("level", ""), "seed": runs["seed"],
        "value": 1 - values if measure == "error" else values, "failed": failed,
    })  # fmt: skip
    guesses = {"error": 1 - cell.chance, "loss": cell.guess_loss, "fit": cell.guess_loss, "failed": 1.0}
    examples = of(str(runs["hash"].iloc[0])) if of and measure == "error" else None
    answers = cell.validation if examples is None else examples.right.size
    return Setting.of_table(
        table,
        cell.name,
        measure=measure,
        guess=float(runs["steps"].max()) if measure == "steps" else guesses.get(measure),
        answer=1 / answers if measure == "error" else 0.0,
        labels=cell.labels,
    )


def unfitted_arms(cell: BankCell, runs: pd.DataFrame, rules: Mapping[str, float]) -> tuple[str, ...]:
    """Arms of a drawn setting of which most runs did not learn to an end: their error on the training split is no less
    than `learned` of guessing's (of a text this is not asked), and that on validation (of a text: the loss) still fell
    by `gain` or more after two fifths of the updates. On a text also those that do not beat the counts of tokens that
    the bank asks for. Arms with runs of the bank's grid are passed over: its pilots fitted them; see `late_gain`."""
    if "late_gain" not in runs:
        return ()
    done = runs[~failed_runs(runs, cell) & runs["late_gain"].notna()]
    of_grid = runs.loc[runs["bank"] == True, "norm"] if "bank" in runs else ()  # noqa: E712  (runs of this disk have none)
    done = done[~done["norm"].isin(of_grid)]
    open_ = done["late_gain"] >= rules["gain"]
    if cell.test == "blocks":
        open_ |= done["val_loss"] >= cell.counts_loss
    else:
        open_ &= 1 - done["train_accuracy"] >= rules["learned"] * (1 - cell.chance)
    return tuple(
        str(arm) for arm, share in open_.groupby(done["norm"], sort=False).mean().items() if share > 0.5
    )


def failed_runs(runs: pd.DataFrame, cell: BankCell) -> np.ndarray:
    """Whether each run failed: it diverged, or only guessed, or ended, in a drawn setting, with a loss above ten times
    that of guessing. It guessed if at its end it had no more validation answers right than guessing gives, by a
    one-sided binomial test at 0.1%; a guess is right with the share of the largest class."""
    if not cell.validation:
        raise ValueError(
            f"setting={cell.name}: its facts are not known; write facts: {{validation: ...}} into its bank"
        )
    right = np.round(runs["val_accuracy"].fillna(0.0).to_numpy(float) * cell.validation)
    guessed = stats.binom.sf(right - 1, cell.validation, cell.chance) > ABOVE_CHANCE
    failed = guessed | (runs["status"] != "completed").to_numpy()
    if cell.draw:
        losses = runs[["train_loss", "val_loss"]].to_numpy(float)  # not a number: failed
        failed |= ~(losses <= MOST_LOSS * cell.guess_loss).all(1)
    return failed
