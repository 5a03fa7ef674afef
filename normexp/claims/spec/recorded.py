"""The names of the numbers that every run records, which a claim may compare."""

import re

from normexp.config.options import suggest
from normexp.runs.summary import REESTIMATED

# Of validation accuracy, columns of a table of runs.
SPEED = ("auc", "steps_to_0.5", "steps_to_0.8", "steps_to_0.9")
FINAL = [f"{split}/{name}" for split in ("train", "val", "test") for name in ("loss", "accuracy", "error")]
ANEW = [f"{metric}_{REESTIMATED}" for metric in FINAL if not metric.startswith("train/")]
COUNTS = {"loss": "losses", "accuracy": "shares", "error": "shares"}  # of final metrics
KNOWN = [*FINAL, *ANEW, "failed", *(f"convergence/{name}" for name in SPEED)]
TARGET = re.compile(r"convergence/steps_to_(0\.\d+|1\.0)")  # as a summary names one


def unknown_metric(metric: str) -> str:
    """What to say of a metric that no run has, whatever its configuration; empty for others, and for what a monitor
    may log."""
    if metric in KNOWN or metric.startswith("logged/") or TARGET.fullmatch(metric):
        return ""
    return f"no run will have it; {suggest(metric, KNOWN)}"


def counts_of(metric: str) -> str:
    """What the numbers of a metric are: losses, shares or steps. Empty where nobody knows it, as of a tag of somebody's
    own."""
    if metric.startswith("convergence/steps_to_"):
        return "steps"
    final = metric.removeprefix("logged/").removeprefix("last:")
    return COUNTS[final.partition("/")[2].partition("_")[0]] if final in FINAL + ANEW else ""
