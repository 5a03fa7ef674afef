"""Evidence from training: runs of every arm with the same seeds, from a cache that all claims share."""

import contextlib
import copy
import functools
import hashlib
import io
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.build import build, files_of, resolved
from normexp.claims.evidence.metric import read_metric
from normexp.claims.evidence.side_by_side import Wanted, pays, train_side_by_side
from normexp.claims.evidence.subjects import composed, composed_with_hydra
from normexp.claims.judge.evidence_table import check_complete, make_table
from normexp.claims.spec.claim import TUNING_SEEDS, Claim
from normexp.config.code import changed, in_words
from normexp.config.identity import config_hash, default_folder
from normexp.config.run_parts import Parts
from normexp.runs import read_summary
from normexp.training.launch import folder_of, launch


class Runs:
    """The runs of one claim: trains what is missing, remembers what all of them cost, cached ones included.

    Args:
        report: called before each run that trains, with a line that names it.
        command: the command line that asks for the runs, for their summaries.
    """

    def __init__(self, claim: Claim, outputs: Path, report: Callable[[str], None] = print, command: str = ""):
        self.claim, self.outputs, self.report, self.command = claim, outputs, report, command
        self.costs: dict[Path, float] = {}  # folder of each run -> seconds
        self.new: set[Path] = set()
        self._folders: dict[Wanted, Path] = {}  # each takes a hundredth of a second to find
        self._content: dict[tuple[str, Any], str] = {}  # arm and level -> hash of the data's own content
        # Monitors are no part of a run's identity: a claim that reads what they log must find a run that had them.
        monitors = [override for override in claim.fixed if override.startswith("monitor")]
        digest = hashlib.sha256("\n".join(monitors).encode()).hexdigest()[:8]
        self.study = f"watched-{digest}" if monitors else "runs"
        self.monitors = [] if monitors else ["monitor=none"]
        self.reads_log = "logged/" in str(claim.metric)  # a text, or one for each arm

    @property
    def trained(self) -> int:
        return len(self.new)

    @property
    def reused(self) -> int:
        return len(self.costs.keys() - self.new)

    @property
    def seconds(self) -> float:
        return sum(self.costs.values())

    @functools.cached_property
    def stacked(self) -> bool:
        """Whether the runs of this claim are trained side by side."""
        lr = self.claim.tune["lr"][0] if self.claim.tune else None
        places = [(arm, at) for arm in self.claim.arms for at in self.claim.levels]
        runs = (Wanted(arm, at, self.claim.first_seed, lr) for arm, at in places)
        return pays((self._build(run, self.study) for run in runs), self.claim.looks[0])

    def summary(self, arm: str, level: Any, seed: int, lr: float | None) -> tuple[dict[str, Any], Path]:
        """Summary and folder of one run."""
        run = Wanted(arm, level, seed, lr)
        folder = self.folder(run)
        if summary := read_summary(folder):
            if other := changed(summary, watched=self.reads_log):
                raise ValueError(
                    f"{folder}: computed by {in_words(other)}; remove that folder, or use out=<another> for all "
                    "runs anew"
                )
            # the clock of runs side by side counts for all of them
            self.costs[folder] = summary["seconds"] / summary["execution"].get("replicas", 1)
            return summary, folder
        self.report(" ".join(f"{arm} {level} seed {seed}".split()) + (f" lr {lr:g}" if lr else ""))
        with contextlib.redirect_stdout(io.StringIO()):
            summary = launch(build(*self._config(run), files=self.files(run), command=self.command))
        self.new.add(folder)
        self.costs[folder] = summary["seconds"]
        return summary, folder

    def prepare(self, level: Any, seeds: range, rates: Callable[[str], list[float | None]]) -> None:
        """Train what is missing side by side if the claim's runs are; else `summary` trains each where it is asked
        for."""
        for arm in self.claim.arms if self.stacked else ():
            missing = self.missing(Wanted(arm, level, seed, lr) for lr in rates(arm) for seed in seeds)
            trained = train_side_by_side(missing, self._config, self.files, self.report, self.command)
            self.new |= {folder_of(parts) for parts in trained}

    def missing(self, runs: Iterable[Wanted]) -> list[Wanted]:
        """Those that are not in the cache, one of each where arms of equal overrides share theirs."""
        by_folder: dict[Path, Wanted] = {}
        for run in runs:
            by_folder.setdefault(self.folder(run), run)
        return [run for folder, run in by_folder.items() if read_summary(folder) is None]

    def folder(self, run: Wanted) -> Path:
        """Where a run lies or will lie."""
        if run not in self._folders:
            cfg, choices = self._config(run)
            if (run.arm, run.level) not in self._content:
                self._build(run, self.study)
            config = resolved(cfg)
            digest = config_hash(config, self._content[run.arm, run.level])
            self._folders[run] = default_folder(config, choices, digest)
        return self._folders[run]

    def _build(self, run: Wanted, study: str) -> Parts:
        parts = build(*self._composed(run, study))
        self._content[run.arm, run.level] = parts.data.fingerprint
        return parts

    def files(self, run: Wanted) -> dict[str, str]:
        """What training leaves in `.hydra/`, so that `normexp evaluate` and people find the same in the cache."""
        own = [f"seed={run.seed}", *([f"lr={run.lr}"] if run.lr is not None else [])]
        _, hydra_config = composed_with_hydra(self._overrides(run, self._study))
        return files_of(self._config(run)[0], hydra_config, own)

    @property
    def _study(self) -> str:
        # Runs that were computed side by side and alone differ in rounding, so they are kept apart.
        return f"{self.study}-stacked" if self.stacked else self.study

    def _config(self, run: Wanted) -> tuple[Any, dict[str, str]]:
        return self._composed(run, self._study)

    def _composed(self, run: Wanted, study: str) -> tuple[Any, dict[str, str]]:
        cfg, choices = composed(self._overrides(run, study))
        cfg = copy.deepcopy(cfg)  # a composed configuration is shared between seeds
        cfg.seed = run.seed
        if run.lr is not None:
            cfg.lr = run.lr
        return cfg, choices

    def _overrides(self, run: Wanted, study: str) -> tuple[str, ...]:
        """Those that all seeds share."""
        factor = [f"{name}={run.level}" for name in self.claim.factor]
        shared = (f"name={study}", *self.monitors, f"outputs={self.outputs}")
        return (*shared, *self.claim.fixed, *self.claim.arms[run.arm], *factor)


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
