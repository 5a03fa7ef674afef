"""One reader of a finished run. What its files say twice must agree, so a file that is another's, older, half or edited
is refused in one line. Whoever takes a number from a run reads it here.
"""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normexp.config.identity import config_hash, saved_identity
from normexp.runs.metrics import METRICS, read_metrics, read_rows
from normexp.runs.summary import SUMMARY, damaged, read_summary
from normexp.runs.test_examples import TEST_EXAMPLES, TestExamples, load_test_examples

if TYPE_CHECKING:
    import pandas as pd

CLOCK = ("epochs", "seconds", "accuracy")
CLOSE = 1e-6  # of a mean over examples that was added up in another order and precision


@dataclass(frozen=True, eq=False)
class RunFiles:
    """A finished run whose files agree.

    Attributes:
        metrics: the rows of `metrics.csv`: step, epoch, seconds, metric, value.
        examples: the test examples; None if the run kept none.
    """

    folder: Path
    summary: dict[str, Any]
    metrics: "pd.DataFrame"
    examples: TestExamples | None


def read_run(folder: str | Path) -> RunFiles | None:
    """The files of a finished run; None if there is none. Raises ValueError with one line for files that cannot be
    read, or that contradict each other."""
    folder = Path(folder)
    summary = read_checked(folder)
    if summary is None:
        return None
    rows = read_metrics([folder], [summary["steps"]]).drop(columns=["run"])
    return RunFiles(folder, summary, rows, load_test_examples(folder))


def read_checked(folder: Path) -> dict[str, Any] | None:
    """The summary of a finished run, held against the files beside it; None if there is none.

    Recomputed are the hash (from the configuration), the test accuracy and loss (from the kept test examples), the
    number of steps (from `metrics.csv`, and from samples and epochs), and how fast the run learned (from it too).
    """
    folder = Path(folder)
    summary = read_summary(folder)
    if summary is not None:
        _check_identity(folder, summary)
        _check_samples(folder, summary)
        _check_curve(folder, summary)
        _check_examples(folder, summary)
    return summary


def _check_identity(folder: Path, summary: dict[str, Any]) -> None:
    """The hash is that of the configuration and that for which the folder was made."""
    digest = config_hash(summary["config"], summary["fingerprint"])
    processes = summary["execution"].get("devices", 1)
    if not isinstance(processes, int) or processes < 1:
        raise damaged(folder / SUMMARY, f"execution.devices={processes}: must be a positive integer", folder)
    if processes > 1:  # earlier versions did not count them
        shared = config_hash(summary["config"], summary["fingerprint"], processes)
        digest = shared if summary["hash"] == shared else digest
    if digest != summary["hash"]:
        why = f"hash={summary['hash'][:8]}: the configuration has {digest[:8]}"
        raise damaged(folder / SUMMARY, why, folder)
    made_for = saved_identity(folder)
    if made_for not in (None, digest):
        why = f"is of run {digest[:8]}, but its folder was made for {made_for:.8}"
        raise damaged(folder / SUMMARY, why, folder)
    nulls = {name for name, value in summary["metrics"].items() if value is None}
    step, found = summary["convergence"].get("divergence_step"), summary["status"]
    if found == "diverged":
        wrong = step is None and not nulls
    else:  # of a healthy run, a split with data that are not finite may have no numbers
        wrong = step is not None or bool(nulls - set(summary.get("not_finite") or ()))
    if wrong:
        why = f"status={found}: its numbers are of a run that {'did not' if found == 'diverged' else 'diverged'}"
        raise damaged(folder / SUMMARY, why, folder)


def _check_samples(folder: Path, summary: dict[str, Any]) -> None:
    """The steps are those that it takes to see so many samples in so many epochs."""
    samples, epochs = summary.get("samples"), summary["epochs"]
    if samples is None:  # an earlier version
        return
    trainer, size = summary["config"].get("trainer") or {}, summary["config"]["batch_size"]
    per_step = trainer.get("accumulate_grad_batches", 1)
    batches = samples / size
    if per_step > 1 and epochs > 0:
        epoch, whole = round(batches / epochs), int(epochs)
        steps = whole * -(-epoch // per_step) + math.ceil(round((epochs - whole) * epoch) / per_step)
    else:
        steps = batches * per_step
    if steps != summary["steps"]:
        why = f"samples={samples}: {summary['steps']} steps in {epochs:.6g} epochs have others"
        raise damaged(folder / SUMMARY, why, folder)


def _check_curve(folder: Path, summary: dict[str, Any]) -> None:
    """`metrics.csv` is whole, ends at the last step, and has the validations that the summary sums up."""
    text, _ = read_rows(folder / METRICS)
    tail = text[-4000:].partition(b"\n")[2] if len(text) > 4000 else text  # the last step is always recorded
    last = max(map(int, re.findall(rb"^(\d+),", tail, re.MULTILINE)), default=-1)
    if last != summary["steps"]:
        why = f"ends at step {last}, but the run took {summary['steps']} steps"
        raise damaged(folder / METRICS, why, folder)
    if summary["status"] == "diverged":  # its curve may end before the run
        return
    found = [line.split(b",") for line in text.split(b"\n") if b",val/accuracy," in line]
    try:
        rows = {
            int(row[0]): dict(zip(CLOCK, map(float, row[1:3] + row[4:]), strict=True))
            for row in reversed(found)
        }
    except ValueError as error:
        raise damaged(folder / METRICS, str(error), folder) from None
    curve = [{"steps": step, **rows[step]} for step in sorted(rows)]
    for name, value in summarized(curve, summary["convergence"]).items():
        said = summary["convergence"][name]
        near = 1e-5 if name.startswith(("epochs", "seconds")) else 1e-9  # the file has six digits of these
        if said != value and (said is None or value is None or not math.isclose(said, value, rel_tol=near)):
            raise damaged(folder / SUMMARY, f"convergence.{name}={said}: {METRICS} gives {value}", folder)


def summarized(curve: list[dict[str, float]], names: Collection[str]) -> dict[str, float | None]:
    """What `normexp.monitors.convergence` says of a validation curve, without torch; of it those names that stand in
    `names`."""
    best = max(curve, key=lambda row: row["accuracy"], default={})
    area = sum((b["steps"] - a["steps"]) * (a["accuracy"] + b["accuracy"]) / 2 for a, b in pairwise(curve))
    found: dict[str, float | None] = {
        "best": best.get("accuracy"),
        "best_step": best.get("steps"),
        "last": curve[-1]["accuracy"] if curve else None,
        "auc": area / (curve[-1]["steps"] - curve[0]["steps"]) if len(curve) > 1 else best.get("accuracy"),
    }
    for name in names:
        if target := re.fullmatch(r"(steps|epochs|seconds)_to_(.+)", name):
            reached = next((row for row in curve if row["accuracy"] >= float(target[2])), {})
            found[name] = reached.get(target[1])
    return {name: value for name, value in found.items() if name in names}


def _check_examples(folder: Path, summary: dict[str, Any]) -> None:
    """The kept test examples give the test accuracy and loss."""
    examples = load_test_examples(folder)
    if examples is None:
        return
    for name, each in (("test/accuracy", examples.right), ("test/loss", examples.loss)):
        said = summary["metrics"].get(name)
        value = float(each.mean(dtype=float)) if each.size else math.nan
        near = CLOSE if name == "test/accuracy" else 1e-4 * max(1.0, abs(value))
        if said is not None and math.isfinite(value) and abs(said - value) > near:
            why = f"metrics.{name}={said:.6g}: {TEST_EXAMPLES} gives {value:.6g}"
            raise damaged(folder / SUMMARY, why, folder)
