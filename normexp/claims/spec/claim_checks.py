"""What of a claim does not belong together, though each key is good: said before anything is trained."""

from collections.abc import Iterable, Iterator

from normexp.claims.judge.comparison import DIFFERENCES, PRACTICAL, TRENDS, Comparison
from normexp.claims.spec.cell import value_of
from normexp.claims.spec.claim import Claim
from normexp.runs.table import FEWEST_SEEDS

TUNING_SEEDS = 1000  # this and higher seeds tune learning rates; no verdict sees them
OF_TEST = ("test/error", "test/loss")
POINTS = ("test/accuracy", "val/accuracy")
BEST = {"error": "lower", "loss": "lower", "accuracy": "higher"}
SEED = "sets the seed, which every run has of its own; leave it out and give first_seed and seeds"


def mistakes(claim: Claim) -> Iterator[str]:
    """Lines with key, value and remedy. A later one may count on the earlier checks."""
    over_settings = bool(claim.cells or claim.drawn)
    if not over_settings and claim.seeds < FEWEST_SEEDS:
        yield f"seeds={claim.seeds}: fewer than {FEWEST_SEEDS} seeds rank nothing; ask for {FEWEST_SEEDS} or more"
    if not 0 <= claim.first_seed <= TUNING_SEEDS - claim.seeds:
        yield f"first_seed={claim.first_seed}: seeds must lie in 0 to {TUNING_SEEDS - 1}"
    needed = "metric" if claim.evidence == "training" else "function"
    if not (claim.arms and claim.comparisons and claim.measure and getattr(claim, needed)):
        yield f"evidence={claim.evidence}: needs arms, a comparison, measure and {needed}"
    for arm, choice in claim.arms.items():
        if claim.evidence != "law" and isinstance(choice, dict):
            yield f"arms.{arm}={choice!s:.60}: must be a list such as [norm=layernorm]"
        if isinstance(claim.metric, dict) and arm not in claim.metric:
            yield f"metric={claim.metric!s:.60}: has none for arm {arm}; add it"
    yield from _overwritten(claim)
    yield from _unanswerable(claim)
    for comparison in claim.comparisons:
        yield from _comparison(claim, comparison)
    if claim.manipulation:
        if not getattr(claim.manipulation, needed):
            yield f"manipulation: needs {needed}, as evidence={claim.evidence} has"
        yield from _comparison(claim, claim.manipulation.comparison)
    kinds: set[str] = {comparison.kind for comparison in claim.comparisons}
    if claim.search and (
        claim.evidence == "training" or over_settings or claim.factor or len(claim.arms) > 1
    ):
        yield "search: is for a law or for initial networks, with one arm and without settings or factor"
    if claim.search and kinds != {"every"}:
        yield f"search: kind={min(kinds)}: counterexamples are to a universal sentence; give kind: every"
    if not over_settings and claim.rate != "own":
        yield "rate: is for claims over several settings; name them under settings"
    if over_settings:
        yield from _family(claim, kinds)


def _overwritten(claim: Claim) -> Iterator[str]:
    """An arm that sets what the seeds or the factor's levels set after it, or `fixed` what every arm sets."""
    if len(claim.factor) > 1:
        yield f"factor={list(claim.factor)}: one factor a claim; split the claim"
    for key, levels in claim.factor.items():
        if twice := [level for place, level in enumerate(levels) if level in levels[:place]]:
            yield f"factor.{key}={levels!s:.60}: {twice[0]} stands there twice; keep one"
    arms = {f"arms.{arm}": choice for arm, choice in claim.arms.items()}
    others = {"fixed": claim.fixed, "options": claim.options, "factor": claim.factor}
    settings = {f"settings.{name}": cell.overrides for name, cell in claim.cells.items()}
    for where, words in {**arms, **others, **settings}.items():
        keys = _keys(words)
        if "seed" in keys:
            yield f"{where}={words!s:.60}: {SEED}"
        for key in claim.factor if where in arms else ():
            is_option = claim.evidence != "training" and "." not in key  # of the function, not an override
            if key in keys and (isinstance(words, dict) or not is_option):
                yield f"{where}={words!s:.60}: the factor sets {key} in every arm; leave it out, or take another factor"
    for key in _keys(claim.fixed) & set(claim.factor):
        yield f"fixed: the factor sets {key} in every arm; leave it out there"
    if claim.settings and claim.rate == "own":
        for where, words in {**arms, "fixed": claim.fixed}.items():
            if "lr" in _keys(words):
                yield f"{where}={words!s:.60}: over settings each seed takes its own best rate; leave lr out"
    ignored = set.intersection(_keys(claim.fixed), *map(_keys, claim.arms.values()))
    if claim.evidence == "training" and ignored:
        yield f"fixed: every arm sets {min(ignored)} itself; leave it out there"


def _unanswerable(claim: Claim) -> Iterator[str]:
    """A direction or a margin with which the metric cannot say no, and arms that see other data."""
    metrics = claim.metric.values() if isinstance(claim.metric, dict) else [claim.metric or ""]
    for metric in metrics:
        name = metric.rpartition("/")[2]
        if name in BEST and claim.better not in (None, BEST[name]):
            yield f"better={claim.better}: {metric} is better {BEST[name]}; change it or leave it out"
        margins = [
            abs(float(c.margin))
            for c in claim.comparisons
            if c.kind in DIFFERENCES and not c.log and c.margin != PRACTICAL
        ]
        if name in ("error", "accuracy") and margins and max(margins) >= 1:
            yield f"margin={max(margins)}: no two values of {metric} differ by more; give one below 1"
    for key in ("data.train_size", "data.val_size", "data.split_seed"):
        if len({value_of(key, words) for words in claim.arms.values() if not isinstance(words, dict)}) > 1:
            yield (
                f"arms: {key} differs between them, and a seed is compared with itself on the same examples; write it "
                "into fixed"
            )


def _family(claim: Claim, kinds: set[str]) -> Iterator[str]:
    """What a claim over several settings cannot ask."""
    if claim.evidence == "law":
        yield f"settings: evidence={claim.evidence} needs none; leave them out"
    if claim.evidence == "training" and not claim.drawn:  # equal networks before training count once
        first: dict[tuple[str, ...], str] = {}
        for name, cell in claim.cells.items():
            if (other := first.setdefault(cell.overrides, name)) != name:
                yield f"settings: {name} has the overrides of {other}; keep one"
    for metric in claim.metric.values() if isinstance(claim.metric, dict) else [claim.metric]:
        if metric in POINTS:
            yield (
                f"metric={metric}: a failed run counts as a guess, which errors know; give "
                f"{metric.replace('accuracy', 'error')}"
            )
    if "every" in kinds:
        yield "kind=every: gives no number a setting; give a difference or a slope"


def _comparison(claim: Claim, comparison: Comparison) -> Iterator[str]:
    """Names, levels and lengths that would fail only after all runs are trained."""
    for key in ("arm", "baseline", "over"):
        if (arm := getattr(comparison, key)) not in (None, *claim.arms):
            yield f"{key}={arm}: is not among the arms {', '.join(claim.arms)}; name one"
    for other in filter(None, (comparison.baseline, comparison.over)):
        if comparison.arm is not None and _same(claim, comparison, comparison.arm, other):
            words = claim.arms[other]
            yield f"arms.{other}={words!s:.60}: arm {comparison.arm} is the same; compare different arms"
    if comparison.at is not None and comparison.at not in claim.levels:
        yield f"at={comparison.at}: is no level of the factor; its levels are {claim.levels}"
    if comparison.kind in TRENDS and comparison.over is None:
        numbers = [x for x in claim.levels if isinstance(x, int | float) and not isinstance(x, bool)]
        if not 1 < len(numbers) == len(claim.levels):
            yield f"kind={comparison.kind}: needs a factor of two or more numbers, or over: ARM"
        if comparison.log2_factor and min(numbers) <= 0:
            yield f"log2_factor=true: level {min(numbers)} has no logarithm; give levels above 0"
    if comparison.margin == PRACTICAL and not ((claim.cells or claim.drawn) and claim.metric in OF_TEST):
        yield (
            f"margin={PRACTICAL}: metric={claim.metric!s:.60}: is for {' and '.join(OF_TEST)} over settings; give a "
            "number"
        )
    bounded = claim.arms if comparison.arm is None else [comparison.arm]
    for key in ("at_most", "at_least", "equals"):
        bound = getattr(comparison, key)
        for arm in bounded if isinstance(bound, dict) else ():
            if arm not in bound:
                yield f"{key}={bound!s:.60}: has none for arm {arm}; add it"
        for values in bound.values() if isinstance(bound, dict) else [bound]:
            if isinstance(values, list) and len(values) != len(claim.levels):
                yield f"{key}={values!s:.60}: must have {len(claim.levels)} numbers, one for each level"


def _same(claim: Claim, comparison: Comparison, arm: str, other: str) -> bool:
    """Whether two arms have one value, whatever is measured. Arms with equal overrides may differ in their metric."""
    of_check = claim.manipulation is not None and comparison is claim.manipulation.comparison
    one_metric = claim.evidence != "training" or of_check or claim.metric_of(arm) == claim.metric_of(other)
    return claim.arms[arm] == claim.arms[other] and one_metric


def _keys(words: Iterable[str]) -> set[str]:
    """What overrides or options set: batch_size for +batch_size=8."""
    return {str(word).lstrip("+~").partition("=")[0] for word in words}
