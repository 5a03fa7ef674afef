"""Evidence from training: runs of every arm with the same seeds, in a cache that all claims share."""

import dataclasses
import hashlib
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pandas as pd

from normexp.claims.evidence.metric import read_metric
from normexp.claims.evidence.subjects import with_recipe
from normexp.claims.evidence.wanted import Rates, Wanted, tuning, wanted
from normexp.claims.judge.outcomes import check_complete, make_table
from normexp.claims.spec.claim import Claim
from normexp.config.code import changed, in_words
from normexp.config.compose import Composer, composer
from normexp.config.run_spec import RunSpec, specs
from normexp.runs import finished_summary, read_summary
from normexp.sweeps.cell import Cell


class Runs:
    """The runs of one claim in the cache that claims share: where each lies, what it came to, what all of them cost.

    Args:
        command: the command line that asked for the runs, for their summaries.
    """

    def __init__(self, claim: Claim, outputs: Path, command: str = ""):
        self.claim, self.outputs, self.command = claim, outputs, command
        self.costs: dict[Path, float] = {}  # folder of each run -> seconds
        self.new: set[Path] = set()
        self._specs: dict[Wanted, RunSpec] = {}
        self._composer: Composer = composer()
        # Monitors are no part of a run's identity, but a claim that reads their logs needs a run that had them.
        monitors = [override for override in claim.fixed if override.startswith("monitor")]
        digest = hashlib.sha256("\n".join(monitors).encode()).hexdigest()[:8]
        self.study = f"watched-{digest}" if monitors else "runs"
        if claim.replicas:  # replicas differ from single runs in rounding, so keep them apart
            self.study += "-replicas"
        self.monitors = [] if monitors else ["monitor=none"]
        self.reads_log = "logged/" in str(claim.metric)  # one metric, or one per arm

    @property
    def trained(self) -> int:
        return len(self.new & self.costs.keys())

    @property
    def reused(self) -> int:
        return len(self.costs.keys() - self.new)

    @property
    def seconds(self) -> float:
        return sum(self.costs.values())

    def summary(self, run: Wanted) -> tuple[dict[str, Any], Path]:
        """Summary and folder of one run, which is finished."""
        folder = self.folder(run)
        summary = finished_summary(folder)
        if other := changed(summary, watched=self.reads_log):
            raise ValueError(
                f"{folder}: computed by {in_words(other)}; remove that folder, or use out=<another> for all "
                "runs anew"
            )
        # The clock of replicas counts for all of them together.
        self.costs[folder] = summary["seconds"] / summary["execution"].get("replicas", 1)
        return summary, folder

    def cells(self, runs: Iterable[Wanted]) -> list[tuple[Cell, list[Wanted]]]:
        """The missing ones of these runs, for the engine: each alone, or, if the claim says so, all of an arm at one
        level in one process, even if only one is missing."""
        missing = self.missing(runs)
        if not self.claim.replicas:
            return [self._cell([run]) for run in missing]
        families: dict[tuple[str, Any], list[Wanted]] = {}
        for run in missing:
            families.setdefault((run.arm, run.level), []).append(run)
        return [self._cell(together) for together in families.values()]

    def argv(self, cell: Cell) -> list[str]:
        """The command line that trains the runs of a cell alone."""
        return ["normexp", "train", *cell.specs[0].overrides]

    def _cell(self, together: list[Wanted]) -> tuple[Cell, list[Wanted]]:
        first = together[0]
        folders = [self.folder(run) for run in together]
        self.new |= set(folders)
        named = {
            "claim": self.claim.id,
            "arm": first.arm,
            "level": first.level,
            "seed": first.seed,
            "lr": first.lr,
        }
        name = " ".join(f"{key}={value}" for key, value in named.items() if value not in (None, ""))
        estimate = self.claim.seconds * len(together)
        group = f"{first.arm} {first.level}" if self.claim.replicas else ""
        own = [dataclasses.replace(self.spec(run), together=group) for run in together]
        return Cell(name.replace(", ", ","), own, estimate), together

    def missing(self, runs: Iterable[Wanted]) -> list[Wanted]:
        """The runs that are not in the cache. Arms with equal overrides share runs, which count once."""
        by_folder: dict[Path, Wanted] = {}
        for run in runs:
            by_folder.setdefault(self.folder(run), run)
        return [run for folder, run in by_folder.items() if read_summary(folder) is None]

    def folder(self, run: Wanted) -> Path:
        """The folder of a run, which may not exist yet."""
        return self.spec(run).folder

    def spec(self, run: Wanted) -> RunSpec:
        """A run as a plain value."""
        if run not in self._specs:
            rates = None if run.lr is None else [run.lr]
            words = with_recipe(self._overrides(run))
            (self._specs[run],) = specs(words, seeds=[run.seed], rates=rates, using=self._composer)
        return self._specs[run]

    def _overrides(self, run: Wanted) -> tuple[str, ...]:
        """The overrides that all seeds share."""
        factor = [f"{name}={run.level}" for name in self.claim.factor]
        shared = (f"name={self.study}", *self.monitors, f"outputs={self.outputs}")
        return (*shared, *self.claim.fixed, *self.claim.arms[run.arm], *factor)


def tune(claim: Claim, runs: Runs) -> dict[tuple[str, Any], float]:
    """The best learning rate of each arm at each level, from one grid, by mean validation accuracy over the finished
    runs of `tuning`. The lower validation loss breaks ties. A rate that diverged once is excluded."""
    if claim.tune is None:
        raise ValueError(f"claim={claim.id}: tunes no learning rate; give it tune")
    summaries: dict[tuple[str, Any], dict[float, list[dict[str, Any]]]] = {}
    for run in tuning(claim):
        own = summaries.setdefault((run.arm, run.level), {}).setdefault(cast(float, run.lr), [])
        own.append(runs.summary(run)[0])
    return {
        cell: max(found, key=lambda lr, found=found: _score(found[lr]))  # type: ignore[misc]
        for cell, found in summaries.items()
    }


def _score(summaries: list[dict[str, Any]]) -> tuple[float, float]:
    if any(summary["status"] == "diverged" for summary in summaries):
        return -math.inf, -math.inf
    accuracy = sum(summary["metrics"]["val/accuracy"] for summary in summaries)
    return accuracy, -sum(summary["metrics"]["val/loss"] for summary in summaries)


def gather(claim: Claim, runs: Runs, rates: Rates, seeds: range) -> pd.DataFrame:
    """The claim's metric of every arm, level and seed; the runs of `wanted` are finished."""
    rows = []
    for run in wanted(claim, rates, seeds):
        value, censored = read_metric(claim.metric_of(run.arm), *runs.summary(run))
        row = {"arm": run.arm, "factor": run.level, "seed": run.seed, "value": value, "censored": censored}
        rows.append(row)
    table = make_table(rows)
    check_complete(table, list(claim.arms), claim.levels, list(seeds))
    return table
