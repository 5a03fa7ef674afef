"""Train the pilots of a drawn bank, one setting after the other in the order drawn, and write down what they found.

    python scripts/research/pilots.py mine.yaml --out outputs/pilots

`mine.pilots.jsonl` has one line for each draw: its length and rates, or why it was rejected. Finished runs are not
trained again, so an interrupted command goes on where it was.

Every arm first searches its best rate at the first length, on validation. Then the length doubles, each arm at that
rate, until every arm that did not fail is fitted: its error on the training split is below a share of guessing's
(images), or twice the length lowers its error (text: its loss) on validation by less than a share. A bank may add that
a text is not fitted while counts of a few tokens predict it better. An arm that is fitted at one length is fitted at
all longer ones. No rule compares arms.
"""

import argparse
import json
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from normexp.claims.evidence.disk import complete, overrides_of, row_of
from normexp.claims.evidence.grid import overrides_text
from normexp.claims.evidence.rates import neighbor
from normexp.claims.evidence.settings import failed_runs
from normexp.claims.spec.bank import Bank, load_bank, pilots_file
from normexp.claims.spec.cell import BankCell
from normexp.claims.spec.population import FACTS, Length
from normexp.config.errors import one_line_errors
from normexp.config.run_spec import RunSpec, specs
from normexp.machine import processor
from normexp.norms.base import Norm
from normexp.runs import read_summary
from normexp.sweeps.estimate import step_of, timed
from normexp.sweeps.run import run as train
from normexp.training.build import Parts, build

ORDER = 4  # characters in a row, whose counts a network must beat before it has learned more
Tokens = NDArray[np.int64]


@dataclass(frozen=True, order=True)
class PilotRun:
    """A run that a pilot asks for."""

    norm: str
    rate: float
    updates: int


@dataclass(frozen=True)
class Result:
    """What a finished run came to: `score`, error on validation (of a text its loss); `learned`, error on the training
    split over that of guessing (infinite of a text, since none is learned); and whether it `failed`."""

    score: float
    learned: float
    failed: bool


@dataclass(frozen=True)
class Rules:
    """The rules of one setting: the rates of its first search, the first length in updates, the core-seconds of an
    update, and the score of counts, above which no arm is fitted by what it gains."""

    norms: Sequence[str]
    rates: Sequence[float]
    start: int
    step_seconds: float
    length: Length
    most_score: float = math.inf

    def costs_too_much(self, updates: int) -> bool:
        return updates * self.step_seconds > self.length.seconds


@dataclass
class Progress:
    """Where a pilot is: the runs `to_train` next, or none at an end; then the length in `updates`, or why it is
    `rejected`. `best`: rate of each arm; `fitted`: the length at which an arm first was, without those that failed."""

    to_train: list[PilotRun] = field(default_factory=list)
    updates: int = 0
    best: dict[str, float] = field(default_factory=dict)
    fitted: dict[str, int] = field(default_factory=dict)
    rejected: str = ""


def progress(rules: Rules, results: Mapping[PilotRun, Result]) -> Progress:
    """What the finished runs say; it is asked again when the wanted ones are finished."""
    state, cost = Progress(), rules.start * rules.step_seconds
    if cost > rules.length.start_seconds:
        state.rejected = f"the first length, {rules.start} updates, costs {cost:.0f} core-seconds"
        return state
    for norm in rules.norms:
        _search(norm, rules, results, state)
    updates = rules.start
    while not state.to_train and not state.rejected:
        if _fit(updates, rules, results, state):
            state.updates = updates
            break
        updates *= 2
    return state


def _search(norm: str, rules: Rules, results: Mapping[PilotRun, Result], state: Progress) -> None:
    """The best rate of an arm at the first length. While it is the lowest or the highest, the grid grows there."""
    grid = sorted(rules.rates)
    for left in range(rules.length.widenings, -1, -1):
        runs = [PilotRun(norm, rate, rules.start) for rate in grid]
        if missing := [run for run in runs if run not in results]:
            state.to_train += missing
            return
        best = min(runs, key=lambda run: (results[run].failed, results[run].score, run.rate))
        state.best[norm] = best.rate
        if not left or results[best].failed or best.rate not in (grid[0], grid[-1]):
            return
        grid = sorted([*grid, neighbor(best.rate, 1 if best.rate == grid[-1] else -1)])


def _fit(updates: int, rules: Rules, results: Mapping[PilotRun, Result], state: Progress) -> bool:
    """Whether every arm that did not fail at this length is fitted; else `state` has what is missing."""
    if rules.costs_too_much(updates):
        state.rejected = f"not fitted at {updates // 2} updates, and a run of {updates} would cost too much"
        return False
    at = {norm: PilotRun(norm, state.best[norm], updates) for norm in rules.norms if norm not in state.fitted}
    if missing := [run for run in at.values() if run not in results]:
        state.to_train += missing
        return False
    trained = [norm for norm, run in at.items() if not results[run].failed]
    state.fitted |= {norm: updates for norm in trained if results[at[norm]].learned < rules.length.learned}
    doubled = {n: PilotRun(n, state.best[n], 2 * updates) for n in trained if n not in state.fitted}
    if doubled and rules.costs_too_much(2 * updates):
        cost = 2 * updates * rules.step_seconds
        state.rejected = (
            f"{', '.join(doubled)} not known to be fitted at {updates} updates, and twice as many would "
        )
        state.rejected += f"cost {cost:.0f} core-seconds"
        return False
    if missing := [run for run in doubled.values() if run not in results]:
        state.to_train += missing
        return False
    for norm, run in doubled.items():
        score = results[at[norm]].score
        gains_little = results[run].failed or results[run].score > (1 - rules.length.gain) * score
        if gains_little and score < rules.most_score:
            state.fitted[norm] = updates
    return bool(state.fitted) and all(norm in state.fitted for norm in trained)


class Pilot:
    """The pilot of one complete setting. Raises ValueError for one that cannot be built."""

    def __init__(self, bank: Bank, cell: BankCell, out: Path):
        assert bank.population is not None
        assert bank.population.length is not None
        self.length, self.norms, self.out = bank.population.length, bank.norms, out
        self.cell = cell
        self.found: dict[PilotRun, dict[str, Any]] = {}  # finished runs
        built = [build(self.specs(norm, 1, [cell.rates[0]])[0]) for norm in self.norms]
        seconds = statistics.mean(
            timed(step_of(parts, parts.make_trainer(enable_checkpointing=False))[0]) for parts in built
        )
        self.values, self.counts = fewest_values(built[-1]), self.counts_of(built[0].data)
        start = max(
            self.length.updates, math.ceil(self.length.passes * len(built[0].data.train_dataloader()))
        )
        most = self.counts.get("counts_loss", math.inf)
        step_seconds = float(f"{seconds:.3g}")
        self.rules = Rules(self.norms, cell.rates, start, step_seconds, self.length, most)

    def specs(self, norm: str, updates: int, rates: list[float]) -> list[RunSpec]:
        length = (f"max_steps={updates}", f"val_every_n_steps={max(1, updates // 2)}")
        text = overrides_text((*self.cell.overrides, *length, f"norm={norm}"))
        return specs(overrides_of(text, self.out), seeds=[self.length.seed], rates=rates)

    def counts_of(self, data: Any) -> dict[str, float]:
        """Of a text, the losses of counts on validation: of as many tokens as the bank asks for, and of four."""
        if data.kind != "text":
            return {}
        split = [data.splits[name].x.long().flatten().numpy() for name in ("train", "val")]
        orders = {"counts_loss": self.length.ngrams or 0, "learned_loss": ORDER}
        return {
            name: round(ngram_loss(split[0], split[1], n, data.num_classes), 4)
            for name, n in orders.items()
            if n
        }

    def run(self) -> dict[str, Any]:
        """Train until the rules come to an end, and say what was found. Exits where a run fails to train."""
        while True:
            results = {run: self.result(row) for run, row in self.found.items()}
            state = progress(self.rules, results)
            if not state.to_train:
                return self.row(state)
            rates_of = defaultdict[tuple[str, int], list[float]](list)
            for run in state.to_train:
                rates_of[run.norm, run.updates].append(run.rate)
            asked = {
                PilotRun(norm, spec.config["lr"], updates): spec
                for (norm, updates), rates in rates_of.items()
                for spec in self.specs(norm, updates, rates)
            }
            names = [
                f"{self.cell.name} norm={run.norm} lr={run.rate:g} updates={run.updates}" for run in asked
            ]
            train(list(asked.values()), folder=self.out / ".sweeps", names=names)
            for run, spec in asked.items():
                if (summary := read_summary(spec.folder)) is None:
                    sys.exit(f"{spec.folder}: did not train; the same command tries again")
                self.found[run] = row_of(summary)

    def result(self, row: dict[str, Any]) -> Result:
        text, failed = self.cell.test == "blocks", bool(failed_runs(pd.DataFrame([row]), self.cell)[0])
        score = row["val_loss"] if text else 1 - row["val_accuracy"]
        learned = math.inf if text else (1 - row["train_accuracy"]) / (1 - self.cell.chance)
        if math.isnan(score) or math.isnan(learned):  # it diverged before its first validation
            return Result(math.inf, math.inf, True)
        return Result(score, learned, failed)

    def row(self, state: Progress) -> dict[str, Any]:
        """The line of this draw."""
        cost = sum(run.updates for run in self.found) * self.rules.step_seconds
        row = {"runs": len(self.found), "seconds": round(cost, 1), "step_seconds": self.rules.step_seconds}
        row |= {"start": self.rules.start, **self.counts}
        if state.rejected:
            return {"rejected": state.rejected, **row}
        ends = {norm: self.found[PilotRun(norm, state.best[norm], at)] for norm, at in state.fitted.items()}
        names = ("train_accuracy", "val_accuracy", "val_loss")
        return row | {
            "updates": state.updates,
            "rates": {
                norm: [neighbor(best, -1), best, neighbor(best, 1)] for norm, best in state.best.items()
            },
            "fitted": state.fitted,
            "failed": [norm for norm in self.norms if norm not in state.fitted],
            "ends": {norm: {name: round(end[name], 4) for name in names} for norm, end in ends.items()},
            "values_per_statistic": self.values,
            **{fact: getattr(self.cell, fact) for fact in FACTS},
        }


def fewest_values(parts: Parts) -> int:
    """The fewest values that a BatchNorm takes each statistic over in this network: batch x positions."""
    sizes, model = [0], parts.module.model
    for layer in model.modules():
        if isinstance(layer, Norm):
            layer.register_forward_hook(
                lambda layer, inputs, y: sizes.append(y.numel() // layer.num_features)
            )
    model(next(iter(parts.data.train_dataloader()))[0])
    return min(sizes[1:], default=0)


def ngram_loss(train: Tokens, validation: Tokens, order: int, vocabulary: int) -> float:
    """Loss of an n-gram model with Witten-Bell smoothing, in nats a token.

    p(c | h) = (n(h c) + k(h) p(c | h')) / (n(h) + k(h)), where n counts in `train`, k(h) is the number of different
    tokens that follow h there, and h' is h without its first token. Without h: p(c) = (n(c) + 1) / (N + V), so that a
    token that `train` lacks is possible; the `chance_loss` of a data set gives `train`'s own shares, unsmoothed.

    Source: Witten and Bell 1991, The zero-frequency problem; Chen and Goodman 1999, An empirical study of smoothing
    techniques for language modeling.

    Args:
        train, validation: tokens from 0 to V - 1, in the order of the text.
        order: n, the number of tokens in a row that are counted.
        vocabulary: V. V to the power of n must be below 2^63: each sequence is counted under one integer.

    Returns:
        Mean of -log p over `validation` from its token n on, which are the tokens with n - 1 others before them.
    """
    if len(validation) < order:
        raise ValueError(f"validation: has {len(validation)} tokens; counts of {order} need as many")
    if vocabulary**order >= 2**63:
        raise ValueError(
            f"ngrams={order}: too many for a vocabulary of {vocabulary}: its power must be below 2^63; ask for fewer"
        )
    p = (np.bincount(train, minlength=vocabulary)[validation] + 1) / (len(train) + vocabulary)
    for length in range(2, order + 1):
        seen, counts = np.unique(_rows(train, length, vocabulary), return_counts=True)
        before, first = np.unique(seen // vocabulary, return_index=True)
        totals, followers = np.add.reduceat(counts, first), np.diff(first, append=len(seen))
        asked = _rows(validation, length, vocabulary)
        together = _look_up(seen, counts, asked)
        total, k = (_look_up(before, values, asked // vocabulary) for values in (totals, followers))
        lower = p[1:]
        p = np.where(total > 0, (together + k * lower) / np.maximum(total + k, 1), lower)
    return float(-np.log(p).mean())


def _rows(tokens: Tokens, length: int, vocabulary: int) -> Tokens:
    """A number for each `length` tokens in a row; the last token is its last digit in base V."""
    windows = np.lib.stride_tricks.sliding_window_view(tokens, length)
    return windows @ vocabulary ** np.arange(length - 1, -1, -1)


def _look_up(keys: Tokens, values: Tokens, asked: Tokens) -> Tokens:
    """The value of each key that is asked for; 0 for one that is not among the sorted keys."""
    index = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[index] == asked, values[index], 0)


def train_pilots(word: str, out: Path) -> None:
    """Train the pilots of the settings of a bank that have none."""
    bank = load_bank(word)
    if bank.population is None:
        raise ValueError(f"bank={bank.name}: has no population; name one that is drawn, such as bank=drawn")
    first_rates = bank.population.rates
    while cell := next((cell for cell in bank.cells.values() if not cell.updates), None):
        rates = first_rates[cell.labels["optimizer"]]
        whole = complete(cell.model_copy(update={"rates": rates}))  # data that are not here reject nothing
        try:
            pilot = Pilot(bank, whole, out)
        except ValueError as error:  # it cannot be built
            found = {"rejected": str(error), "seconds": 0.0}
        else:
            found = pilot.run()
        row = {
            "draw": cell.draw,
            "setting": cell.name,
            **found,
            "torch": version("torch"),
            "processor": processor(),
        }
        with pilots_file(bank.path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{cell.name} ({cell.draw}): {row.get('rejected') or row['updates']}", flush=True)
        bank = load_bank(word)
    print(f"bank={word}: {len(bank.cells)} settings have pilots: {pilots_file(bank.path)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bank")
    parser.add_argument("--out", type=Path, default=Path("outputs/pilots"))
    given = parser.parse_args()
    with one_line_errors():
        train_pilots(given.bank, given.out)
