"""Evidence from training: runs of every arm with the same seeds, in a cache that all claims share."""

import contextlib
import copy
import hashlib
import io
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from normexp.build import build, files_of, resolved
from normexp.claims.evidence.metric import read_metric
from normexp.claims.evidence.subjects import composed, composed_with_hydra
from normexp.claims.judge.evidence_table import check_complete, make_table
from normexp.claims.spec.claim import TUNING_SEEDS, Claim
from normexp.config.code import changed, in_words
from normexp.config.identity import config_hash, default_folder
from normexp.config.run_parts import Parts
from normexp.runs import finished_summary, read_summary
from normexp.training.launch import launch
from normexp.training.replicas.launch_replicas import launch_replicas


class Wanted(NamedTuple):
    """One run of a claim."""

    arm: str
    level: Any
    seed: int
    lr: float | None


class Runs:
    """The runs of one claim. Trains missing runs, and remembers what each run cost, cached ones too.

    Args:
        report: called before each run that trains, with a line that names it.
        command: the command line that asked for the runs, for their summaries.
    """

    def __init__(self, claim: Claim, outputs: Path, report: Callable[[str], None] = print, command: str = ""):
        self.claim, self.outputs, self.report, self.command = claim, outputs, report, command
        self.costs: dict[Path, float] = {}  # folder of each run -> seconds
        self.new: set[Path] = set()
        self._folders: dict[Wanted, Path] = {}  # to find one takes a hundredth of a second
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
        return len(self.new)

    @property
    def reused(self) -> int:
        return len(self.costs.keys() - self.new)

    @property
    def seconds(self) -> float:
        return sum(self.costs.values())

    def summary(self, run: Wanted) -> tuple[dict[str, Any], Path]:
        """Summary and folder of one run. A missing run is trained."""
        folder = self.folder(run)
        self.train([run])
        summary = finished_summary(folder)
        if other := changed(summary, watched=self.reads_log):
            raise ValueError(
                f"{folder}: computed by {in_words(other)}; remove that folder, or use out=<another> for all "
                "runs anew"
            )
        # The clock of replicas counts for all of them together.
        self.costs[folder] = summary["seconds"] / summary["execution"].get("replicas", 1)
        return summary, folder

    def train(self, runs: Iterable[Wanted]) -> None:
        """Train the missing ones of these runs of one arm at one level: each alone, or, if the claim says so, all in
        one process, even if only one is missing."""
        missing = self.missing(runs)
        for together in [missing] if missing and self.claim.replicas else [[run] for run in missing]:
            first = together[0]
            words = f"{first.arm} {first.level} seed {first.seed}" + (f" lr {first.lr:g}" if first.lr else "")
            self.report(" ".join(words.split()) + (f" and {len(together) - 1} more" if together[1:] else ""))
            parts: list[Parts] = []
            for run in together:
                loaded = [other.data for other in parts]
                parts.append(self._build(run, files=self.files(run), command=self.command, loaded=loaded))
            with contextlib.redirect_stdout(io.StringIO()):
                if self.claim.replicas:
                    launch_replicas(parts)
                else:
                    launch(parts[0])
            self.new |= {self.folder(run) for run in together}

    def missing(self, runs: Iterable[Wanted]) -> list[Wanted]:
        """The runs that are not in the cache. Arms with equal overrides share runs, which count once."""
        by_folder: dict[Path, Wanted] = {}
        for run in runs:
            by_folder.setdefault(self.folder(run), run)
        return [run for folder, run in by_folder.items() if read_summary(folder) is None]

    def folder(self, run: Wanted) -> Path:
        """The folder of a run, which may not exist yet."""
        if run not in self._folders:
            if (run.arm, run.level) not in self._content:
                self._content[run.arm, run.level] = self._build(run).data.fingerprint
            cfg, choices = self._composed(run)
            config = resolved(cfg)
            digest = config_hash(config, self._content[run.arm, run.level])
            self._folders[run] = default_folder(config, choices, digest)
        return self._folders[run]

    def files(self, run: Wanted) -> dict[str, str]:
        """The files of `.hydra/`, as training writes them, so that `normexp evaluate` works in the cache too."""
        own = [f"seed={run.seed}", *([f"lr={run.lr}"] if run.lr is not None else [])]
        _, hydra_config = composed_with_hydra(self._overrides(run))
        return files_of(self._composed(run)[0], hydra_config, own)

    def _build(self, run: Wanted, **more: Any) -> Parts:
        return build(*self._composed(run), **more)

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
    """The best learning rate of each arm at each level, from one grid, by mean validation accuracy over seeds that no
    verdict sees. The lower validation loss breaks ties. A rate that diverged once is excluded."""
    if claim.tune is None:
        raise ValueError(f"claim={claim.id}: tunes no learning rate; give it tune")
    seeds, grid = range(TUNING_SEEDS, TUNING_SEEDS + claim.tune["seeds"]), claim.tune["lr"]
    chosen = {}
    for arm in claim.arms:
        for level in claim.levels:
            asked = {lr: [Wanted(arm, level, seed, lr) for seed in seeds] for lr in grid}
            runs.train(itertools.chain(*asked.values()))
            scores = {lr: _score([runs.summary(run)[0] for run in own]) for lr, own in asked.items()}
            chosen[arm, level] = max(scores, key=scores.__getitem__)
    return chosen


def _score(summaries: list[dict[str, Any]]) -> tuple[float, float]:
    if any(summary["status"] == "diverged" for summary in summaries):
        return -math.inf, -math.inf
    accuracy = sum(summary["metrics"]["val/accuracy"] for summary in summaries)
    return accuracy, -sum(summary["metrics"]["val/loss"] for summary in summaries)


def gather(
    claim: Claim, runs: Runs, rates: Mapping[tuple[str, Any], float | None] | None, seeds: range
) -> pd.DataFrame:
    """The claim's metric of every arm, level and seed."""
    rows = []
    for arm in claim.arms:
        for level in claim.levels:
            asked = [Wanted(arm, level, seed, rates[arm, level] if rates else None) for seed in seeds]
            runs.train(asked)
            for run in asked:
                value, censored = read_metric(claim.metric_of(arm), *runs.summary(run))
                row = {"arm": arm, "factor": level, "seed": run.seed, "value": value, "censored": censored}
                rows.append(row)
    table = make_table(rows)
    check_complete(table, list(claim.arms), claim.levels, list(seeds))
    return table
