"""How fast a run learned: steps, epochs and seconds to each accuracy, and the validation curve in four numbers."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

Row = Mapping[str, float]


def convergence(
    history: Sequence[Row], targets: Sequence[float], *, divergence_step: int | None = None
) -> dict[str, float | int | None]:
    """Summarize a validation curve.

    ``history`` has one row per validation, in order. Its keys are ``step`` (optimizer steps before the validation),
    ``epoch`` (the same in passes over the data, a fraction allowed), ``seconds`` (of training so far) and
    ``val_accuracy`` (0 to 1). A target is reached at the first validation whose accuracy is at least the target, even
    if the accuracy falls later. Nothing is interpolated between two validations.

    Returns these keys. A value is None if it does not exist (a target not reached, a history without rows):

    - ``steps_to_0.9``, ``epochs_to_0.9``, ``seconds_to_0.9`` for each target, here 0.9;
    - ``auc``: area under the curve over steps (trapezoids) divided by the range of steps. It is the mean accuracy on
      the way, 0 to 1. Compare it only between runs that were validated at the same steps;
    - ``best``, ``best_step`` (the first step with the best value), ``last``;
    - ``divergence_step``: as given, the step of the first non-finite loss.

    Raises ValueError if the steps do not increase, or if a target is not in (0, 1].
    """
    for before, after in pairwise(history):
        if after["step"] <= before["step"]:
            raise ValueError(f"history: step {after['step']} follows {before['step']}; sort the rows by step")
    summary: dict[str, float | int | None] = {}
    for target in targets:
        if not 0 < target <= 1:
            raise ValueError(f"targets={target}: an accuracy lies in (0, 1]; give fractions, not percents")
        reached = next((row for row in history if row["val_accuracy"] >= target), None)
        for name, key in (("steps", "step"), ("epochs", "epoch"), ("seconds", "seconds")):
            summary[f"{name}_to_{target:g}"] = None if reached is None else reached[key]
    # Of equal values, max takes the first.
    best = max(history, key=lambda row: row["val_accuracy"], default=None)
    summary["auc"] = _mean_over_steps(history)
    summary["best"] = None if best is None else best["val_accuracy"]
    summary["best_step"] = None if best is None else best["step"]
    summary["last"] = history[-1]["val_accuracy"] if history else None
    summary["divergence_step"] = divergence_step
    return summary


def _mean_over_steps(history: Sequence[Row]) -> float | None:
    if not history:
        return None
    if len(history) == 1:
        return history[0]["val_accuracy"]
    area = sum(
        (after["step"] - before["step"]) * (before["val_accuracy"] + after["val_accuracy"]) / 2
        for before, after in pairwise(history)
    )
    return area / (history[-1]["step"] - history[0]["step"])
