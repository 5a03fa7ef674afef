"""A folder of runs as one study: its arms, its factor, and the source of its numbers."""

import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from normexp.config.options import suggest
from normexp.format import pluralize
from normexp.report.statistics import LEVEL, NOTHING, Estimate, Values
from normexp.runs import load_summaries, load_test_examples
from normexp.runs.columns import NETWORK, decided_by, varying
from normexp.runs.metrics import bounds_of, higher_is_better, with_metric
from normexp.runs.read import read_metrics
from normexp.runs.table import find_runs, open_runs, read_ledgers, samples_seen

# x of the figures is the first of these that varies.
FACTORS = ("batch_size", "model.depth", "model.width")
# Choices that decide other keys: a norm decides `norm.*`.
GROUPS = ("norm", "model", "data", "optimizer", "schedule")
NORMS = ("none", "batchnorm", "layernorm", "groupnorm", "instancenorm", "rmsnorm")  # the order of arms
LABELS = {  # of others, see `label`
    "lr": "learning rate", "train/loss": "training loss", "val/accuracy": "validation accuracy",
    "val/loss": "validation loss",
}  # fmt: skip
OF_EXAMPLES = ("test/accuracy", "test/loss")  # metrics that runs keep for each test example


@dataclass
class Study:
    """The finished runs of a folder, compared. It adds to their table the columns `arm`, `level` (the value of x; 0
    without a factor) and `key` (seed and kind of execution, which pair runs)."""

    path: Path  # `outputs/<name>`
    metric: str  # the final value to compare
    summaries: pd.DataFrame  # one row per finished run
    better: str | None = None  # higher or lower, where the metric's name does not say it
    unfinished: Sequence[Path] = ()  # folders of runs
    arms: list[str] = field(init=False)
    x: str | None = field(init=False)  # the numeric factor
    rate_varies: bool = field(init=False)  # the learning rate varies beside x, so each point takes its best
    goes_with: dict[str, str] = field(init=False)  # a column that differs -> the column that decides it

    def __post_init__(self) -> None:
        self._examples = cache(lambda run: load_test_examples(self.path / run))
        runs = self.summaries
        check_data(self.path, runs)
        factors, self.goes_with = find_factors(runs)
        # A figure can have as its axis what is a number in every run.
        numbers = runs[factors].select_dtypes("number").dropna(axis=1)
        numeric = [name for name in factors if name in numbers]
        order = [name for name in FACTORS if name in numeric]
        order += [name for name in numeric if name not in (*FACTORS, "lr")]
        # A learning rate is tuned, so that each arm is shown at its best; it is an axis where nothing else varies.
        self.x = order[0] if order else "lr" if factors == ["lr"] else None
        for name in factors[:]:
            if self.x not in (None, name) and name not in GROUPS and decided_by(runs, name, self.x):
                factors.remove(name)
                self.goes_with[name] = self.x
        self.rate_varies = "lr" in factors and self.x != "lr"
        self.parts = [name for name in factors if name not in (self.x, "norm", "lr")]
        runs["arm"] = runs.apply(self._arm, axis=1)
        runs["level"] = runs[self.x] if self.x else 0.0
        self.arms = sorted(runs["arm"].unique(), key=_order)
        execution = runs[["execution.device", "execution.precision"]].astype(str)
        runs["key"] = list(zip(runs["seed"], execution.agg(" ".join, axis=1), strict=True))
        check_points(self)

    def _arm(self, row: pd.Series) -> str:
        return " · ".join([row["norm"], *(_worded(name, row[name]) for name in self.parts)])

    @property
    def name(self) -> str:
        return str(self.summaries["name"].iloc[0])

    @property
    def levels(self) -> list[float]:
        """Values of x in order; [0] in a study without a factor."""
        return sorted(self.summaries["level"].unique())

    def some_levels(self, most: int) -> list[float]:
        """At most so many of the levels, evenly spread with the first and the last."""
        last, most = len(self.levels) - 1, min(most, len(self.levels))
        return [self.levels[round(index * last / max(most - 1, 1))] for index in range(most)]

    @property
    def middle(self) -> float:
        """The level to show in a figure that has room for only one."""
        return self.levels[len(self.levels) // 2]

    def at_level(self, level: float | None = None) -> str:
        """` at` a level in words, by default the middle one; empty in a study without a factor."""
        return f" at {self.level_title(self.middle if level is None else level)}" if self.x else ""

    @property
    def unit(self) -> str:
        """What stands behind a number of the metric: ` points` of accuracies."""
        return " points" if self.metric.endswith("accuracy") else ""

    @property
    def of_shares(self) -> bool:
        """Whether the metric is an accuracy up to 1, which is shown in percent; somebody's own may be in percent."""
        return self.metric.endswith("accuracy") and not (self.summaries[self.metric] > 1).any()

    def level_title(self, level: float) -> str:
        """A level in words, empty in a study without a factor."""
        return f"{label(self.x)} {level:g}" if self.x else ""

    @property
    def higher_is_better(self) -> bool:
        return higher_is_better(self.metric, self.better)

    @cached_property
    def chosen(self) -> pd.DataFrame:
        """The runs of the comparison: all, or at each point the runs with its best learning rate. That is the rate with
        the best mean validation accuracy, where a failed run counts as 0."""
        runs, point = self.summaries, ["arm", "level"]
        if not self.rate_varies:
            return runs
        score = runs.assign(score=runs["val/accuracy"].where(~runs["failed"], 0).fillna(0))
        means = score.groupby([*point, "lr"], dropna=False)["score"].mean().reset_index()
        best = means.loc[means.groupby(point, dropna=False)["score"].idxmax(), [*point, "lr"]]
        return runs.merge(best, on=[*point, "lr"])

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """What chosen runs recorded: arm, level, seed, failed, step, epoch, samples, seconds, metric, value."""
        rows = self.chosen.reset_index(drop=True)
        values = read_metrics([self.path / run for run in rows["run"]])
        run = values.pop("run").to_numpy()
        values["samples"] = samples_seen(rows, run, values["step"])
        for name in ("seed", "failed", "level"):
            values[name] = rows[name].to_numpy()[run]
        values["arm"] = pd.Categorical(rows["arm"], categories=self.arms).take(run)
        return values[np.isfinite(values["value"])]

    def at(self, arm: str, level: float) -> pd.DataFrame:
        """The chosen runs of an arm at a level."""
        return self.chosen[(self.chosen["arm"] == arm) & (self.chosen["level"] == level)]

    def values(self, runs: pd.DataFrame) -> Values:
        """The final values of the runs that have a finite one and did not fail."""
        runs = runs[~runs["failed"] & np.isfinite(runs[self.metric])]
        loaded = [self._examples(run) for run in runs["run"]] if self.metric in OF_EXAMPLES else [None]
        sets = {(run.test_set, run.right.shape) if run else None for run in loaded}
        numbers, answer, test_set = None, 0.0, ""
        if len(sets) == 1 and loaded[0] is not None:
            test_set = loaded[0].test_set
            if self.metric == "test/accuracy":
                numbers = np.stack([run.right.reshape(len(run.right), -1).mean(1) for run in loaded])
                answer = 1 / loaded[0].right.size
            else:
                numbers = np.stack([run.loss.astype(float) for run in loaded])
        values = runs[self.metric].to_numpy(dtype=float)
        return Values(list(runs["key"]), values, numbers, test_set, answer, bounds_of(self.metric, values))

    @cached_property
    def points(self) -> dict[tuple[str, float], Values]:
        """(arm, level) -> its final values, of the runs of the comparison."""
        return {(arm, level): self.values(self.at(arm, level)) for level in self.levels for arm in self.arms}

    @cached_property
    def network(self) -> dict[str, tuple]:
        """Arm -> its network, where norms vary too: then norms are compared in each network, not networks."""
        names = [name for name in NETWORK if name in self.parts and self.summaries["norm"].nunique() > 1]
        return {arm: tuple(map(str, runs[names].iloc[0])) for arm, runs in self.summaries.groupby("arm")}  # type: ignore[misc]

    @cached_property
    def paired(self) -> dict[tuple[float, str, str], Estimate]:
        """(level, first, second) -> the paired difference first - second, of all arms of a network at each level. The
        intervals hold for all of them together (Bonferroni), because a reader picks the largest."""
        pairs = [
            (level, *two)
            for level in self.levels
            for two in itertools.combinations(self.arms, 2)
            if self.network[two[0]] == self.network[two[1]]
            and len({*self.points[two[0], level].keys} & {*self.points[two[1], level].keys}) > 1
        ]
        together = 1 - (1 - LEVEL) / max(len(pairs), 1)
        return {
            (level, first, second): self.points[first, level].minus(self.points[second, level], together)
            for level, first, second in pairs
        }

    @cached_property
    def differences(self) -> pd.DataFrame:
        """The paired differences as a table: level, first, second, difference, low, high, pairs, few."""
        columns = ["level", "first", "second", "difference", "low", "high", "pairs", "few"]
        return pd.DataFrame([(*key, *estimate) for key, estimate in self.paired.items()], columns=columns)

    def difference(self, first: str, second: str, level: float) -> Estimate:
        """The paired difference of two arms, either way around; without an interval of fewer than three pairs."""
        if first == second:
            return NOTHING
        if reverse := self.paired.get((level, second, first)):
            few = tuple(-value for value in reverse.few)
            return Estimate(-reverse.mean, -reverse.high, -reverse.low, reverse.n, few)
        known = self.paired.get((level, first, second))
        return known or self.points[first, level].minus(self.points[second, level])

    def recorded(self, pattern: str) -> pd.DataFrame:
        """The rows whose metric fits a regular expression."""
        names = self.metrics["metric"].cat.categories
        return self.metrics[self.metrics["metric"].isin(names[names.str.fullmatch(pattern)])]

    @property
    def digest(self) -> str:
        """Hash of the study: the hash of its runs' hashes."""
        return hashlib.sha256("".join(sorted(self.summaries["hash"])).encode()).hexdigest()[:8]

    @cached_property
    def open_runs(self) -> list[dict[str, str]]:
        """The runs that have no result."""
        return open_runs(self.path, set(self.summaries["hash"]), self.unfinished)

    @property
    def command(self) -> str:
        """The command that made the runs: of the last sweep, or of one run, with the number of others."""
        if sweeps := read_ledgers(self.path):
            return sweeps[-1]["command"]
        commands = list(dict.fromkeys(self.summaries["command"]))
        return commands[0] + (
            f" (and {pluralize(len(commands) - 1, 'more command')})" if len(commands) > 1 else ""
        )


def open_study(
    path: str | Path,
    metric: str = "test/accuracy",
    only: Mapping[str, str] | None = None,
    better: str | None = None,
) -> Study:
    """Read a folder's finished runs as a study. Raises ValueError with one line for a folder without runs, for runs of
    several studies or data sets, and for a metric that no run recorded, or of which nothing says which way is better.

    Args:
        metric: a final one, or one that runs logged, by its last value.
        only: column -> its values as text, several with commas; other runs are left out.
    """
    path = Path(path)
    _, unfinished = folders = find_runs(path)
    summaries = load_summaries(path, found=folders)
    for key, values in (only or {}).items():
        if key not in summaries:
            raise ValueError(f"{key}={values}: no column of these runs; {suggest(key, [*summaries])}")
        texts = summaries[key].map(as_text)
        if unknown := set(values.split(",")) - set(texts):
            raise ValueError(f"{key}={min(unknown)}: no run has it; choose from {', '.join(texts.unique())}")
        summaries = summaries[texts.isin(values.split(","))].reset_index(drop=True)
    higher_is_better(metric, better)
    summaries = with_metric(summaries, path, metric)
    for column, what in (("name", "studies"), ("data", "data sets")):
        if len(found := sorted(summaries[column].unique())) > 1:
            remedy = f"choose one, {column}={found[0]}"
            raise ValueError(f"path={path}: holds runs of {len(found)} {what}, {', '.join(found)}; {remedy}")
    return Study(path, metric, summaries, better, unfinished)


def check_data(path: Path, summaries: pd.DataFrame) -> None:
    """Refuse runs that saw different contents of their data. Options of the data may decide the content; so may the
    seed, where a user's own class draws it."""
    by = [name for name in varying(summaries) if name.startswith("data.")]
    if "data.kind" in summaries:  # normexp.data.OwnData
        by.append("seed")
    if (summaries.assign(all=0).groupby(["all", *by], dropna=False)["fingerprint"].nunique() > 1).any():
        raise ValueError(
            f"path={path}: its runs saw several contents of the data, as if files had changed between two launches; "
            "keep the runs of one, and give others their own name="
        )


def find_factors(summaries: pd.DataFrame) -> tuple[list[str], dict[str, str]]:
    """The columns in which the runs differ, except the seed and columns that another choice decides. `norm.eps` differs
    between norms, but not within one; so it makes no arm. A column that a choice of another kind decides makes none
    either, and stands in the second result, because it may be the reason of a difference."""
    names = [name for name in varying(summaries) if name not in ("seed", "fingerprint")]
    # A key that equals the seed in every run, such as data.split_seed=${seed}, is the seed.
    names = [name for name in names if not (summaries[name] == summaries["seed"]).all()]
    choices = [name for name in GROUPS if name in names]
    factors, goes_with = list(choices), {}
    for name in names:
        group = name.partition(".")[0]
        if name in choices or (group in choices and decided_by(summaries, name, group)):
            continue
        if deciding := [choice for choice in choices if decided_by(summaries, name, choice)]:
            goes_with[name] = deciding[0]
        else:
            factors.append(name)
    return factors, goes_with


def check_points(study: Study) -> None:
    """Refuse a study in which one seed would count twice at a point."""
    same = study.summaries[study.summaries.duplicated(["arm", "level", "lr", "seed"], keep=False)]
    if len(same):
        row = same.sort_values(["arm", "level", "lr", "seed", "run"])
        first, second = row["run"].iloc[:2]
        raise ValueError(
            f"path={study.path}: {row['arm'].iloc[0]} at seed {row['seed'].iloc[0]} counts twice, by {first} and "
            f"{second}; remove one"
        )


def _order(arm: str) -> tuple:
    """The usual norms first, each followed by its variants."""
    norm = arm.split(" · ")[0]
    near = (index for index, name in enumerate(NORMS) if norm.startswith(name))
    return next(near, len(NORMS)), norm not in NORMS, arm


def _worded(name: str, value: Any) -> str:
    """A value of a factor as part of an arm's name: text unchanged, a number with the factor's name."""
    if isinstance(value, str):
        return value
    text = "null" if value is None or value != value else as_text(value)
    return f"{label(name)} {text}"


def as_text(value: Any) -> str:
    """A number of a factor, with as many digits as tell it from others."""
    return f"{value:.12g}" if isinstance(value, float) else f"{value}"


def label(name: str) -> str:
    """A column's or a metric's name for a figure: `test accuracy` of test/accuracy, `depth` of model.depth."""
    last = re.split(r"\.(?!\d)", name)[-1]  # `steps_to_0.9` of convergence.steps_to_0.9
    return LABELS.get(name, last.replace("_", " ").replace("/", " "))
