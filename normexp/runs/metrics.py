"""A metric by its name: which way is better, and its final values."""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

from normexp.runs.read import read_metrics
from normexp.runs.summary import REESTIMATED

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

# The last word of a name.
LOWER = {
    "loss", "error", "err", "perplexity", "ppl", "bpb", "bpc", "nll", "mse", "mae", "rmse", "fid", "wer",
    "cer", "regret", "steps", "seconds",
}  # fmt: skip
HIGHER = {
    "accuracy", "acc", "top1", "top5", "map", "ap", "ap50", "ap75", "f1", "auc", "auroc", "auprc", "bleu",
    "rouge", "dice", "iou", "miou", "psnr", "ssim", "r2", "recall", "precision", "elo", "reward", "return",
}  # fmt: skip
# Before the last word, these turn it around or count something else, as 1-accuracy does: neg_log_loss, steps_to_acc.
TURNED = {"neg", "negative", "minus", "one", "drop", "to", "until", "gap", "diff", "difference", "delta"}
SHARES = {"accuracy", "acc", "error", "err"}
EITHER = {"steps", "seconds"}  # of what is survived, more are better
SUBTRACTED = re.compile(r"(.*/)?\s*\d*\s*-")


def last_word(name: str) -> str:
    """`map` of val/mAP, `error` of test/error_reestimated; empty where the words before it turn it."""
    *before, last = re.split(r"[^a-z0-9]+", name.lower().removesuffix(f"_{REESTIMATED}"))
    return "" if TURNED & set(before) or SUBTRACTED.match(name) else last


def higher_is_better(name: str, better: str | None = None) -> bool:
    """Whether higher values are better, as `better` says, else the name. Raises ValueError if neither does, or if one
    contradicts the other."""
    if better not in (None, "higher", "lower"):
        raise ValueError(f"better={better}: write higher or lower")
    last = last_word(name)
    if not better and last not in LOWER | HIGHER:
        raise ValueError(f"metric={name}: which way is better? write better=higher or better=lower")
    known = "higher" if last in HIGHER else "lower"
    if better and better != known and last in (LOWER | HIGHER) - EITHER:
        remedy = "leave it out, or rename the metric"
        raise ValueError(f"better={better}: of {name} the {known} is better; {remedy}")
    return (better or known) == "higher"


def bounds_of(name: str, values: "np.ndarray") -> tuple[float, float]:
    """The smallest and the largest possible value of a metric, by the last word of its name: a share lies from 0 to 1,
    and what is better lower is not below 0. A bound that one of the values (n,) breaks is none."""
    last = last_word(name)
    least = 0.0 if last in SHARES | LOWER else -math.inf
    most = 1.0 if last in SHARES else math.inf
    return (-math.inf if (values < least).any() else least), (math.inf if (values > most).any() else most)


def with_metric(table: "pd.DataFrame", path: Path, name: str) -> "pd.DataFrame":
    """A table of runs below a path with a column of this metric: a final one, one minus an accuracy, or the last value
    that each run logged. Raises ValueError, with the nearest names, if none did."""
    if name in table:
        return table
    if (accuracy := name.replace("error", "accuracy")) in table:
        return table.assign(**{name: 1 - table[accuracy]})
    logged = read_metrics([path / run for run in table["run"]], [name])
    last = logged.drop_duplicates("run", keep="last").set_index("run")["value"]  # also if it is not finite
    return table.assign(**{name: last.reindex(range(len(table))).to_numpy()})
