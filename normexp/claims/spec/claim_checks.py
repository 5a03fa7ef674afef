"""What of a claim does not belong together, though each key is good: said before anything is trained."""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.kinds import PRACTICAL
from normexp.claims.spec.cell import value_of
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.document import Manipulation
from normexp.claims.spec.recorded import counts_of, unknown_metric
from normexp.claims.units import SHARES, STEPS
from normexp.config.options import key_of, last_of_each, with_several_values
from normexp.format import pluralize
from normexp.runs.metrics import HIGHER, LOWER
from normexp.runs.summary import REESTIMATED
from normexp.runs.table import FEWEST_SEEDS

OF_TEST = ("test/error", "test/loss", f"test/error_{REESTIMATED}", f"test/loss_{REESTIMATED}")
POINTS = tuple(f"{split}/accuracy{anew}" for split in ("test", "val") for anew in ("", f"_{REESTIMATED}"))

PLACES = {"name", "outputs", "run_dir"}  # keys of a run
EXAMPLES = (  # keys that decide the examples, which arms share
    "data", "data.train_size", "data.val_size", "data.split_seed", "data.path", "data.root", "data.image_size",
    "data.context_length",
)  # fmt: skip
RATE = {"lr", "optimizer.lr"}
MEASURES = {"shares": SHARES, "steps": STEPS}  # what a metric counts, and how a measure that says so begins


def mistakes(claim: Claim, *, shipped: bool) -> Iterator[str]:
    """Lines with key, value and remedy. A later one may count on the earlier checks. `shipped`: whether the claim is
    one of the project."""
    over_settings = bool(claim.cells)
    if not over_settings and claim.seeds < FEWEST_SEEDS:
        yield f"seeds={claim.seeds}: fewer than {FEWEST_SEEDS} seeds rank nothing; ask for {FEWEST_SEEDS} or more"
    needed = "metric" if claim.evidence == "training" else "function"
    if not (claim.arms and claim.comparisons and claim.measure and getattr(claim, needed)):
        yield f"evidence={claim.evidence}: needs arms, a comparison, measure and {needed}"
    for arm, choice in claim.arms.items():
        if len(arm.splitlines()) != 1:
            yield f"arms: {arm!r} is no name of one line; rename it"
        if claim.evidence != "law" and isinstance(choice, dict):
            yield f"arms.{arm}={choice!s:.60}: must be a list such as [norm=layernorm]"
    yield from _for_arms(claim, "metric", claim.metric, claim.arms)
    asked = [claim.metric_of(arm) for arm in claim.arms if claim.metric]
    yield from (f"metric={metric}: {unknown}" for metric in asked if (unknown := unknown_metric(metric)))
    units = set[str]().union(*map(_units, asked))
    if len(units) > 1:
        yield f"metric={claim.metric!s:.60}: compares {' with '.join(sorted(units))}; give metrics of one unit"
    elif (
        claim.better
        and (known := {*LOWER, *HIGHER} & units)
        and (min(known) in HIGHER) != (claim.better == "higher")
    ):
        yield f"better={claim.better}: of {min(known)} it is the other way; change it, or leave it out"
    counts = counts_of(claim.metric_of(next(iter(claim.arms)))) if claim.metric else ""
    says = next((word for word, begins in MEASURES.items() if claim.measure.startswith(begins)), "")
    if counts and says and counts != says:  # numbers are told in the unit of the measure
        yield f"measure={claim.measure!s:.60}: metric={claim.metric!s:.60} gives {counts}, not {says}; say what it is"
    levels = claim.levels
    if len({*map(str, levels)}) < len(levels) or any(levels.count(level) > 1 for level in levels):
        yield f"factor={claim.factor}: a level stands there twice; keep one"
    if not over_settings and claim.evidence == "training" and "failed" in map(claim.metric_of, claim.arms):
        yield "metric=failed: is for claims over several settings; name them under settings"
    if len(claim.factor) > 1:
        yield f"factor={list(claim.factor)}: one factor a claim; split the claim"
    yield from _overwritten(claim)
    for key in EXAMPLES:
        if len({value_of(key, arm) for arm in claim.arms.values() if not isinstance(arm, dict)}) > 1:
            yield f"arms: {key} differs between them, and arms share their examples; write it into fixed"
    for comparison in claim.comparisons:
        yield from _comparison(claim, comparison, claim.metric)
    if claim.manipulation:
        yield from _manipulation(claim, claim.manipulation)
    for unread in ("function", "options", "search") if claim.evidence == "training" else ("metric",):
        if getattr(claim, unread):
            yield f"{unread}={getattr(claim, unread)!s:.60}: evidence={claim.evidence} reads none; leave it out"
    kinds: set[str] = {comparison.kind for comparison in claim.comparisons}
    if "every" in kinds and claim.expected and not shipped:  # "no counterexample" would become "supported"
        yield f"expected={claim.expected}: no cases prove a universal sentence of your own; leave it out"
    if claim.search and (over_settings or claim.factor or len(claim.arms) > 1 or kinds != {"every"}):
        yield "search: is for a universal sentence (kind: every) with one arm and without settings or factor"
    if over_settings:
        yield from _over_settings(claim, kinds)
    if claim.rate != "own" and not (over_settings and claim.evidence == "training"):
        yield "rate: is for claims of trained networks over several settings; leave it out, or name them"


def _overwritten(claim: Claim) -> Iterator[str]:
    """Words that set what the seeds set after them; in an arm or `fixed` also what the factor's levels or each seed's
    own rate do."""
    chosen = {f"arms.{arm}": choice for arm, choice in claim.arms.items()}
    chosen |= {"fixed": claim.fixed, "options": claim.options}
    settings = {f"settings.{name}": cell.overrides for name, cell in claim.cells.items()}
    trained = claim.evidence == "training"
    for where, choice in (chosen | settings | {"factor": claim.factor}).items():
        keys, entry = _keys(choice), f"{where}={choice!s:.60}"
        if len(keys) < len(choice) and where not in settings:  # a cell changes what its bank shares
            yield f"{entry}: a key stands there twice; keep one"
        if several := with_several_values(choice):
            yield f"{where}: {several[0]} has several values; write one, or make it a factor"
        if "seed" in keys:
            yield f"{entry}: sets the seed, which every run has of its own; leave it out and give first_seed and seeds"
        for key in PLACES & keys:
            yield f"{entry}: {key} says where a run lies, which `out` of verify decides; leave it out"
        for key in claim.factor.keys() & keys if where in chosen else ():
            yield f"{entry}: the factor sets {key} in every arm; leave it out there"
        rates = RATE - {"lr"} if where in settings else RATE  # a cell's `lr` is amid its rates
        for key in rates & keys if trained and claim.cells else ():
            yield f"{entry}: over settings `rate` says which rate a run has; leave {key} out"
    ignored = set.intersection(_keys(claim.fixed), *map(_keys, claim.arms.values()))
    if trained and ignored:
        yield f"fixed: every arm sets {min(ignored)} itself; leave it out there"


def _over_settings(claim: Claim, kinds: set[str]) -> Iterator[str]:
    """What a claim over several settings cannot ask."""
    if claim.evidence == "law":
        yield f"settings: evidence={claim.evidence} needs none; leave them out"
    for metric in map(claim.metric_of, claim.arms if claim.metric else ()):
        if metric in POINTS:
            errors = metric.replace("accuracy", "error")
            yield f"metric={metric}: a failed run counts as a guess, which errors know; give {errors}"
    seen: dict[str, str] = {}
    for name, cell in claim.cells.items() if claim.evidence == "training" else ():
        last = sorted(last_of_each([*cell.overrides, *claim.fixed]))
        if (other := seen.setdefault(str(last), name)) != name and not claim.drawn:
            yield f"fixed: sets all in which settings {other} and {name} differ; keep one of them"
        if not {"model", "data"} <= cell.labels.keys():
            yield f"settings.{name}={list(cell.overrides)!s:.60}: names no model or no data; add them to it"
    if "every" in kinds:
        yield "kind=every: gives no number a setting; give a difference or a slope"


def _manipulation(claim: Claim, check: Manipulation) -> Iterator[str]:
    """What a manipulation check cannot ask."""
    asked = check.comparison
    if claim.evidence != "training":
        yield f"manipulation: evidence={claim.evidence} has none; leave it out"
    if not claim.cells:
        yield "manipulation: is for claims over several settings; name them under settings"
    if asked.rule.universal or asked.practical:
        yield f"manipulation: kind={asked.kind}: needs a difference or a slope, and a number as margin"
    if check.metric == "failed" or check.metric.startswith("convergence/steps_to_"):
        yield f"manipulation.metric={check.metric}: is no number of every run; give a final or a logged one"
    if unknown := unknown_metric(check.metric):
        yield f"manipulation.metric={check.metric}: {unknown}"
    yield from _comparison(claim, asked, check.metric)


def _comparison(claim: Claim, comparison: Comparison, metric: str | dict[str, str] | None) -> Iterator[str]:
    """Names, levels and lengths that would fail only after all runs are trained."""
    for key in ("arm", "baseline"):
        if (arm := getattr(comparison, key)) not in (None, *claim.arms):
            yield f"{key}={arm}: is not among the arms {', '.join(claim.arms)}; name one"
    compared = [arm for arm in (comparison.arm, comparison.baseline) if arm] or list(claim.arms)
    metrics = {str(metric[arm] if isinstance(metric, dict) else metric) for arm in compared}
    choices = [claim.arms[arm] for arm in compared]
    if comparison.baseline and choices[0] == choices[1] and len(metrics) == 1:
        yield f"arms.{comparison.baseline}={choices[1]!s:.60}: arm {comparison.arm} is the same; compare different arms"
    if {*map(counts_of, metrics)} == {"shares"} and not comparison.rule.slope:
        yield from _of_shares(comparison, metric)
    if comparison.log and "failed" in metrics:
        yield "log=true: of runs that did not fail `failed` is 0, which has no logarithm; leave out log"
    if comparison.at is not None and comparison.at not in claim.levels:
        yield f"at={comparison.at}: is no level of the factor; its levels are {claim.levels}"
    if comparison.rule.slope:
        if comparison.at is not None:
            yield f"at={comparison.at}: kind={comparison.kind} is a slope over all levels; leave it out"
        numbers = [x for x in claim.levels if isinstance(x, int | float) and not isinstance(x, bool)]
        if not 1 < len(numbers) == len(claim.levels):
            yield f"kind={comparison.kind}: needs a factor of two or more numbers"
        if comparison.log2_factor and min(numbers) <= 0:
            yield f"log2_factor=true: level {min(numbers)} has no logarithm; give levels above 0"
    if comparison.practical and not (claim.cells and metric in OF_TEST):
        known = " and ".join(OF_TEST[:2])
        yield f"margin={PRACTICAL}: metric={metric!s:.60}: is for {known} over settings; give a number"
    for key, bound in comparison.bounds.items():
        yield from _for_arms(claim, key, bound, [comparison.arm] if comparison.arm else claim.arms)
        for values in _of_arms(bound):
            if isinstance(values, list) and len(values) != len(claim.levels):
                yield f"{key}={values!s:.60}: must have {pluralize(len(claim.levels), 'number')}, one for each level"


def _of_shares(comparison: Comparison, metric: Any) -> Iterator[str]:
    """Numbers that no share has, such as percent."""
    for key, size in {"margin": comparison.size, "tolerance": comparison.tolerance}.items():
        if abs(size) >= 1 and not comparison.log:
            yield f"{key}={size:g}: no two values of {metric!s:.60} differ by more; give one below 1, 2% is 0.02"
    target = {} if comparison.target is None else {"target": comparison.target}
    for key, given in (target | comparison.bounds).items():
        for value in itertools.chain(
            *(part if isinstance(part, list) else [part] for part in _of_arms(given))
        ):
            if not 0 <= value <= 1:
                yield f"{key}={value:g}: {metric!s:.60} is a share, from 0 to 1; 20% is 0.2"


def _of_arms(bound: Any) -> list:
    """A bound, or that of each arm."""
    return list(bound.values()) if isinstance(bound, dict) else [bound]


def _for_arms(claim: Claim, key: str, values: Any, needed: Iterable[str]) -> Iterator[str]:
    """Where a key has a value for each arm: an arm that has none, or a name that is no arm."""
    if isinstance(values, dict):
        for arm in needed:
            if arm not in values:
                yield f"{key}={values!s:.60}: has none for arm {arm}; add it"
        for name in values.keys() - claim.arms.keys():
            yield f"{key}={values!s:.60}: {name} is none of the arms {', '.join(claim.arms)}; leave it out"


def _units(metric: str) -> set[str]:
    """What a metric counts: `error` of test/error, and of logged/last:corrupted_error_64/*, whose tags say it by a
    known word. Of other tags nobody knows it: `logged`."""
    group, _, name = metric.partition("/")
    if group != "logged":
        return {name or metric}
    tags = [re.split(r"[^a-z0-9]+", tag.lower()) for tag in name.split(" - ")]
    return {next((word for word in tag[::-1] if word in LOWER | HIGHER), group) for tag in tags}


def _keys(overrides: Iterable[str]) -> set[str]:
    """What overrides or options set."""
    return {key_of(str(text)) for text in overrides}
