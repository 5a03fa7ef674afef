"""What a comparison trains, from the words of its command: a network of normexp, or a function of somebody else. Both
give runs that any place can compute, and the numbers of both are read alike."""

import difflib
import functools
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from normexp.claims.evidence.rates import rates_around
from normexp.claims.judge.kinds import PRACTICAL
from normexp.claims.spec.recorded import KNOWN, unknown_metric
from normexp.compare.effect import Curve
from normexp.compare.judged import Design, Metric, guess_of, metric_of
from normexp.compare.own_run import OF_SEED, arguments_of, own_run, plain
from normexp.compare.results import SHARES, check_units
from normexp.config.options import key_of
from normexp.config.run_spec import RunSpec, specs
from normexp.config.targets import DataOfLaunch
from normexp.format import pluralize, tell
from normexp.runs import failed, finished_summary
from normexp.runs.metrics import last_word, with_metric
from normexp.runs.read import METRICS as RECORDED
from normexp.runs.read import read_metrics

CHOSEN = ("norm", "seed", "lr", "optimizer.lr", "monitor", "name", "outputs")
NORMS = ("none", "batchnorm", "layernorm")
Key = tuple[str, Any, float | None, int]  # arm, level, rate, seed


@dataclass(frozen=True)
class Training:
    """How a comparison makes its runs, and what it reads of them.

    Attributes:
        make: arm, level, rate, seed -> the run.
        value: the metric of a run by its name there.
        chosen_by: metrics of validation that choose a rate -> 1 if higher is better, else -1; the second breaks ties.
        guess: the value of a run that learned nothing; None: as its loss of guessing says, if it does.
        function: the name of one of somebody else, whose result has every metric.
    """

    make: Callable[[str, Any, float | None, int], Any]
    metric: Metric
    value: str
    chosen_by: Mapping[str, int]
    guess: float | None
    function: str = ""

    def grid(self, design: Design, rates: Sequence[float], seeds: int) -> dict[Key, Any]:
        """The runs of a look."""
        keys = itertools.product(design.norms, design.levels, rates or (None,), range(seeds))
        return {key: self.make(*key) for key in keys}

    def read(self, planned: Mapping[Key, Any]) -> pd.DataFrame:
        """A row for each finished run: arm, level, lr, seed, its metrics, status, value, score, tie, seconds, guess,
        folder. The status is `failed` if it learned no more than guessing gives."""
        summaries = [finished_summary(spec.folder) for spec in planned.values()]
        rows = pd.DataFrame([summary["metrics"] for summary in summaries]).astype(float)
        rows["run"] = [str(spec.folder) for spec in planned.values()]
        for name in (self.value, *self.chosen_by):
            if self.function:
                check_returned(self.function, name, planned, summaries)
                rows[name] = rows.get(name, math.nan)  # where every run diverged
            rows = with_metric(rows, Path(), name)
        scores = [sign * rows[name] for name, sign in self.chosen_by.items()]
        score, tie, *_ = [*scores, 0.0, 0.0]
        known = rows[[self.value, *self.chosen_by]].notna().all(axis=1)  # whatever else a function returned
        status = np.where(known, "completed", "diverged") if self.function else [*map(status_of, summaries)]
        chances = np.array([summary.get("chance_loss") or math.inf for summary in summaries])
        table = pd.DataFrame([*planned], columns=["arm", "level", "lr", "seed"]).astype({"lr": float}).assign(
            setting="", status=status, value=rows[self.value], score=score, tie=tie,
            seconds=[summary["seconds"] for summary in summaries], folder=rows.pop("run"),
            guess=guess_of(self.metric, chances) if self.guess is None else self.guess,
        )  # fmt: skip
        if self.function and last_word(self.value) in SHARES:
            check_units(table["value"].dropna().to_numpy(), self.metric)
        return table.join(rows[rows.columns.difference(table.columns, sort=False)])


def check_returned(
    function: str, name: str, planned: Iterable[Key], summaries: Iterable[Mapping[str, Any]]
) -> None:
    """Raise ValueError with one line for a run of a function that ended well without this metric."""
    for (arm, *_), summary in zip(planned, summaries, strict=True):
        if summary["status"] == "completed" and name not in summary["metrics"]:
            found = ", ".join(summary["metrics"]) or "nothing"
            remedy = "return it for every arm (rates are chosen by val), or write another metric="
            raise ValueError(f"metric={name}: {function} with {arm} returns {found}; {remedy}")


def status_of(summary: Mapping[str, Any]) -> str:
    """`failed` for a run that ended with a training loss of guessing or more."""
    loss, chance = summary["metrics"].get("train/loss"), summary.get("chance_loss")
    guessed = loss is not None and chance and not loss < chance
    ended = summary["status"] == "completed"
    return "failed" if ended and (guessed or failed(summary)) else str(summary["status"])


def curve_of(folder: str) -> Curve | None:
    """Steps and loss of a run: what a function returned, or the loss on validation; None of fewer than two points."""
    curve = np.array(finished_summary(Path(folder)).get("curve") or (), float)
    if not len(curve) and (Path(folder) / RECORDED).exists():
        curve = read_metrics([Path(folder)], ["val/loss"])[["step", "value"]].to_numpy(float)
    return curve if len(curve) > 1 else None


def of_model(
    overrides: Sequence[str], *, arms: Sequence[str], metric: str | None, better: str | None, margin: Any,
    batch_sizes: Sequence[int], rates: Sequence[float], guess: float | None, name: str, out: Path, **design: Any,
) -> tuple[Design, Training]:  # fmt: skip
    """A network of normexp. Raises ValueError with one line for overrides that do not fit."""
    check_overrides(overrides)
    data = DataOfLaunch()
    common = [*overrides, "monitor=none"]  # as the command composed them before
    (spec,) = specs([*common, "norm=none"], data=data)
    texts = spec.choices["data"] in ("text_file", "python_docs")
    value = metric or ("test/loss" if texts else "test/error")
    value = f"test/{value}" if value in ("error", "loss") else value
    found = metric_of(value, better, margin, shares=True)
    if (unknown := unknown_metric(value)) and difflib.get_close_matches(value, KNOWN, cutoff=0.8):
        raise ValueError(f"metric={value}: {unknown}")
    if found.measure == "error" and isinstance(margin, float) and margin >= 1:
        raise ValueError(
            f"margin={margin:g}: is a share of wrong answers, below 1; {margin / 100:g} is {pluralize(margin, 'point')}"
        )
    name = name or f"{spec.choices['model']}-{spec.choices['data']}"
    common += [f"outputs={out / name / 'cache'}", "name=runs"]

    @functools.cache
    def make(arm: str, level: Any, lr: float, seed: int) -> RunSpec:
        size = [f"batch_size={level}"] if level else []
        (spec,) = specs([*common, f"norm={arm}", *size], seeds=[seed], rates=[lr], data=data)
        return spec

    by = {"val/accuracy": 1, "val/loss": -1}
    of_validation = value.replace("test/", "val/")
    if found.measure == "loss":
        by = dict(reversed(by.items()))
    elif found.measure == "value" and of_validation.startswith("val/"):
        by = {of_validation: 1 if found.higher else -1, "val/loss": -1}
    return Design(
        name=name,
        norms=tuple(arms or NORMS),
        levels=tuple(dict.fromkeys(batch_sizes or ("",))),
        rates=tuple(sorted(set(rates or rates_around(spec.config["lr"])))),
        margin=PRACTICAL if margin is None else margin,
        metric=found,
        curve="validation loss",
        words=tuple(dict.fromkeys((f"recipe={spec.choices['recipe']}", *overrides))),
        **design,
    ), Training(make, found, value, by, guess)


def check_overrides(overrides: Sequence[str]) -> None:
    """Raise ValueError for a word of `normexp train` that the comparison chooses itself."""
    for word in overrides:
        # Also the rate of the optimizer alone: lr would move nothing.
        if key_of(word) in CHOSEN:
            other = "write norms=, seeds= or rates=, or leave it out"
            raise ValueError(f"{word}: is chosen by the comparison; {other}")


def of_function(
    arguments: Sequence[str], *, arms: Sequence[str], metric: str | None, better: str | None, margin: Any,
    batch_sizes: Sequence[int], rates: Sequence[float], guess: float | None, name: str, out: Path, version: str,
    **design: Any,
) -> tuple[Design, Training]:  # fmt: skip
    """A function of somebody else. Raises ValueError with one line for arguments that do not fit."""
    target, *rest = arguments
    if wrong := [word for word in rest if "=" not in word]:
        raise ValueError(f"{wrong[0]}: write an argument of {target} as key=value")
    more = {key: plain(value) for key, _, value in (word.partition("=") for word in rest)}
    if taken := [key for key in OF_SEED if key in more]:
        raise ValueError(f"{taken[0]}={more[taken[0]]}: is chosen by the comparison; write rates= or seeds=")
    if not arms:
        raise ValueError("arms: name two or more, the baseline first, such as arms=none,batchnorm")
    if len({json.dumps(plain(arm)) for arm in arms}) < len(arms):
        raise ValueError(f"arms={','.join(arms)}: two of them are one value for {target}; write each once")
    if batch_sizes:
        raise ValueError(
            f"batch_sizes: are of networks of normexp; {target} takes one as an argument of its own"
        )
    found = metric_of(metric or "test", better, margin)
    path, _, function = target.partition(":")
    name = name or f"{re.sub(r'[.]py$', '', Path(path).name)}-{function}"
    target = f"{Path(path).resolve()}:{function}" if path.endswith(".py") else target
    names = arguments_of(target, list(more))
    if "lr" in names and not rates:
        raise ValueError(f"rates: {target} takes lr, so write those to try, rates=0.001,0.01")
    if rates and "lr" not in names:
        raise ValueError(f"rates: {target} takes no lr; add this argument, or leave rates out")
    given = "".join(f", {key}={value}" for key, value in more.items())
    tell(
        f"a run is known by {target}, its arguments ({names[0]}, lr, seed{given}) and version={version}; its code is"
        " not read, so write another version= after a change"
    )
    if rates:
        better = "higher" if found.higher else "lower"
        tell(f"each seed takes its best rate by val, the {better} the better, as of {found.name}")

    @functools.cache
    def make(arm: str, level: Any, lr: float | None, seed: int) -> Any:
        rate = {} if lr is None else {"lr": lr}
        return own_run(target, version, out / name, {names[0]: plain(arm), **rate, "seed": seed, **more})

    return Design(
        name=name, norms=tuple(arms), rates=tuple(sorted(set(rates))), margin=margin, metric=found, curve="loss",
        words=(*arguments, *([f"version={version}"] if version else [])), **design,
    ), Training(
        make, found, metric or "test", {"val": 1 if found.higher else -1} if rates else {}, guess, target
    )  # fmt: skip
