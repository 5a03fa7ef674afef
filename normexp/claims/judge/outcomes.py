"""The results of a setting's runs: one number per run, one per test example, and which runs failed."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Design = Literal["seeds", "test set", "cut again"]
DESIGNS = ("seeds", "test set", "cut again")


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


Arm = tuple[str, Hashable]  # name of an arm, level of the factor ("" if there is none)


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
        if self.design not in DESIGNS:
            raise ValueError(f"design={self.design}: choose from {', '.join(DESIGNS)}")
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
