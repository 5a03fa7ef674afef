"""The results of a setting's runs: one number per run, one per test example, and which runs failed."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import pandas as pd

Design = Literal["seeds", "test set", "cut again"]
Arm = tuple[str, Hashable]  # name of an arm, level of the factor ("" if there is none)
COLUMNS = ["arm", "factor", "seed", "value", "censored"]


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The runs of one arm at one level of the factor.

    Attributes:
        seeds: (n,) whole numbers, ascending. They pair the arms.
        values: (n,) the measure of each run; ignored for a failed run.
        failed: (n,) whether a run diverged or was never above chance.
        examples: (n, E) wrong (1) or right (0), or the loss, of each test example or block; None if there are none.
        runs: (n,) names of the runs, to find settings that share runs; empty if none can be shared.
    """

    seeds: np.ndarray
    values: np.ndarray
    failed: np.ndarray
    examples: np.ndarray | None = None
    runs: tuple[str, ...] = ()

    @property
    def known_examples(self) -> np.ndarray:
        """`examples`. Raises ValueError if there are none."""
        if self.examples is None:
            raise ValueError("examples: the runs have none; train them again, or give design=seeds")
        return self.examples

    @classmethod
    def of_examples(
        cls, seeds: Iterable[int], examples: np.ndarray, failed: np.ndarray | None = None
    ) -> "Outcomes":
        """Runs with known examples. The value of a run is their mean."""
        examples = np.asarray(examples, float)  # (n, E)
        failed = np.zeros(len(examples), bool) if failed is None else np.asarray(failed, bool)
        return cls(np.array(list(seeds)), examples.mean(1), failed, examples)

    def at(self, rows: np.ndarray) -> "Outcomes":
        """Some of the runs. `rows` is a mask or a list of places."""
        runs = tuple(np.array(self.runs, object)[rows]) if self.runs else ()
        examples = None if self.examples is None else self.examples[rows]
        return Outcomes(self.seeds[rows], self.values[rows], self.failed[rows], examples, runs)

    def guessing(self, guess: float) -> "Outcomes":
        """The same outcomes, with a failed run counted as one that guesses."""
        examples = self.examples
        if examples is not None:
            examples = np.where(self.failed[:, None], guess, examples)
        values = np.where(self.failed, guess, self.values)
        return Outcomes(self.seeds, values, np.zeros_like(self.failed), examples, self.runs)


@dataclass(frozen=True, eq=False)
class Setting:
    """One named cell of what a sentence leaves open, with the runs of every arm in it.

    Attributes:
        name: as in the claim's yaml.
        outcomes: of each arm and level, with the same seeds.
        design: `test set` if every seed had the same test examples; `cut again` if each seed cut its own split from one
            pool; `seeds` if the measure has no examples.
        counts: whether examples are wrong answers, which are counted, and not losses.
        shared: label of the test set or pool. Settings with the same label share its examples. Empty: they share none.
        test_to_train: number of test examples divided by training examples, if the split is cut again.
        guess: value of a run that learned nothing: 0.9 for errors in ten classes, log(classes) for a loss, the steps of
            the whole run for a time. None: not known.
        labels: the words of the scope, such as {"data": "MNIST", "model": "MLP"}.
    """

    name: str
    outcomes: Mapping[Arm, Outcomes]
    design: Design = "seeds"
    counts: bool = False
    shared: str = ""
    test_to_train: float = 0.0
    guess: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self):
        if self.design not in get_args(Design):
            raise ValueError(f"design={self.design}: choose from {', '.join(get_args(Design))}")
        seeds = [tuple(own.seeds) for own in self.outcomes.values()]
        if any(own != seeds[0] for own in seeds):
            raise ValueError(
                f"setting={self.name}: arms have other seeds; a missing run decides nothing, run it"
            )
        needed = self.design == "test set" or self.counts
        if needed and any(own.examples is None for own in self.outcomes.values()):
            raise ValueError(
                f"setting={self.name}: runs without test examples; train them again, or give design=seeds"
            )

    @classmethod
    def of_table(cls, table: pd.DataFrame, name: str = "", **options) -> "Setting":
        """A setting with one number per seed, from the columns arm, factor, seed and value. A value that is not a
        number is a failure."""
        outcomes: dict[Arm, Outcomes] = {}
        for (arm, level), rows in table.groupby(["arm", "factor"], sort=False):
            rows = rows.sort_values("seed")
            values = rows["value"].to_numpy(float)
            outcomes[str(arm), level] = Outcomes(rows["seed"].to_numpy(), values, ~np.isfinite(values))
        return cls(name, outcomes, **options)

    @property
    def levels(self) -> list:
        return list(dict.fromkeys(level for _, level in self.outcomes))


def blocks(losses: np.ndarray, size: int) -> np.ndarray:
    """Mean losses of neighboring windows of a text, (..., windows) -> (..., windows // size). Neighbors are alike, so a
    text is a sample of blocks. Windows that do not fill a block are omitted."""
    count = losses.shape[-1] // size
    if count < 2:
        raise ValueError(
            f"size={size}: {losses.shape[-1]} windows give {count} blocks; at least 2 are needed"
        )
    return losses[..., : count * size].reshape(*losses.shape[:-1], count, size).mean(-1)


def make_table(rows: list[dict]) -> pd.DataFrame:
    """Evidence in one setting, with the columns arm, factor, seed, value, censored. `factor` and `censored` may be
    omitted. A censored value is a time at which a run stopped before it reached its target."""
    table = pd.DataFrame(rows)
    for column, default in (("factor", ""), ("censored", False)):
        if column not in table:
            table[column] = default
    return table[COLUMNS]


def check_complete(table: pd.DataFrame, arms: list[str], factors: list, seeds: list[int]) -> None:
    """Raise ValueError unless every (arm, factor, seed) occurs exactly once. A missing run is an error."""
    found = list(table[["arm", "factor", "seed"]].itertuples(index=False, name=None))
    wanted = [(arm, factor, seed) for arm in arms for factor in factors for seed in seeds]
    missing = [cell for cell in wanted if cell not in set(found)]
    if missing:
        arm, factor, seed = missing[0]
        raise ValueError(
            f"evidence: {len(missing)} of {len(wanted)} values are missing, the first arm={arm} factor={factor} "
            f"seed={seed}; run it, since a missing run decides nothing"
        )
    if len(found) != len(set(found)):
        raise ValueError("evidence: the same arm, factor and seed stand there twice; keep one row of each")
