"""Runs that are killed at one point and started again, compared with an uninterrupted run.

    python tests/crash/crashes.py SCENARIO FOLDER [--points N] [--twice]

A point is a call that changes files: an fsync, a rename, a new folder, a file that goes, numbers that a logger gets.
This process imports everything once and forks a child for each launch, so that a launch takes half a second. Prints one
JSON line a point, {"point", "operation", "result"}; the result is "same" or the first difference.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
import torch.utils.tensorboard
import yaml
from results import difference, results

from normexp.config.errors import one_line_errors
from normexp.config.folder import CONFIGS
from normexp.config.run_spec import specs
from normexp.training import checkpoint
from normexp.training.build import build
from normexp.training.loggers import MetricsCSV, TensorBoard
from normexp.training.train import launch

SMALL = ["trainer=cpu", "outputs=o", "data.eval_batch_size=512", "batch_size=256", "log_every_n_steps=3"]
MLP = [*SMALL, "model.width=8", "model.depth=2", "max_epochs=2"]
PACES = {"covariate_shift": 3, "internal_covariate_shift": 3, "covariate_shift_proxies": 3,
         "smoothness": 4, "hessian": 4, "representation": 4}  # fmt: skip
FULL = yaml.safe_load((CONFIGS / "monitor" / "full.yaml").read_text())
OFTEN = [f"monitor.{name}.every_n_steps={PACES.get(name, 2)}" for name in FULL if name != "defaults"]
SCENARIOS = {
    "mlp": [*MLP, "norm=batchnorm"],
    "full": [*MLP, "norm=batchnorm", "monitor=full", *OFTEN],
    "cnn": [*SMALL, "model=cnn", "model.width=4", "max_epochs=2", "data.augment=true", "monitor=none"],
    "transformer": [*SMALL, "model=transformer", "model.depth=1", "model.width=16", "model.dropout=0.2", "max_epochs=2",
                    "optimizer=adamw", "monitor=gradients"],
    "gpt": [*SMALL, "model=gpt", "data=python_docs", "model.depth=1", "model.width=16", "batch_size=64", "max_steps=12",
            "val_every_n_steps=5", "optimizer=adamw", "monitor=none", "data.context_length=16"],
    "bf16": [*MLP, "trainer=bf16", "trainer.accelerator=cpu", "optimizer=adam"],
    "accumulation": [*MLP, "trainer.accumulate_grad_batches=2", "max_epochs=3", "val_every_n_steps=3"],
    "diverged": [*MLP, "norm=none", "lr=1e12", "max_epochs=3"],
    "early": [*MLP, "early_stopping=1", "max_epochs=30", "lr=0.5"],
    "precise": [*MLP, "norm=batchnorm_precise", "max_steps=7", "val_every_n_steps=2"],
    "no step": [*MLP, "max_steps=0"],
}  # fmt: skip


class Points:
    """Counts calls from 1, and kills this process at one of them."""

    def __init__(self, at: int | None):
        self.at = at
        self.seen: list[str] = []

    def watch(self, owner: object, name: str) -> None:
        real = getattr(owner, name)

        def call(*args, **kwargs):
            self.seen.append(f"{name} {args[0] if args and isinstance(args[0], (str, Path)) else ''}".strip())
            if len(self.seen) == self.at:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        setattr(owner, name, call)

    def watch_all(self) -> None:
        for name in ("replace", "rename", "fsync", "unlink", "mkdir"):
            self.watch(os, name)
        for logger in (MetricsCSV, TensorBoard):
            self.watch(logger, "log_metrics")


def child(folder: Path, action: Callable[[], None]) -> int:
    """Exit status of `action` in a fork of this process that stands in `folder`; negative if it was killed."""
    sys.stdout.flush()
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        os.chdir(folder)
        log = os.open(folder.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1), os.dup2(log, 2)
        action()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        os._exit(code)


class Case:
    def __init__(self, scenario: str, folder: Path):
        self.folder = folder
        (self.spec,) = specs(SCENARIOS[scenario])
        self.loaded = build(self.spec).data  # forks share it

    def start(self, place: Path, at: int | None) -> int:
        place.mkdir(exist_ok=True)

        def action() -> None:
            torch.manual_seed(random.randrange(2**31))  # nothing may hang on what came before
            points = Points(at)
            points.watch_all()
            launch(build(self.spec))
            place.with_suffix(".points").write_text("\n".join(points.seen))

        return child(place, action)

    def whole(self) -> list[str]:
        """Train the uninterrupted run. Returns its points."""
        place = self.folder / "whole"
        if self.start(place, None):
            raise RuntimeError(place.with_suffix(".log").read_text())
        self.expected = results(place / self.spec.folder)
        return place.with_suffix(".points").read_text().split("\n")

    def killed(self, *points: int) -> str:
        """Launch once for each point and die there, then launch until the end."""
        place = self.folder / ("at-" + "-".join(map(str, points)))
        for point in points:
            self.start(place, point)
        if self.start(place, None):
            lines = place.with_suffix(".log").read_text().strip().split("\n")
            return f"did not go on: {lines[-1]}"
        found = difference(self.expected, results(place / self.spec.folder))
        if found is None:
            shutil.rmtree(place)
        return found or "same"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--points", type=int, help="so many, evenly over the run; all of them without")
    parser.add_argument("--twice", action="store_true", help="the second launch is killed too")
    asked = parser.parse_args()
    checkpoint.REST = 0.0  # a checkpoint each epoch
    folder = asked.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    case = Case(asked.scenario, folder)
    operations = case.whole()
    draw = random.Random(0)
    count = min(asked.points or len(operations), len(operations))
    for point in (1 + (2 * index + 1) * len(operations) // (2 * count) for index in range(count)):
        points = (point, draw.randint(1, point)) if asked.twice else (point,)
        row = {"point": points, "operation": operations[point - 1], "result": case.killed(*points)}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    with one_line_errors():
        main()
