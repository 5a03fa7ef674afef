"""What a comparison trains, from the words of its command: the design, and the training of a network of normexp or of a
function of somebody else."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from normexp.claims.evidence.rates import rates_around
from normexp.claims.judge.kinds import PRACTICAL
from normexp.compare.judged import METRICS, Design, metric_of, planned_looks
from normexp.compare.run import Trained
from normexp.compare.training import OfFunction, OfModel, plain
from normexp.config.run_spec import specs
from normexp.format import pluralize, tell

CHOSEN = ("norm", "seed", "lr", "optimizer.lr", "monitor", "name", "outputs")
FUNCTION = re.compile(r"[\w./\\~-]+(\.py)?:[A-Za-z_]\w*")
NORMS = ("none", "batchnorm", "layernorm")


class Asked(NamedTuple):
    """The options of the command."""

    arms: tuple[str, ...]
    margin: Any
    metric: str | None
    better: str | None
    batch_sizes: tuple[int, ...] | None
    rates: tuple[float, ...] | None
    seeds: int
    budget: float
    version: str
    guess: float | None
    name: str
    out: Path


def is_function(words: Sequence[str]) -> bool:
    """Whether the first word names a function: `my.py:train`."""
    return bool(words) and "=" not in words[0] and bool(FUNCTION.fullmatch(words[0]))


def of_model(words: Sequence[str], asked: Asked) -> tuple[Design, OfModel]:
    """A network of normexp. Raises ValueError with one line for words that do not fit."""
    check_words(words)
    spec, *_ = specs([*words, "norm=none"])
    texts = spec.choices["data"] in ("text_file", "python_docs")
    named, margin = asked.metric or ("test/loss" if texts else "test/error"), asked.margin
    metric = METRICS.get(named.removeprefix("test/"))
    if metric is None or (margin not in (None, PRACTICAL) and asked.better):
        metric = metric_of(named, asked.better, margin)
    elif metric.measure == "error" and isinstance(margin, float) and margin >= 1:
        raise ValueError(
            f"margin={margin:g}: is a share of wrong answers, below 1; {margin / 100:g} is {margin:g} points"
        )
    design = Design(
        name=asked.name or f"{spec.choices['model']}-{spec.choices['data']}",
        norms=asked.arms or NORMS,
        levels=tuple(dict.fromkeys(asked.batch_sizes or ("",))),
        rates=tuple(sorted(set(asked.rates or rates_around(spec.config["lr"])))),
        margin=PRACTICAL if margin is None else margin,
        metric=metric,
        looks=planned_looks(asked.seeds),
        budget=asked.budget,
        words=tuple(dict.fromkeys((f"recipe={spec.choices['recipe']}", *words))),
    )
    return design, OfModel(design.words, metric, asked.out / design.name / "cache")


def check_words(words: Sequence[str]) -> None:
    """Raise ValueError for a word of `normexp train` that the comparison chooses itself."""
    for word in words:
        # Also the rate of the optimizer alone: lr would move nothing.
        if word.partition("=")[0].lstrip("+~") in CHOSEN:
            other = "write norms=, seeds= or rates=, or leave it out"
            raise ValueError(f"{word}: is chosen by the comparison; {other}")


def of_function(words: Sequence[str], asked: Asked) -> tuple[Design, OfFunction]:
    """A function of somebody else. Raises ValueError with one line for words that do not fit."""
    target, *rest = words
    if wrong := [word for word in rest if "=" not in word]:
        raise ValueError(f"{wrong[0]}: write an argument of {target} as key=value")
    more = {key: plain(value) for key, _, value in (word.partition("=") for word in rest)}
    if taken := [key for key in more if key in ("lr", "seed")]:
        raise ValueError(f"{taken[0]}={more[taken[0]]}: is chosen by the comparison; write rates= or seeds=")
    if not asked.arms:
        raise ValueError("arms: name two or more, the baseline first, such as arms=none,batchnorm")
    if asked.batch_sizes:
        raise ValueError(
            f"batch_sizes: are of networks of normexp; {target} takes one as an argument of its own"
        )
    metric = metric_of(asked.metric or "test", asked.better, asked.margin)
    name = (
        asked.name
        or re.sub(r"\.py$", "", Path(target.partition(":")[0]).name) + "-" + target.rpartition(":")[2]
    )
    path, _, function = target.partition(":")
    training = OfFunction(
        f"{Path(path).resolve()}:{function}" if path.endswith(".py") else target, metric, asked.metric or "test", more,
        asked.version, asked.out / name, float("nan") if asked.guess is None else asked.guess,
    )  # fmt: skip
    tuned = "lr" in training.names
    if tuned and not asked.rates:
        raise ValueError(f"rates: {target} takes lr, so write those to try, rates=0.001,0.01")
    if asked.rates and not tuned:
        raise ValueError(f"rates: {target} takes no lr; add this argument, or leave rates out")
    tell(f"a run is known by {training.said}; its code is not read, so write another version= after a change")
    design = Design(
        name=name, norms=asked.arms, rates=tuple(sorted(set(asked.rates or ()))), margin=asked.margin, metric=metric,
        looks=planned_looks(asked.seeds), budget=asked.budget,
        words=(*words, *([f"version={asked.version}"] if asked.version else [])),
    )  # fmt: skip
    return design, training


def facts(result: Trained) -> list[str]:
    """What the head of the page says."""
    return [
        " ".join(result.design.words),
        f"{len(result.looks)} of {pluralize(len(result.design.looks), 'look')}",
        f"{result.runs['seconds'].sum() / 60:.1f} minutes of training",
    ]
