"""The results of a setting's runs: one number per run, and which runs failed."""

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd  # slow to import, and reading claims, as `--help` does, needs none

Arm = tuple[str, Hashable]  # name of an arm, level of the factor ("" if there is none)
COLUMNS = ["arm", "factor", "seed", "value"]  # of evidence in one setting


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The runs of one arm at one level of the factor."""

    seeds: np.ndarray  # (n,) whole numbers, ascending. They pair the arms
    values: np.ndarray  # (n,) the measure of each run; ignored for a failed run
    failed: np.ndarray  # (n,) whether a run diverged or never learned
    # (n,) whether a value is a lower bound: the steps of a run that never reached its target. None: no value is.
    unreached: np.ndarray | None = None

    def at(self, rows: np.ndarray) -> "Outcomes":
        """Some of the runs. `rows` is a mask or a list of places."""
        unreached = None if self.unreached is None else self.unreached[rows]
        return Outcomes(self.seeds[rows], self.values[rows], self.failed[rows], unreached)

    def guessing(self, guess: float) -> "Outcomes":
        """These outcomes, with a failed run counted as one that guesses."""
        return replace(
            self, values=np.where(self.failed, guess, self.values), failed=np.zeros_like(self.failed)
        )


ByArm = Mapping[Arm, Outcomes]  # of each arm and level, with the same seeds


@dataclass(frozen=True, eq=False)
class Setting:
    """One named draw of what a sentence leaves open, with the runs of every arm in it."""

    name: str  # as in the claim's yaml, or of the draw
    outcomes: ByArm
    quantity: str = "value"  # `error` and `loss` have margins of practice; see `practical_margin`
    # Value of a run that learned nothing: 0.9 for errors in ten classes, log(classes) for a loss, all steps for a time.
    # None: not known.
    guess: float | None = None
    # What one answer is worth, 1 / (number of test examples), for an error; else 0. Half of it is added to errors
    # before their logarithm is taken, so that no error has one, too (Haldane, Anscombe).
    answer: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)  # such as {"data": "MNIST", "model": "MLP"}
    unfitted: tuple[str, ...] = ()  # arms that had not learned to an end at this setting's length
    learned: bool | None = None  # whether networks learn this setting; see `BankCell`

    def __post_init__(self):
        seeds = [tuple(outcomes.seeds) for outcomes in self.outcomes.values()]
        if any(arm_seeds != seeds[0] for arm_seeds in seeds):
            raise ValueError(
                f"setting={self.name}: arms have other seeds; a missing run decides nothing, run it"
            )

    def values_of(self, arm: str) -> np.ndarray:
        """(n,) the value of each run of an arm without levels, a failed one counted as a guess."""
        return self.outcomes[arm, ""].guessing(1.0 if self.guess is None else self.guess).values

    @classmethod
    def of_table(cls, table: "pd.DataFrame", name: str = "", **options) -> "Setting":
        """A setting with one number per seed, from the columns arm, factor, seed, value and, if runs may fail with a
        number, failed; of steps also unreached. A value that is not a number is a failure."""
        outcomes: dict[Arm, Outcomes] = {}
        for (arm, level), rows in table.groupby(["arm", "factor"], sort=False):
            rows = rows.sort_values("seed")
            values = rows["value"].to_numpy(float)
            failed = ~np.isfinite(values) | (rows["failed"].to_numpy(bool) if "failed" in rows else False)
            unreached = rows["unreached"].to_numpy(bool) & ~failed if "unreached" in rows else None
            outcomes[str(arm), level] = Outcomes(rows["seed"].to_numpy(), values, failed, unreached)
        return cls(name, outcomes, **options)


def unreached_runs(outcomes: ByArm) -> dict[str, int]:
    """Arm -> runs that never reached their target, over all levels; only arms that have one."""
    counted = Counter[str]()
    for (arm, _), runs in outcomes.items():
        counted[arm] += 0 if runs.unreached is None else int(runs.unreached.sum())
    return {arm: n for arm, n in counted.items() if n}


def paired_runs(by_arm: ByArm) -> ByArm:
    """The runs of the seeds at which every one of them gave a number."""
    trained = ~np.any([outcomes.failed for outcomes in by_arm.values()], axis=0)
    return {arm: outcomes.at(trained) for arm, outcomes in by_arm.items()}


@dataclass(frozen=True, kw_only=True)
class Failures:
    """The runs of an arm over all levels and settings."""

    failed: int
    of: int


def lost_runs(settings: Iterable[ByArm]) -> dict[str, Failures]:
    """Arm -> its runs, and how many of them failed, over all levels and the outcomes of several settings."""
    failed, of = Counter[str](), Counter[str]()
    for (arm, _), runs in itertools.chain(*(outcomes.items() for outcomes in settings)):
        failed[arm] += int(runs.failed.sum())
        of[arm] += len(runs.seeds)
    return {arm: Failures(failed=failed[arm], of=of[arm]) for arm in of}


def arm_means(settings: Sequence[Setting]) -> dict[str, dict[str, float]]:
    """Mean value of each arm in each setting, over the seeds at which it trained; nan if it never did."""
    means: dict[str, dict[str, float]] = {}
    for setting in settings:
        for (arm, level), outcomes in setting.outcomes.items():
            trained = outcomes.values[~outcomes.failed]
            name = f"{setting.name} {level}".strip()
            means.setdefault(arm, {})[name] = float(trained.mean()) if len(trained) else math.nan
    return means
