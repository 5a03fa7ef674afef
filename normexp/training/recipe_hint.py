"""What looks wrong in the training of a run, and what to try: a hint in one line, from its summary and its losses."""

import csv
import math
from pathlib import Path
from typing import Any

from normexp.config.recipe import own_recipe
from normexp.runs.summary import NEAR_CHANCE, learning_rate

# Chosen, as NEAR_CHANCE, on the runs behind docs/recipes.md.
SPIKE = 0.3  # of the chance loss: the training loss jumps if it rises by more above its lowest
BLOWN_UP = 1.5  # times the chance loss: no network starts so badly, so its steps were too large
LEFT_BEHIND = 0.1  # of the chance loss: the training loss ends by more above its lowest
WINDOW = 20  # steps over which the training loss is averaged, because batches differ


def hint(summary: dict[str, Any], folder: Path | None) -> str | None:
    """One line on what looks wrong in the training and what to try; None if nothing does."""
    found = _sign(summary, folder)
    if found is None:
        return None
    sign, remedies = found
    return f"likely the recipe, not the norm: {sign}; try {_listed([*remedies, *_back_to_recipe(summary)])}"


def _sign(summary: dict[str, Any], folder: Path | None) -> tuple[str, list[str]] | None:
    steps, chance = summary["steps"], summary.get("chance_loss")
    if steps == 0:
        return None
    if summary["status"] == "diverged":
        step = summary["convergence"]["divergence_step"] or steps
        early = step * summary["epochs"] <= steps  # epochs per step, times steps
        return f"it diverged {'in its first epoch, ' * early}at step {step}", [
            _slower(summary),
            _warmup(summary),
        ]
    final = summary["metrics"].get("train/loss")
    if not chance or final is None:  # an old run, which did not record it
        return None
    losses = training_losses(recorded(folder / "metrics.csv")) if folder else []
    highest, lowest = max(losses, default=0.0), math.inf
    spike = (0.0, 0.0)
    for loss in losses:
        lowest = min(lowest, loss)
        spike = max(spike, (loss - lowest, lowest))
    if final > NEAR_CHANCE * chance:
        sign = f"it ends near chance (training loss {final:.2f}, guessing has {chance:.2f})"
        return sign, [_slower(summary)] if highest > BLOWN_UP * chance else [_longer(summary), "another lr"]
    if summary["config"].get("data", {}).get("tasks"):
        return None  # the loss jumps where a task begins
    if highest > BLOWN_UP * chance:
        return f"its loss rose to {highest:.2f} (guessing has {chance:.2f})", [
            _slower(summary),
            _warmup(summary),
        ]
    if spike[0] > SPIKE * chance:
        sign = f"its loss jumped by {spike[0]:.2f} from {spike[1]:.2f}, at the edge of stability"
        return sign, [_slower(summary), _warmup(summary)]
    if losses and losses[-1] - lowest > LEFT_BEHIND * chance:
        sign = f"its training loss ends at {losses[-1]:.2f}, far above its lowest, {lowest:.2f}"
        return sign, [_slower(summary)]
    return None


Curves = dict[str, list[tuple[int, float]]]  # metric -> its steps and values


def recorded(path: Path) -> Curves:
    """What a run recorded; nothing where the file is absent."""
    found: Curves = {}
    if path.is_file():
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                found.setdefault(row["metric"], []).append((int(row["step"]), float(row["value"])))
    return found


def training_losses(curves: Curves) -> list[float]:
    """The training loss over a run. Each value is the mean over at least `WINDOW` steps, or a fiftieth of the run.

    Each value that was recorded is the mean over the steps since the value before. Values that are not finite are
    omitted.
    """
    rows = curves.get("train/loss", [])
    width = max(WINDOW, rows[-1][0] // 50) if rows else WINDOW
    means, total, count, before = [], 0.0, 0, 0
    for step, loss in rows:
        if math.isfinite(loss):
            total, count = total + loss * (step - before), count + step - before
        before = step
        if count >= width:
            means.append(total / count)
            total, count = 0.0, 0
    return means


def _slower(summary: dict[str, Any]) -> str:
    config = summary["config"]
    key = "lr" if learning_rate(config) == config["lr"] else "optimizer.lr"
    return f"{key}={learning_rate(config) / 10:g}"


def _warmup(summary: dict[str, Any]) -> str:
    return f"a longer warm-up, schedule.warmup_steps={max(10, math.ceil(_planned(summary) / 5))}"


def _planned(summary: dict[str, Any]) -> float:
    """Steps of the whole run, even if it stopped early."""
    config = summary["config"]
    return config["max_steps"] or config["max_epochs"] * summary["steps"] / summary["epochs"]


def _longer(summary: dict[str, Any]) -> str:
    key = "max_epochs" if summary["config"]["max_steps"] is None else "max_steps"
    return f"{key}={3 * summary['config'][key]}"


def _back_to_recipe(summary: dict[str, Any]) -> list[str]:
    """The override that leads back to the model's own recipe, if the run left it."""
    recipe, own = summary["config"].get("recipe"), own_recipe(summary["choices"]["model"])
    if own is not None and recipe != own:
        return [f"recipe={own}"]
    changed = summary.get("recipe_changes")
    return [f"recipe={recipe} without {' '.join(changed)}"] if changed else []


def _listed(words: list[str]) -> str:
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0]
