"""Checks of a family of settings. Only a family that passes gives a meaningful word."""

from pathlib import Path

from normexp.claims.spec.claim import TUNING_SEEDS, Claim
from normexp.claims.spec.settings import Cells, Contrast, label, value_of

FEWEST = 6
# Settings that differ only in these count as one.
ALIKE = ("lr", "optimizer.lr", "seed", "data.split_seed", "model.width")
CALLED = {"gpt": "transformer"}  # names of models in sentences
POINTS = ("test/accuracy", "val/accuracy")  # a point of accuracy means something else at 98% than at 45%


def check_family(claim: Claim, path: Path) -> None:
    """Raise ValueError with one line for the first mistake in a claim over several settings."""
    if claim.evidence not in ("training", "initialization"):
        raise ValueError(f"{path}: settings: evidence={claim.evidence} needs none; leave them out")
    check_settings(claim.settings, claim.sentence, path)
    metrics = claim.metric.values() if isinstance(claim.metric, dict) else [claim.metric]
    for metric in metrics:
        if metric in POINTS:
            raise ValueError(
                f"{path}: metric={metric}: points of accuracy mean something else in each setting; give "
                f"{metric.replace('accuracy', 'error')} with log: true"
            )
        logs = metric is not None and metric.endswith(("/error", "/loss"))
        for comparison in claim.comparisons:
            if logs and not comparison.log:
                raise ValueError(
                    f"{path}: comparison.log: {metric} is pooled over settings as a ratio; give log: true"
                )
    for comparison in claim.comparisons:
        if comparison.kind == "every" or comparison.over is not None:
            what = "kind=every" if comparison.kind == "every" else f"over={comparison.over}"
            raise ValueError(
                f"{path}: {what}: has no mean over settings; give a difference, a slope, or by: rank"
            )
    if claim.metric == "failed" and claim.failed == "guess":
        raise ValueError(f"{path}: failed=guess: the claim is about failure itself; leave it out")
    if claim.contrast:
        _check_seeds(claim, claim.contrast, path)


def _check_seeds(claim: Claim, contrast: Contrast, path: Path) -> None:
    """The seeds of the contrast must be fresh."""
    first, count = contrast.first_seed, contrast.seeds
    if count < 1 or first < 0 or first + count > TUNING_SEEDS:
        raise ValueError(f"{path}: contrast.first_seed={first}: seeds must lie in 0 to {TUNING_SEEDS - 1}")
    seen = claim.seed_range(claim.looks[-1])
    if first < seen.stop and seen.start < first + count:
        raise ValueError(
            f"{path}: contrast.first_seed={first}: the verdict has seeds {seen.start} to {seen.stop - 1}; a contrast "
            f"takes fresh ones, from {seen.stop} on"
        )


def check_settings(settings: Cells, sentence: str, path: Path) -> None:
    """Require six settings that differ in kind, two data sets, and two models unless the sentence names one. For
    networks at initialization, noise counts as a data set."""
    if len(settings) < FEWEST:
        raise ValueError(f"{path}: settings: {len(settings)} are too few for a word; name {FEWEST} or more")
    kinds: dict[frozenset, str] = {}
    for name, overrides in settings.items():
        kind = frozenset(o for o in overrides if o.partition("=")[0] not in ALIKE)
        if kind in kinds:
            raise ValueError(
                f"{path}: settings: {kinds[kind]} and {name} differ in width, rate or seed at most; keep one of them"
            )
        kinds[kind] = name
    for key in ("data", "model"):
        values = {value_of(key, overrides) for overrides in settings.values()}
        words = {word.lower() for v in values if v for word in (v, label(key, v), CALLED.get(v, v))}
        named = any(word in sentence.lower() for word in words)
        if len(values) < 2 and not named:
            what = values.pop() or "noise"
            raise ValueError(
                f"{path}: settings: all have {key}={what}, which the sentence does not name; add another {key}"
            )
