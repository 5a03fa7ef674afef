"""Train the pilots of a drawn bank, one setting after the other in the order drawn, and write down what they found.

`<bank>.pilots.jsonl` has one line for each draw: its length and rates, or why it was rejected. Finished runs are not
trained again, so an interrupted command goes on where it was.
"""

import json
import math
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.disk_runs import (
    complete,
    drop_checkpoints,
    keep_out_of_git,
    launch_folder,
    row_of,
    train,
)
from normexp.claims.evidence.pilots.ngrams import ngram_loss
from normexp.claims.evidence.pilots.rules import PilotRun, Progress, Result, Rules, progress, shown
from normexp.claims.evidence.protocol import with_recipe
from normexp.claims.evidence.sources import failed_runs
from normexp.claims.spec.bank import Bank, drawn_bank, pilots_file
from normexp.claims.spec.cell import FACTS, BankCell
from normexp.config.checkout import checkout
from normexp.machine import processor
from normexp.runs import read_summary
from normexp.sweeps.options import Options

WINDOWS, WINDOW = 5, 0.06  # of timing, in seconds of process time


MORE = 75  # exit status: nothing failed, and there is more to train


def train_pilots(bank: Bank, out: Path, options: Options, command: str, most: float = math.inf) -> int:
    """Train the pilots of settings that have none, of at most so many draws. Returns the exit status."""
    if options.plan:
        return show_plan(bank, out)
    keep_out_of_git(out)
    path, population = pilots_file(bank.path), bank.known_population
    commit = (checkout() or {}).get("commit", "")
    where_computed = {"commit": commit, "torch": version("torch"), "processor": processor()}
    row: dict[str, Any] | None
    while (cell := next((cell for cell in bank.cells.values() if not cell.updates), None)) is not None:
        if most <= 0:
            return MORE
        whole = with_facts(bank, cell)  # data that are not here reject nothing
        try:
            pilot = Pilot(bank, whole, out)
        except ValueError as error:  # it cannot be built
            row, status = {"rejected": str(error), "seconds": 0.0}, 0
        else:
            row, status = pilot.run(options, command)
        if row is None:
            return status
        most -= 1
        row = {"draw": cell.draw, "setting": cell.name, **row, **where_computed}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        word = row.get("rejected") or f"{row['updates']} updates, {row['seconds']:.0f} core-seconds of pilots"
        print(f"{cell.name} ({cell.draw}; {cell.what}): {word}", flush=True)
        bank = drawn_bank(dict(population.node), bank.path, path.read_text(encoding="utf-8"))
    print(f"bank={bank.name}: {len(bank.cells)} settings have pilots: {path}")
    return 0


def show_plan(bank: Bank, out: Path) -> int:
    """Print what the first search of each setting costs; only times of updates are measured. A setting that it would
    reject stays in its place here, since its successor has to be drawn."""
    costs = []
    for cell in (candidate for candidate in bank.cells.values() if not candidate.updates):
        whole = with_facts(bank, cell)
        try:
            rules = Pilot(bank, whole, out).rules
            state = progress(rules, {})
            costs += [len(state.to_train) * rules.start * rules.step_seconds]
            step = f"{1000 * rules.step_seconds:.3g} ms"
            word = (
                f"{len(state.to_train)} runs of {rules.start} updates of {step}: {costs[-1]:.0f} core-seconds"
            )
            if state.rejected:
                word = f"rejected: {state.rejected}"
        except ValueError as error:
            word = str(error)
        print(f"{cell.name} ({cell.draw}; {cell.what}): {word}", flush=True)
    print(
        f"first search of {len(costs)} settings: {sum(costs) / 3600:.2g} core-hours; lengths are not known yet"
    )
    return 0


def with_facts(bank: Bank, cell: BankCell) -> BankCell:
    """The setting with the rates of its first search and the facts of its data. Raises ValueError for data that cannot
    be read."""
    return complete(replace(cell, rates=bank.known_population.rates[cell.labels["optimizer"]]))


class Pilot:
    """The pilot of one complete setting. Raises ValueError for one that cannot be built."""

    def __init__(self, bank: Bank, cell: BankCell, out: Path):
        from normexp.training.lightning import Pace

        self.bank, self.cache = bank, out / "cache"
        self.length, self.cell = bank.known_population.length, cell
        self.seed = int(self.length["seed"])
        self._folders: dict[PilotRun, Path] = {}
        self._rows: dict[PilotRun, dict[str, Any]] = {}
        self.step_seconds, self.values, data = self._time()
        updates_of_a_pass = Pace(len(data.training_order(data.splits["train"]))).steps
        start = max(int(self.length["updates"]), math.ceil(self.length["passes"] * updates_of_a_pass))
        self.counts_loss = self._counts_loss(data)
        self.rules = Rules(
            bank.norms, self.cell.rates, start, self.step_seconds, self.length, self.counts_loss or math.inf
        )

    def run(self, options: Options, command: str) -> tuple[dict[str, Any] | None, int]:
        """(what was found, 0), or (None, the exit status) if it was interrupted or a run failed to train."""
        while True:
            results = self._results()
            state = progress(self.rules, results)
            if not state.to_train:
                drop_checkpoints(self._folders[run] for run in results)
                return self._row(state, results), 0
            self._specs(state.to_train)
            if len(self._results()) > len(results):  # some were finished by an earlier command
                continue
            if status := self._train(state.to_train, options, command):
                return None, status

    def _row(self, state: Progress, results: Mapping[PilotRun, Result]) -> dict[str, Any]:
        seconds = sum(run.updates for run in results) * self.step_seconds
        row = shown(state, self.rules) | {"runs": len(results), "seconds": round(seconds, 1)}
        row |= {"step_seconds": self.step_seconds, "start": self.rules.start}
        if self.counts_loss is not None:
            row["counts_loss"] = round(self.counts_loss, 4)
        if "rejected" in row:
            return row
        ends = {norm: self._rows[PilotRun(norm, state.best[norm], at)] for norm, at in state.fitted.items()}
        errors = {
            norm: {name: round(end[name], 4) for name in ("train_accuracy", "val_accuracy", "val_loss")}
            for norm, end in ends.items()
        }
        facts = {fact: getattr(self.cell, fact) for fact in FACTS}
        return row | {"ends": errors, "values_per_statistic": self.values, "test": self.cell.test, **facts}

    # Runs.

    def _words(self, norm: str, updates: int = 1) -> tuple[str, ...]:
        length = (f"max_steps={updates}", f"val_every_n_steps={max(1, updates // 2)}")
        overrides = ("name=pilots", "monitor=none", f"outputs={self.cache}", *self.cell.overrides)
        return with_recipe((*overrides, *length, f"norm={norm}"))

    def _specs(self, runs: Sequence[PilotRun]) -> dict[PilotRun, Any]:
        from normexp.config.run_spec import specs

        spec_of_run = {}
        rates_of: dict[tuple[str, int], set[float]] = defaultdict(set)
        for run in runs:
            rates_of[run.norm, run.updates].add(run.rate)
        for (norm, updates), rates in sorted(rates_of.items()):
            words = self._words(norm, updates)
            for spec in specs(words, seeds=[self.seed], rates=sorted(rates)):
                run = PilotRun(norm, spec.config["lr"], updates)
                spec_of_run[run] = spec
                self._folders[run] = spec.folder
        return spec_of_run

    def _results(self) -> dict[PilotRun, Result]:
        for run, folder in self._folders.items():
            if run not in self._rows and (summary := read_summary(folder)) is not None:
                self._rows[run] = row_of(self.cell.name, summary)
        return {run: self._result(row) for run, row in self._rows.items()}

    def _result(self, row: dict[str, Any]) -> Result:
        failed = bool(failed_runs(pd.DataFrame([row]), self.cell)[0])
        text = self.cell.test == "blocks"
        names = ["val_loss"] if text else ["val_accuracy", "train_accuracy"]
        if any(row[name] is None for name in names):  # it diverged before its first validation
            return Result(math.inf, math.inf, True)
        score = row["val_loss"] if text else 1 - row["val_accuracy"]
        learned = math.inf if text else (1 - row["train_accuracy"]) / (1 - self.cell.chance)
        return Result(float(score), float(learned), failed)

    def _train(self, runs: Sequence[PilotRun], options: Options, command: str) -> int:
        specs = self._specs(runs)
        names = [f"{self.cell.name} norm={run.norm} lr={run.rate:g} updates={run.updates}" for run in specs]
        folder, what = launch_folder(self.cache), f"pilots of {self.cell.name}"
        cells = train(list(specs.values()), options, folder, command, names=names, what=what)
        return int(any(cell.state in ("failed", "interrupted") for cell in cells))

    # Time.

    def _counts_loss(self, data: Any) -> float | None:
        """Loss on validation of counts of as many tokens as the bank says; None without them."""
        if data.kind != "text" or "ngrams" not in self.length:
            return None
        train, validation = (data.splits[name].x.long().numpy() for name in ("train", "val"))
        return ngram_loss(train, validation, int(self.length["ngrams"]), data.num_classes)

    def _time(self) -> tuple[float, int, Any]:
        """(core-seconds of an update, the mean over the norms; the fewest values that a BatchNorm takes its statistics
        over in this network; the data)."""
        import torch

        from normexp.config.run_spec import specs
        from normexp.training.build import build

        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            runs = [specs(self._words(norm)) for norm in self.bank.norms]
            built = [build(spec) for (spec,) in runs]
            values = fewest_values(built[-1])
            seconds = statistics.mean(step_seconds(parts) for parts in built)
        finally:
            torch.set_num_threads(threads)
        return float(f"{seconds:.3g}"), values, built[0].data


def step_seconds(parts: Any) -> float:
    """Process seconds of an update of this run on one core, the lowest of several windows: others may be busy too."""
    from normexp.sweeps.estimate import work_of

    update, *_ = work_of(parts)
    update()
    seconds = []
    for _ in range(WINDOWS):
        count, start = 0, time.process_time()
        while not count or time.process_time() < start + WINDOW:
            update()
            count += 1
        seconds.append((time.process_time() - start) / count)
    return min(seconds)


def fewest_values(parts: Any) -> int:
    """The fewest values that a BatchNorm takes each statistic over in this network: batch x positions."""
    from normexp.norms.base import Norm

    sizes: list[int] = []
    model = parts.module.model
    hooks = [
        layer.register_forward_hook(
            lambda layer, inputs, output: sizes.append(output.numel() // layer.num_features)
        )
        for layer in model.modules()
        if isinstance(layer, Norm)
    ]
    model(next(iter(parts.data.train_dataloader()))[0])
    for hook in hooks:
        hook.remove()
    return min(sizes, default=0)
