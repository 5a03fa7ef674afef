"""Evidence from training: runs of every arm with the same seeds, from a cache that all claims share."""

import contextlib
import copy
import fnmatch
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from pytorch_lightning import LightningDataModule

from normexp.build import build, resolved
from normexp.claims.claim import TUNING_SEEDS, Claim
from normexp.claims.evidence import check_complete, make_table
from normexp.evidence.side_by_side import Wanted, train_side_by_side
from normexp.evidence.subjects import composed
from normexp.identity import config_hash, default_folder
from normexp.parts import Parts
from normexp.runs import read_summary
from normexp.training.launch import folder_of, launch


class Runs:
    """The runs of one claim: trains what is missing, remembers what all of them cost, cached ones included.

    `report` is called before each run that trains, with a line that names it.
    """

    def __init__(self, claim: Claim, outputs: Path, report: Callable[[str], None]):
        self.claim, self.outputs, self.report = claim, outputs, report
        self.trained = self.reused = 0
        self.seconds = 0.0
        self.trained_beside: set[Path] = set()  # folders
        # Monitors are no part of a run's identity: a claim that reads what they log must not find a run without.
        self.watched = any(override.startswith("monitor=") for override in claim.fixed)

    def summary(self, arm: str, level: Any, seed: int, lr: float | None) -> tuple[dict[str, Any], Path]:
        """Summary and folder of one run."""
        cfg, choices = self._config(arm, level, seed, lr)
        config = resolved(cfg)
        folder = default_folder(config, choices, config_hash(config))
        if (summary := read_summary(folder)) is None:
            parts = build(cfg, choices)
            folder = default_folder(config, choices, parts.digest)  # of text the hash knows the content too
            summary = read_summary(folder)
        if summary:
            # the clock of runs side by side counts for all of them
            self.seconds += summary["seconds"] / summary["execution"].get("replicas", 1)
            self.trained += folder in self.trained_beside
            self.reused += folder not in self.trained_beside
            return summary, folder
        self.report(" ".join(f"{arm} {level} seed {seed}".split()) + (f" lr {lr:g}" if lr else ""))
        with contextlib.redirect_stdout(io.StringIO()):
            summary = launch(parts, {})
        self.trained += 1
        self.seconds += summary["seconds"]
        return summary, folder

    def prepare(self, level: Any, seeds: range, rates: Callable[[str], list[float | None]]) -> None:
        """Train what a comparison of all arms misses side by side where that is faster; `summary` trains the rest."""
        missing = [
            [run for lr in rates(arm) for seed in seeds if self._misses(run := Wanted(arm, level, seed, lr))]
            for arm in self.claim.arms
        ]
        trained = train_side_by_side(missing, self._build, self.report)
        self.trained_beside |= {folder_of(parts) for parts in trained}

    def _misses(self, run: Wanted) -> bool:
        cfg, choices = self._config(*run)
        config = resolved(cfg)
        return read_summary(default_folder(config, choices, config_hash(config))) is None

    def _build(self, run: Wanted, data: LightningDataModule | None) -> Parts:
        return build(*self._config(*run), data)

    def _config(self, arm: str, level: Any, seed: int, lr: float | None):
        factor = [f"{name}={level}" for name in self.claim.factor]
        shared = ["name=watched"] if self.watched else ["name=runs", "monitor=none"]
        shared.append(f"outputs={self.outputs}")
        cfg, choices = composed((*shared, *self.claim.fixed, *self.claim.arms[arm], *factor))
        cfg = copy.deepcopy(cfg)  # a composed configuration is shared between seeds
        cfg.seed = seed
        if lr is not None:
            cfg.lr = lr
        return cfg, choices


def tune(claim: Claim, runs: Runs) -> dict[tuple[str, Any], float]:
    """The learning rate of each arm at each level: of the same grid, the best mean validation accuracy over seeds
    that no verdict sees; ties go to the lower validation loss, and a rate that diverged once is out."""
    seeds = range(TUNING_SEEDS, TUNING_SEEDS + claim.tune["seeds"])
    chosen = {}
    for level in claim.levels:
        runs.prepare(level, seeds, lambda arm: claim.tune["lr"])
    for arm in claim.arms:
        for level in claim.levels:
            scores = {
                lr: _score([runs.summary(arm, level, s, lr)[0] for s in seeds]) for lr in claim.tune["lr"]
            }
            chosen[arm, level] = max(scores, key=scores.get)
    return chosen


def _score(summaries: list[dict[str, Any]]) -> tuple[float, float]:
    if any(summary["status"] == "diverged" for summary in summaries):
        return -math.inf, -math.inf
    accuracy = sum(summary["metrics"]["val/accuracy"] for summary in summaries)
    return accuracy, -sum(summary["metrics"]["val/loss"] for summary in summaries)


def gather(
    claim: Claim, runs: Runs, rates: dict[tuple[str, Any], float] | None, seeds: range
) -> pd.DataFrame:
    """The claim's metric of every arm, level and seed."""
    rows = []
    for level in claim.levels:
        runs.prepare(level, seeds, lambda arm, at=level: [rates[arm, at] if rates else None])
    for arm in claim.arms:
        for level in claim.levels:
            for seed in seeds:
                found = runs.summary(arm, level, seed, rates[arm, level] if rates else None)
                value, censored = read_metric(claim.metric_of(arm), *found)
                rows.append({"arm": arm, "factor": level, "seed": seed, "value": value, "censored": censored})
    table = make_table(rows)
    check_complete(table, list(claim.arms), claim.levels, list(seeds))
    return table


def read_metric(metric: str, summary: dict[str, Any], folder: Path) -> tuple[float, bool]:
    """(value, censored) of one run.

    `test/accuracy` and the like: the final metric, nan for a diverged run. `convergence/steps_to_0.9`: where the run
    never got there, the steps it took, censored. `logged/<glob>`: the mean of all matching rows of metrics.csv.
    """
    group, _, name = metric.partition("/")
    diverged = summary["status"] == "diverged"
    if group == "logged":
        rows = pd.read_csv(folder / "metrics.csv")
        rows = rows[[fnmatch.fnmatchcase(tag, name) for tag in rows["metric"]]]
        if rows.empty:
            raise ValueError(
                f"metric={metric}: {folder} logged nothing of that name; add its monitor to the claim"
            )
        return (math.nan if diverged else float(rows["value"].mean())), False
    if group == "convergence":
        value = summary["convergence"][name]
        if value is None:
            return (math.nan, False) if diverged else (float(summary["steps"]), True)
        return float(value), False
    value = summary["metrics"].get(metric)
    return (math.nan if diverged or value is None else float(value)), False
