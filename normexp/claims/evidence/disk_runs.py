"""The runs of claims on this disk: where each lies, what it came to, and what must be trained; and what a cell of a
bank leaves out, found in its configuration and its data: rates, the kind of test, and facts."""

import contextlib
import dataclasses
import hashlib
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from normexp.claims.evidence.metric import check_metric, late_gain, read_metric
from normexp.claims.evidence.protocol import with_recipe
from normexp.claims.spec.cell import BankCell
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.population import equal_passes
from normexp.claims.spec.registry import UNKNOWN
from normexp.config.process import fast_imports
from normexp.runs import read_summary
from normexp.runs.summary import other_numerics

if TYPE_CHECKING:
    from normexp.config.run_spec import RunSpec  # loads torch
    from normexp.sweeps.cell import Cell
    from normexp.sweeps.estimate import Estimates
    from normexp.sweeps.options import Options

LADDER = (0.1, 0.3, 1.0, 3.0, 10.0)  # times the configuration's own rate


def complete_cells(claim: Claim) -> Claim:
    """The claim with complete cells. Raises ValueError with one line for data that cannot be read."""
    if claim.evidence != "training" or all(cell.is_complete for cell in claim.cells.values()):
        return claim
    cells = {name: complete(cell) for name, cell in claim.cells.items()}
    return dataclasses.replace(claim, cells=cells)


def complete(cell: BankCell) -> BankCell:
    """The cell with everything that it left out. It reads the data, with the seed 0.

    Rates are the configuration's own, times 0.1, 0.3, 1, 3 and 10. The chance is the share of the most frequent answer
    on validation; the loss of a guess is the entropy of the answers on the training split.
    """
    if cell.is_complete:
        return cell
    with fast_imports():
        import torch

        from normexp.claims.evidence.initial import plain
        from normexp.config.targets import load_data

    config = plain(cell.overrides)
    data = load_data(config, None)
    answers = {split: data.splits[split].y.flatten() for split in ("train", "val", "test")}
    frequency = torch.bincount(answers["val"])
    # Each seed cuts its own split where a setting of the data follows the seed.
    cut_again = any(word.startswith("data.") and word.endswith("${seed}") for word in cell.overrides)
    return dataclasses.replace(
        cell,
        rates=cell.rates or tuple(float(f"{config['lr'] * step:.2g}") for step in LADDER),
        test=cell.test or ("blocks" if data.kind == "text" else "cut again" if cut_again else "test set"),
        validation=cell.validation or len(answers["val"]),
        chance=cell.chance or frequency.max().item() / len(answers["val"]),
        guess_loss=cell.guess_loss or data.chance_loss("train"),
        test_to_train=cell.test_to_train or len(answers["test"]) / len(answers["train"]),
    )


OF_RUNS = ("test/error", "test/loss", "train/loss", "failed")  # metrics that every row has
NUMBERS = [f"{split}_{name}" for split in ("train", "val", "test") for name in ("loss", "accuracy")]
# Of validation accuracy, as in `summary.json`.
SPEED = ("auc", "steps_to_0.5", "steps_to_0.8", "steps_to_0.9")
MOST_FAILURES = 3  # of a run, until no plan asks for it


class RunKey(NamedTuple):
    """One run of a claim. `setting` is empty for a claim of one setting, `lr` None for the configuration's own."""

    setting: str
    arm: str
    level: Any
    seed: int
    lr: float | None

    def __str__(self) -> str:
        rate = f"lr {self.lr:g}" if self.lr is not None else ""
        return " ".join(filter(None, (self.arm, str(self.level), f"seed {self.seed}", rate)))


class DiskRuns:
    """The runs of one claim in a cache that all claims share.

    Args:
        cache: the folder of runs.
        failures: how often each run failed, by folder; filled by whoever trains.
    """

    def __init__(self, claim: Claim, cache: Path, failures: Counter[Path] | None = None):
        self.claim, self.cache = claim, cache
        self.failures = Counter() if failures is None else failures
        self.new: set[Path] = set()  # planned by this command
        self.shown: dict[Path, RunKey] = {}  # the run in each of these
        self._specs: dict[RunKey, RunSpec] = {}
        self._rows: dict[RunKey, dict[str, Any]] = {}

    def specs(self, keys: Sequence[RunKey]) -> "list[RunSpec]":
        """The runs as plain values. Runs of one arm in one setting are composed together."""
        from normexp.config.run_spec import specs

        new = [key for key in keys if key not in self._specs]
        groups: dict[tuple, list[RunKey]] = defaultdict(list)
        for key in sorted(new, key=lambda key: (key.setting, key.arm, str(key.level))):
            groups[key[:3]].append(key)
        for (setting, arm, level), group in groups.items():
            seeds = sorted({key.seed for key in group})
            rates = sorted({key.lr for key in group if key.lr is not None}) or None
            words = self._words(setting, arm, level)
            for spec in specs(words, seeds=seeds, rates=rates):
                key = RunKey(setting, arm, level, spec.config["seed"], spec.config["lr"] if rates else None)
                self._specs[key] = spec
        return [self._specs[key] for key in keys]

    def check(self, keys: Iterable[RunKey]) -> None:
        """Raise ValueError with one line if a run of these could not be made, or would lack the claim's metric."""
        for key in {key[:3]: key for key in keys}.values():
            (spec,) = self.specs([key])
            check_metric(self.claim, self.claim.metric_of(key.arm), spec.config)
            if check := self.claim.check_of(key.arm):
                check_metric(self.claim, check, spec.config)

    def missing(self, keys: Sequence[RunKey]) -> "list[RunSpec]":
        """The runs to train, each once: those without a result that failed fewer than three times. Arms with equal
        overrides share runs.

        Raises ValueError with one line if only such runs are left.
        """
        by_folder: dict[Path, RunSpec] = {}
        for key, spec in zip(keys, self.specs(keys), strict=True):
            if key not in self._rows and spec.folder not in by_folder:
                by_folder[spec.folder] = spec
                self.shown[spec.folder] = key
        trainable = {
            folder: spec for folder, spec in by_folder.items() if self.failures[folder] < MOST_FAILURES
        }
        if by_folder and not trainable:
            raise ValueError(
                f"{len(by_folder)} runs failed {MOST_FAILURES} times, the first {next(iter(by_folder))}"
            )
        self.new |= trainable.keys()
        return list(trainable.values())

    @property
    def names(self) -> dict[Path, str]:
        """What the runs that this command planned are called on the screen."""
        return {folder: self._name(key) for folder, key in self.shown.items()}

    def _name(self, key: RunKey) -> str:
        fields = {"claim": self.claim.id, **key._asdict()}
        words = [f"{name}={value}" for name, value in fields.items() if value not in (None, "")]
        return " ".join(words).replace(", ", ",")

    def rows(self, keys: Sequence[RunKey]) -> pd.DataFrame:
        """One row for each of these runs that is finished, with its folder. Raises ValueError for other numerics."""
        for key, spec in zip(keys, self.specs(keys), strict=True):
            if key not in self._rows and (summary := read_summary(spec.folder)) is not None:
                self._rows[key] = self._row(key, summary, spec.folder)
        rows = [self._rows[key] for key in keys if key in self._rows]
        return pd.DataFrame(rows) if rows else pd.DataFrame({"cell": [], "lr": []})

    def finished_rows(self) -> pd.DataFrame:
        """One row for each finished run that was asked for; runs that arms share once."""
        return pd.DataFrame(self._rows.values()).drop_duplicates("folder")

    def _row(self, key: RunKey, summary: dict[str, Any], folder: Path) -> dict[str, Any]:
        if other := other_numerics(summary):
            raise ValueError(
                f"{folder}: has {other} as this version; remove that folder, or use out=<another> for all "
                "runs anew"
            )
        row = row_of(key.setting, summary) | {"norm": key.arm, "level": key.level, "lr": key.lr}
        row["folder"] = str(folder)
        metric, check = self.claim.metric_of(key.arm), self.claim.check_of(key.arm)
        if self.claim.settings and metric in OF_RUNS:
            row |= {"value": row["train_loss"], "censored": False}
        else:
            row["value"], row["censored"] = read_metric(metric, summary, folder)
        row["check"] = read_metric(check, summary, folder)[0] if check else None
        cell = self.claim.cells.get(key.setting)
        if cell and cell.draw:
            row["late_gain"] = late_gain(summary, folder, text=cell.test == "blocks")
        return row

    def _words(self, setting: str, arm: str, level: Any) -> tuple[str, ...]:
        """The overrides that all seeds and rates share."""
        claim, cell = self.claim, self.claim.cells.get(setting)
        # `.hydra/` resolves no key, so references are escaped as Hydra's sweeps write them.
        words = [word.replace("${seed}", r"$\{seed\}") for word in (cell.overrides if cell else ())]
        fixed = [*(word for word in words if word != "monitor=none"), *claim.fixed_of(arm)]
        # Monitors are no part of a run's identity, but a claim that reads their logs needs a run that had them.
        monitors = [override for override in fixed if override.startswith("monitor")]
        digest = hashlib.sha256("\n".join(monitors).encode()).hexdigest()[:8]
        study = f"watched-{digest}" if monitors else "runs"
        shared = (f"name={study}", *([] if monitors else ["monitor=none"]), f"outputs={self.cache}")
        factor = claim.factor_of(level)
        length = equal_passes(cell, [*claim.fixed, *claim.arms[arm], *factor]) if cell else []
        return with_recipe((*shared, *fixed, *claim.arms[arm], *factor, *length))


def launch_folder(cache: Path) -> Path:
    """The folder of a launch that trains into this cache, for its logs and its record."""
    return cache / ".sweeps" / f"{datetime.now():%Y-%m-%d_%H-%M-%S-%f}"


def train(
    specs: "Sequence[RunSpec]", options: "Options", folder: Path, command: str, **more: Any
) -> "list[Cell]":
    """Train runs; see `normexp.sweeps.run.run`."""
    from normexp.sweeps.run import run

    return run(specs, options, folder=folder, command=command, **more)


def estimated_seconds(specs: "Sequence[RunSpec]", estimates: "Estimates") -> list[float | None]:
    """Seconds of each run, from a few steps of each kind; None on a GPU, and for one that cannot run, which its own
    process will say."""
    seconds: list[float | None] = [None] * len(specs)
    for place, spec in enumerate(specs):
        with contextlib.suppress(ValueError):
            seconds[place] = estimates.seconds(spec)
    return seconds


def keep_out_of_git(out: Path) -> None:
    """Keep runs out of the user's repository: files of theirs would make its checkout a changed one."""
    out.mkdir(parents=True, exist_ok=True)
    if not (out / ".gitignore").exists():
        (out / ".gitignore").write_text("*\n")


def drop_checkpoints(folders: Iterable[Path]) -> None:
    """Delete the checkpoints of finished runs: thousands of them would fill the disk, and no verdict reads them."""
    for folder in folders:
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def row_of(cell: str, summary: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a run that a verdict needs, as one flat row."""
    config, checkout = summary["config"], summary.get("checkout") or {}
    first = summary.get("first", {"started": ""})  # older runs do not say when they were launched first
    execution = {"mode": "", "threads": "", "processor": "", "replicas": 1, "precision": "32-true"}
    return {
        "cell": cell,
        "norm": summary["choices"]["norm"],
        "lr": config["lr"],
        "seed": config["seed"],
        "status": summary["status"],
        **{name: summary["metrics"].get(name.replace("_", "/")) for name in NUMBERS},
        "steps": summary["steps"],
        **{name: summary["convergence"].get(name) for name in SPEED},
        "seconds": round(summary["seconds"], 2),  # of all replicas together
        **{name: summary["execution"].get(name, default) for name, default in execution.items()},
        "hash": summary["hash"],
        "finished": summary["finished"],
        "started": first["started"] if first["started"] is not None else UNKNOWN,
        "commit": checkout.get("commit", ""),
        "dirty": checkout.get("dirty", True),
        "code": "",
        "torch": summary["versions"]["torch"],
    }
