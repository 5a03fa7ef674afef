"""What a comparison trains: a network of normexp, by the words of `normexp train`, or a function of somebody else. Each
gives runs that any place can compute, and of each finished run one row."""

import hashlib
import inspect
import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from normexp.claims.evidence.disk import row_of as numbers_of
from normexp.compare.effect import Curve
from normexp.compare.judged import Metric
from normexp.config.run_spec import RunSpec, specs
from normexp.runs import failed, finished_summary, write_summary
from normexp.runs.read import read_metrics
from normexp.training.folder import RunFolder

OF_SEED = ("lr", "seed")  # arguments that are no arm's


class Training(Protocol):
    """The runs of a comparison."""

    @property
    def said(self) -> str:
        """What tells one run from another."""

    @property
    def curve(self) -> str:
        """Of what curves are."""

    def grid(
        self, arms: Sequence[str], levels: Sequence[Any], rates: Sequence[float], seeds: int
    ) -> list[Any]:
        """The runs of a look, by arm, level, rate and seed."""

    def row(self, spec: Any) -> dict[str, Any]:
        """A finished run: arm, level, lr, seed, status, value, seconds, folder, guess, and by validation `score` and
        `tie`, of which higher ones are better."""

    def curve_of(self, folder: str) -> Curve | None:
        """Steps and loss of a run."""


@dataclass(frozen=True)
class OfModel:
    """A network of normexp."""

    words: tuple[str, ...]
    metric: Metric
    cache: Path
    said = "the whole configuration"
    curve = "validation loss"

    def grid(
        self, arms: Sequence[str], levels: Sequence[Any], rates: Sequence[float], seeds: int
    ) -> list[RunSpec]:
        own = [*self.words, f"outputs={self.cache}", "name=runs", "monitor=none"]
        return [
            spec
            for arm in arms
            for level in levels
            for spec in specs(
                [*own, f"norm={arm}", *([f"batch_size={level}"] if level else [])],
                seeds=range(seeds),
                rates=rates,
            )
        ]

    def row(self, spec: RunSpec) -> dict[str, Any]:
        """Its status is `failed` if it learned no more than guessing gives."""
        summary = finished_summary(spec.folder)
        row, chance = numbers_of(summary), summary["chance_loss"] or math.inf
        learned = row["train_loss"] < chance and not failed(summary)
        score, tie = row["val_accuracy"], -row["val_loss"]
        if self.metric.measure == "error":
            value, guess = 1 - row["test_accuracy"], 1 - math.exp(-chance)
        elif self.metric.measure == "loss":
            value, guess, score, tie = row["test_loss"], chance, tie, score
        else:
            value, guess = self.logged(self.metric.name, summary, spec.folder), math.nan
            of_validation = self.metric.name.replace("test/", "val/")
            if of_validation.startswith("val/"):
                sign = 1 if self.metric.higher else -1
                score = sign * self.logged(of_validation, summary, spec.folder)
        return row | {
            "arm": spec.choices["norm"], "level": spec.config["batch_size"],
            **{key: spec.config[key] for key in OF_SEED}, "value": value, "score": score, "tie": tie,
            "status": "failed" if not learned and row["status"] == "completed" else row["status"],
            "guess": guess, "folder": str(spec.folder),
        }  # fmt: skip

    def logged(self, name: str, summary: Mapping[str, Any], folder: Path) -> float:
        """A final metric, or the last value of one that was logged. Raises ValueError if no run has it."""
        known = summary["metrics"]
        if name.endswith("error") and name.replace("error", "accuracy") in known:
            accuracy = known[name.replace("error", "accuracy")]
            return math.nan if accuracy is None else 1 - accuracy
        if name in known:
            return math.nan if known[name] is None else known[name]
        return float(read_metrics([folder], [name])["value"].iloc[-1])

    def curve_of(self, folder: str) -> Curve | None:
        rows = read_metrics([Path(folder)], ["val/loss"])
        return rows[["step", "value"]].to_numpy(float)


@dataclass(frozen=True)
class OwnRun:
    """One call of somebody's function, as places take a run: `train(norm, lr, seed)`. It is finished once its result is
    written; one that was killed begins anew."""

    target: str
    arguments: Mapping[str, Any]
    folder: Path
    digest: str
    overrides: tuple[str, ...] = ()

    @property
    def config(self) -> dict[str, Any]:
        """What places ask of a run."""
        return {"threads": 1, "trainer": {"accelerator": "auto", "devices": 1}, "compile": False}

    @property
    def choices(self) -> dict[str, str]:
        return {"model": self.target.rpartition(":")[2]}

    def train(self, command: str = "") -> dict[str, Any]:
        """Call the function unless it has a result. Returns the summary."""
        from normexp.check.resolve import imported

        folder = RunFolder(self.folder, self.digest, {"arguments.json": json.dumps(dict(self.arguments))})
        with folder:
            if folder.finished():
                return finished_summary(self.folder)
            function, started = imported(self.target, "train"), time.monotonic()
            try:
                found = function(**self.arguments)
            except ArithmeticError:  # such as an overflow: it diverged
                found = math.nan
            metrics = found if isinstance(found, Mapping) else {"test": found}
            curve = metrics.get("curve")
            values = {key: float(own) for key, own in metrics.items() if key != "curve"}
            finite = all(map(math.isfinite, values.values()))
            summary = {
                "status": "completed" if finite else "diverged", "hash": self.digest, "choices": self.choices,
                "config": dict(self.arguments), "metrics": values, "seconds": time.monotonic() - started,
                "curve": None if curve is None else np.asarray(curve, float).tolist(), "command": command,
                "convergence": {}, "execution": {}, "versions": {},
            }  # fmt: skip
            write_summary(self.folder, summary)
        return summary


@dataclass(frozen=True)
class OfFunction:
    """A function of somebody's own, `file.py:train`. Its first argument that is neither lr nor seed takes the arm. It
    returns a number, or {"val": ..., "test": ..., "curve": [(step, loss), ...]}."""

    target: str
    metric: Metric
    key: str
    more: Mapping[str, Any]
    version: str
    folder: Path
    guess: float = math.nan
    curve = "loss"

    @cached_property
    def names(self) -> list[str]:
        """The names of its arguments, that of the arm first. Raises ValueError for a function that cannot be called
        so."""
        from normexp.check.resolve import imported

        parameters = inspect.signature(imported(self.target, "train")).parameters
        names = [
            name for name, own in parameters.items() if own.kind not in (own.VAR_POSITIONAL, own.VAR_KEYWORD)
        ]
        arm = [name for name in names if name not in (*OF_SEED, *self.more)]
        if not arm or "seed" not in names:
            raise ValueError(
                f"train={self.target}: takes {', '.join(names) or 'nothing'}; write def train(arm, lr, seed)"
            )
        open_ended = any(own.kind is own.VAR_KEYWORD for own in parameters.values())
        if unknown := [name for name in self.more if name not in names and not open_ended]:
            raise ValueError(f"{unknown[0]}: is no argument of {self.target}; it takes {', '.join(names)}")
        return [arm[0], *(name for name in names if name != arm[0])]

    @property
    def said(self) -> str:
        more = "".join(f", {name}={value}" for name, value in self.more.items())
        version = f"version={self.version}" if self.version else "version="
        return f"{self.target}, its arguments ({', '.join(self.names[:1])}, lr, seed{more}) and {version}"

    def grid(
        self, arms: Sequence[str], levels: Sequence[Any], rates: Sequence[float], seeds: int
    ) -> list[OwnRun]:
        tuned = rates if "lr" in self.names else (None,)
        return [self.run(arm, lr, seed) for arm in arms for lr in tuned for seed in range(seeds)]

    def run(self, arm: str, lr: float | None, seed: int) -> OwnRun:
        """One call."""
        arguments = {
            self.names[0]: plain(arm),
            **({"lr": lr} if lr is not None else {}),
            "seed": seed,
            **self.more,
        }
        identity = json.dumps([Path(self.target).name, self.version, arguments], sort_keys=True)
        digest = hashlib.sha256(identity.encode()).hexdigest()
        rate = "" if lr is None else f"-lr{lr:g}"
        slug = re.sub(r"[^\w.+-]+", "-", arm)[:40]
        name = f"{slug}{rate}-s{seed}-{digest[:8]}"
        return OwnRun(self.target, arguments, self.folder / ".runs" / name, digest)

    def row(self, spec: OwnRun) -> dict[str, Any]:
        summary, arguments = finished_summary(spec.folder), spec.arguments
        metrics, tuned = summary["metrics"], "lr" in arguments
        for key in (self.key, *(["val"] if tuned else [])):
            if key not in metrics:
                raise ValueError(
                    f"metric={key}: {self.target} returns {', '.join(metrics)}; it chooses rates by val"
                )
        value = math.nan if metrics[self.key] is None else metrics[self.key]
        score = metrics["val"] if tuned and metrics["val"] is not None else math.nan
        return {
            "arm": str(arguments[self.names[0]]), "level": "", "lr": arguments.get("lr", math.nan),
            "seed": arguments["seed"], "status": summary["status"], "value": value,
            "score": score if self.metric.higher else -score, "tie": 0.0, "seconds": summary["seconds"],
            "guess": self.guess, "folder": str(spec.folder),
        }  # fmt: skip

    def curve_of(self, folder: str) -> Curve | None:
        found = finished_summary(Path(folder)).get("curve")
        return np.array(found, float) if found else None


def plain(text: str) -> Any:
    """A value of the command line: a number if it is one, true or false, else text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def chosen_curves(training: Training, chosen: pd.DataFrame) -> dict[tuple, Curve]:
    """(arm, level, seed) -> the curve of the chosen run, where it has one of two points or more."""
    rows = chosen[chosen["status"] == "completed"]
    found = {(own.arm, own.level, own.seed): training.curve_of(str(own.folder)) for own in rows.itertuples()}
    return {key: own for key, own in found.items() if own is not None and len(own) > 1}
