"""The ledger: finished runs as committed files, a read-only store from which verdicts are judged without training.

`docs/evidence` of a checkout, or of the installed package, has

- `bank/<cell>.csv`: one row per run of a bank's grid; `bank/<cell>.npz`: which test examples some of them had right,
  those at the best rate of each seed on validation, and those at the lowest rate, for sentences about a small rate.
- `claims/<id>/runs.csv`, `claims/<id>/<cell>.npz`: the same for the runs that a claim trained itself.
- `verdicts/<id>.json`, `verdicts/<id>.csv.gz`: protocol, cost and values of a claim about networks at initialization or
  about one setting.
- `registry.jsonl`, `commits.json`: the registered protocols, and what the registry was at each commit of these runs.
- `cells.json`, `claims/<id>/arms.json`: the digest of the overrides of each cell and of each arm, since another file
  may have a cell of this name, or an arm may be edited.
- `audit.json`: how random rows came out when they were trained again.
- `manifest.json`: the digest of each file.

Losses of test examples (`*.losses.npz`) and learning curves (`*curves.csv.gz`) lie in the repository and in a second
archive (`normexp evidence export`), since no registered claim's word needs them.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from normexp.claims.spec.bank import Bank
from normexp.claims.spec.cell import BankCell, value_of
from normexp.claims.spec.claim import Claim
from normexp.config.folder import CONFIGS
from normexp.runs import TestExamples
from normexp.runs.files import BESIDE

PLACE = Path("docs") / "evidence"
EVIDENCE = CONFIGS.parent / PLACE  # in a wheel the package carries it beside its configurations
LEDGER, OWN_LEDGER, KEPT = PLACE / "bank", PLACE / "claims", PLACE / "verdicts"
MANIFEST = "manifest.json"
CELLS, ARMS = "cells.json", "arms.json"
AUDIT = "audit.json"  # what the last audit of the ledger found
SECOND_ARCHIVE = ("losses.npz", "curves.csv.gz")  # ends of names
RUN = ["norm", "level", "seed", "lr"]  # with the cell, what names a run
# Judging again cannot restore these.
COSTS = ("seconds", "command", "runs", "learning_rates", "learning_rates_at_edge")


def ledger_of_bank(bank: Bank, folder: Path = EVIDENCE) -> Path:
    """The ledger of a drawn bank, and of the claims over it: a folder of its own inside a ledger. That of a user's own
    bank is `evidence` beside its file, since the project's ledger may lie inside an installed package."""
    is_users = folder == EVIDENCE and not bank.shipped
    return (bank.path.parent / "evidence" if is_users else folder) / bank.name


@dataclass(frozen=True)
class StoredVerdict:
    """The stored record and values of one claim."""

    record: dict[str, Any]
    table: pd.DataFrame


class StoredEvidence:
    """Reads a ledger. Every file is checked against the manifest when it is read, and rows against each other; what
    fails is a ValueError with one line that names the file."""

    def __init__(self, folder: Path = EVIDENCE):
        self.folder = folder

    @functools.cached_property
    def _node(self) -> dict[str, dict[str, str]]:
        path = self.folder / MANIFEST
        return json.loads(path.read_text()) if path.exists() else {"files": {}}

    @property
    def manifest(self) -> dict[str, str]:
        """Path below the folder -> SHA-256; empty for a ledger without a manifest."""
        return self._node["files"]

    def read(self, name: str) -> Path | None:
        """The path of a file, checked; None if the ledger never had it, or has it in its second archive alone."""
        path = self.folder / name
        digest = self.manifest.get(name)
        if not path.exists():
            if digest is None or name.endswith(SECOND_ARCHIVE):
                return None
            raise ValueError(
                f"{path}: is missing, and {MANIFEST} has it; restore it from git, or install again"
            )
        if self.manifest and digest != file_digest(path):
            what = "is not in" if digest is None else "is not the file of"
            raise ValueError(
                f"{path}: {what} {MANIFEST}; restore it from git, or write it with normexp evidence keep"
            )
        return path

    def _json(self, name: str) -> dict[str, Any]:
        """What a file of JSON holds, checked; nothing if there is none."""
        path = self.read(name)
        return json.loads(path.read_text()) if path else {}

    @functools.cached_property
    def cells(self) -> dict[str, str]:
        """Cell -> the digest of the overrides with which its rows were trained."""
        return self._json(CELLS)

    def has_cell(self, cell: BankCell) -> bool:
        """Whether the rows of this name are of this cell. A ledger without digests is taken at its word."""
        return self.cells.get(cell.name, cell.digest) == cell.digest

    def arms(self, claim: str) -> dict[str, str]:
        """Arm -> the digest of what it changed when its rows were trained."""
        return self._json(f"claims/{claim}/{ARMS}")

    def edited_arms(self, claim: Claim) -> list[str]:
        """The arms of which this ledger has rows of another arm. A ledger without digests is taken at its word."""
        kept = self.arms(claim.id)
        return [arm for arm in claim.arms if arm in kept and kept[arm] != claim.digest_of(arm)]

    def check_arms(self, claim: Claim) -> None:
        """Raise ValueError with one line if runs of an arm that was edited since would be written over."""
        if edited := self.edited_arms(claim):
            raise ValueError(
                f"claim={claim.id}: {self.folder} has runs of another arm named {edited[0]}; name a new folder"
            )

    def check_cells(self, cells: Iterable[BankCell]) -> None:
        """Raise ValueError with one line if runs of another cell of the same name would be written over."""
        if other := [cell.name for cell in cells if not self.has_cell(cell)]:
            raise ValueError(
                f"{self.folder}: has runs of another setting named {other[0]}; name a new folder"
            )

    def grid_rows(self, cells: Iterable[BankCell]) -> pd.DataFrame:
        """The rows of the grid in these cells; a cell that is not in the ledger has none."""
        paths = [
            path for cell in cells if self.has_cell(cell) and (path := self.read(f"bank/{cell.name}.csv"))
        ]
        tables = [_table(path, file_digest(path)) for path in paths]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["cell", "lr"])

    def own_rows(self, claim: Claim) -> pd.DataFrame:
        """The rows of a claim's own runs; empty if it has none."""
        path = self.read(f"claims/{claim.id}/runs.csv")
        if path is None:
            return pd.DataFrame({"cell": []})
        rows = _table(path, file_digest(path))
        return rows[~rows["norm"].isin(self.edited_arms(claim))]

    def rows(self, claim: Claim, cell: BankCell) -> pd.DataFrame:
        """The runs that a claim may read in a cell, at any rate, each once and named by its arm; `bank` is true for
        those of the grid."""
        claim_rows = self.own_rows(claim)
        if not self.has_cell(cell):
            return claim_rows.iloc[:0]
        parts = [claim_rows[claim_rows["cell"] == cell.name].assign(bank=False)]
        if (arms := grid_arms(claim, cell)) and len(grid := self.grid_rows([cell])):
            for (arm, level), norm in arms.items():
                runs = grid[grid["norm"] == norm]
                parts.append(runs.assign(norm=arm, level=level, value=runs["train_loss"], bank=True))
        parts = [part for part in parts if len(part)]
        if not parts:
            return claim_rows.iloc[:0]
        return pd.concat(parts, ignore_index=True).drop_duplicates(RUN, ignore_index=True)

    def examples(self, claim: Claim, cell: BankCell) -> Callable[[str], TestExamples | None]:
        """A function from the hash of a run to its test examples; None if none are stored."""
        names = [f"claims/{claim.id}/{cell.name}", *([f"bank/{cell.name}"] if cell.norms else [])]
        readers = [self.examples_in(name) for name in names]
        return lambda run: next(
            (test_examples for of in readers if (test_examples := of(run)) is not None), None
        )

    def examples_in(self, name: str) -> Callable[[str], TestExamples | None]:
        """The same for one pair of files, named without their ends. Losses are empty where they are not here."""
        path, beside = self.read(f"{name}.npz"), self.read(f"{name}.losses.npz")
        if path is None:
            return lambda run: None
        stored = np.load(path)
        losses = np.load(beside)["loss"] if beside else None
        places = {run: index for index, run in enumerate(stored["hash"].tolist())}
        shape = tuple(stored["shape"])
        right, test_sets = stored["right"], stored["test_set"]

        def of(run: str) -> TestExamples | None:
            if (index := places.get(run)) is None:
                return None
            bits = np.unpackbits(right[index], count=int(np.prod(shape))).astype(bool).reshape(shape)
            loss = losses[index].astype(np.float32) if losses is not None else np.empty(0, np.float32)
            return TestExamples(bits, loss, str(test_sets[index]))

        return of

    def verdict(self, claim: Claim) -> StoredVerdict | None:
        """The stored record and values of a claim's present protocol; None if there are none."""
        path = self.read(f"verdicts/{claim.id}.json")
        if path is None:
            return None
        record = json.loads(path.read_text())
        if record["protocol"] != claim.protocol:
            return None
        values = self.read(f"verdicts/{claim.id}.csv.gz")
        if values is None:
            raise ValueError(
                f"{path.with_suffix('.csv.gz')}: is missing; verify claim={claim.id} keep=... anew"
            )
        levels = {level_text(level): level for level in claim.levels}
        table = pd.read_csv(values, keep_default_na=False, dtype={"factor": str, "value": str})
        exact = table["value"].map(float)  # to the last bit, with nan and infinities
        return StoredVerdict(
            record, table.assign(factor=table["factor"].map(level_text).map(levels), value=exact)
        )

    def check(self) -> list[str]:
        """What is wrong with this ledger, one line each; it reads every file."""
        mistakes = []
        here = {path.relative_to(self.folder).as_posix() for path in self.files()}
        for name in sorted({*self.manifest, *here}):
            try:
                path = self.read(name)
                if path and name.endswith(".csv") and name.startswith(("bank/", "claims/")):
                    place = name.rpartition("/")[0]
                    for cell, cell_rows in _table(path, file_digest(path)).groupby("cell"):
                        check_accuracies(cell_rows, self.examples_in(f"{place}/{cell}"), path)
            except (ValueError, OSError, KeyError) as error:
                mistakes.append(str(error))
        return mistakes

    def files(self) -> list[Path]:
        """Every file of rows, examples, curves and values; none that somebody is writing."""
        kinds = ("bank/*", "claims/**/*", "verdicts/*")
        paths = (path for kind in kinds for path in self.folder.glob(kind) if path.is_file())
        return [path for path in paths if path.suffix != BESIDE]


def level_text(level: Any) -> str:
    """A level as it is written. A table may have 2.0 for the level 2."""
    try:
        return f"{float(level):g}"
    except (TypeError, ValueError):  # a list, null or a word
        return str(level)


def grid_arms(claim: Claim, cell: BankCell) -> dict[tuple[str, Any], str]:
    """Arms and levels that change only the norm, to one that the grid has in this cell; (arm, level) -> norm. A drawn
    setting may have some of their values already."""
    norms_of_arms = {}
    for arm, overrides in claim.arms.items():
        for level in claim.levels:
            words = [*claim.fixed_of(arm), *overrides, *claim.factor_of(level)]
            if cell.draw:
                words = [
                    w for w in words if value_of(w.partition("=")[0], cell.overrides) != w.partition("=")[2]
                ]
            if len(words) == 1 and (norm := words[0].removeprefix("norm=")) in cell.norms:
                norms_of_arms[arm, level] = norm
    return norms_of_arms


def check_accuracies(runs: pd.DataFrame, of: Callable[[str], TestExamples | None], path: Path) -> None:
    """Raise ValueError for the first row whose accuracy on test is not that of its test examples."""
    for run, said in zip(runs["hash"], runs["test_accuracy"], strict=True):
        examples = of(str(run))
        if examples is not None and abs(examples.right.mean() - said) > 1e-6:
            raise ValueError(
                f"{path}: run {run[:8]}: says an accuracy on test of {said:g}, and its examples give "
                f"{examples.right.mean():g}; restore the files from git"
            )


@functools.lru_cache(maxsize=256)
def _table(path: Path, digest: str) -> pd.DataFrame:
    """The rows of a file, which every claim that reads it shares. Raises ValueError for a run that stands twice, and
    for times that no run has."""
    runs = pd.read_csv(path)
    if "level" in runs:  # of a claim's own runs
        given = runs[["commit", "level"]].astype(object)
        runs = runs.assign(**given.where(given.notna(), ""))
    keys = ["cell", *(key for key in RUN if key in runs)]
    if (twice := runs[runs.duplicated(keys)]).shape[0]:
        raise ValueError(
            f"{path}: {len(twice)} runs stand there twice, the first {twice['hash'].iloc[0][:8]}"
        )
    if (wrong := runs[~(runs["seconds"] > 0)]).shape[0]:
        raise ValueError(f"{path}: run {wrong['hash'].iloc[0][:8]}: seconds={wrong['seconds'].iloc[0]:g}")
    return runs


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
