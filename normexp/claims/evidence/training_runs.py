"""Evidence from training: runs of every arm with the same seeds, in a cache that all claims share."""

import copy
import hashlib
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pandas as pd

from normexp.build import build, resolved
from normexp.claims.evidence.metric import read_metric
from normexp.claims.evidence.subjects import composed, composed_with_hydra
from normexp.claims.evidence.train_call import TrainCall
from normexp.claims.evidence.wanted import Rates, Wanted, tuning, wanted
from normexp.claims.judge.outcomes import check_complete, make_table
from normexp.claims.spec.claim import Claim
from normexp.composition import files_of
from normexp.config.code import changed, in_words
from normexp.config.identity import config_hash, default_folder
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
        # Folder, hash and choices, which take a hundredth of a second to find.
        self._places: dict[Wanted, tuple[Path, str, dict[str, str]]] = {}
        self._content: dict[tuple[str, Any], str] = {}  # arm and level -> hash of the data's own content
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

    def call(self, together: list[Wanted]) -> TrainCall:
        """What trains them."""
        composed = [(*self._composed(run), self.files(run)) for run in together]
        return TrainCall(composed, self.claim.replicas, self.command)

    def trainer(self, run: Wanted) -> dict[str, Any]:
        """The trainer of a run, as plain values."""
        return resolved(self._composed(run)[0])["trainer"]

    def _cell(self, together: list[Wanted]) -> tuple[Cell, list[Wanted]]:
        first = together[0]
        folders = [self.folder(run) for run in together]
        self.new |= set(folders)
        _, digest, choices = self._places[first]
        named = {
            "claim": self.claim.id,
            "arm": first.arm,
            "level": first.level,
            "seed": first.seed,
            "lr": first.lr,
        }
        name = " ".join(f"{key}={value}" for key, value in named.items() if value not in (None, ""))
        estimate = self.claim.seconds * len(together)
        config = {"fast_dev_run": False}
        return Cell(name.replace(", ", ","), [], choices, config, digest, folders, estimate), together

    def missing(self, runs: Iterable[Wanted]) -> list[Wanted]:
        """The runs that are not in the cache. Arms with equal overrides share runs, which count once."""
        by_folder: dict[Path, Wanted] = {}
        for run in runs:
            by_folder.setdefault(self.folder(run), run)
        return [run for folder, run in by_folder.items() if read_summary(folder) is None]

    def folder(self, run: Wanted) -> Path:
        """The folder of a run, which may not exist yet."""
        if run not in self._places:
            if (run.arm, run.level) not in self._content:
                self._content[run.arm, run.level] = build(*self._composed(run)).data.fingerprint
            cfg, choices = self._composed(run)
            config = resolved(cfg)
            digest = config_hash(config, self._content[run.arm, run.level])
            self._places[run] = default_folder(config, choices, digest), digest, choices
        return self._places[run][0]

    def files(self, run: Wanted) -> dict[str, str]:
        """The files of `.hydra/`, as training writes them, so that `normexp evaluate` works in the cache too."""
        own = [f"seed={run.seed}", *([f"lr={run.lr}"] if run.lr is not None else [])]
        _, hydra_config = composed_with_hydra(self._overrides(run))
        return files_of(self._composed(run)[0], hydra_config, own)

    def _composed(self, run: Wanted) -> tuple[Any, dict[str, str]]:
        cfg, choices = composed(self._overrides(run))
        cfg = copy.deepcopy(cfg)  # all seeds share the composed configuration
        cfg.seed = run.seed
        if run.lr is not None:
            cfg.lr = run.lr
        return cfg, choices

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
