"""The ledger: the finished runs of the bank as committed files, from which verdicts are judged without training.

- `<folder>/<cell>.csv` has one row per run.
- `<folder>/<cell>.npz` has the test examples of some runs: those at the best rate of each seed on validation, and those
  at the lowest rate, for sentences about a small rate.
- `<folder>/<cell>.curves.csv.gz` has the learning curves of all runs.
- `<folder>/code.json` says what each digest of code in the rows stands for.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from normexp.claims.evidence.bank_runs import rows
from normexp.claims.evidence.chosen_runs import tuned_runs
from normexp.claims.evidence.learning_curves import bank_curves, write_curves
from normexp.claims.evidence.widened_grid import Grid, grids
from normexp.claims.spec.bank import Bank
from normexp.runs import TestExamples, finished_summary, load_test_examples

LEDGER = Path("docs") / "evidence" / "bank"
OWN_LEDGER = Path("docs") / "evidence" / "claims"  # of the runs that claims train themselves, see own_runs.py
MEASURES = ("error", "loss")  # what claims ask of the bank


def write_ledger(bank: Bank, outputs: Path, folder: Path) -> dict[str, int]:
    """Write the finished runs. Returns the number of runs of each cell. Cells without a run keep their files."""
    found = rows(bank, outputs)
    folder.mkdir(parents=True, exist_ok=True)
    codes: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for name in found["cell"].unique():
        runs = found[found["cell"] == name]
        asked = grids(runs, bank.cells[name], "error", len(bank.norms) * bank.seeds)
        runs = runs[runs["lr"].isin(asked[-1])].reset_index(drop=True)
        summaries = [finished_summary(Path(place)) for place in runs["folder"]]
        runs["code"] = [code_digest(summary["sources"], codes) for summary in summaries]
        wanted = chosen(runs, asked)
        kept = {
            row.hash: load_test_examples(row.folder) for row in runs[runs["hash"].isin(wanted)].itertuples()
        }
        write_examples(folder / f"{name}.npz", {run: own for run, own in kept.items() if own is not None})
        counts[str(name)] = len(runs)
        write_curves(bank_curves(folder, str(name)), runs)
        runs.drop(columns="folder").to_csv(folder / f"{name}.csv", index=False, float_format="%.9g")
    keep_codes(folder, codes)
    return counts


def keep_codes(folder: Path, codes: dict[str, Any]) -> None:
    """Add to `code.json` what digests of code stand for."""
    if not codes:
        return
    path = folder / "code.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | codes, indent=1, sort_keys=True) + "\n")


def read_ledger(folder: Path, cells: Iterable[str]) -> pd.DataFrame:
    """The rows of these cells. A cell that is not in the ledger has none."""
    paths = [folder / f"{name}.csv" for name in cells]
    tables = [pd.read_csv(path) for path in paths if path.exists()]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["cell", "lr"])


def read_examples(folder: Path, cell: str) -> Callable[[str], TestExamples]:
    """A function from the hash of a run of the cell to its test examples. It raises KeyError if none are kept."""
    stored = np.load(folder / f"{cell}.npz")
    places = {name: index for index, name in enumerate(stored["hash"].tolist())}
    shape = tuple(stored["shape"])
    right, loss = stored["right"], stored["loss"]

    def of(run: str) -> TestExamples:
        index = places[run]
        bits = np.unpackbits(right[index], count=int(np.prod(shape))).astype(bool).reshape(shape)
        return TestExamples(bits, loss[index].astype(np.float32), str(stored["test_set"][index]))

    return of


def chosen(runs: pd.DataFrame, asked: list[Grid]) -> set[str]:
    """Hashes of the runs at the lowest rate of the first grid, and of those at each seed's best rate by error and by
    loss, on every grid. A norm counts only if all its rates are finished."""
    wanted: set[str] = set(runs.loc[runs["lr"] == asked[0][0], "hash"])
    for measure, rates in itertools.product(MEASURES, asked):
        for _, own in runs[runs["lr"].isin(rates)].groupby("norm"):
            complete = own.groupby("seed")["lr"].nunique() == len(rates)
            ready = own[own["seed"].isin(complete.index[complete])]
            if len(ready):
                wanted |= set(tuned_runs(ready, measure)["hash"])
    return wanted


def write_examples(path: Path, examples: dict[str, TestExamples], *, losses: bool = True) -> None:
    """Bits, and losses unless left out, of runs that met the same number of examples; no file where there are none."""
    if not examples:
        return
    names = sorted(examples)
    np.savez_compressed(
        path,
        hash=np.array(names),
        shape=np.array(examples[names[0]].right.shape),
        right=np.stack([np.packbits(examples[name].right) for name in names]),
        loss=np.stack([examples[name].loss.astype(np.float16)[: None if losses else 0] for name in names]),
        test_set=np.array([examples[name].test_set for name in names]),
    )


def code_digest(sources: dict[str, Any], codes: dict[str, Any]) -> str:
    """What stands for the code of a run in its row; `codes` keeps what it stands for."""
    digest = hashlib.sha256(json.dumps(sources, sort_keys=True).encode()).hexdigest()[:12]
    codes[digest] = sources
    return digest


def read_own_ledger(folder: Path, claim: str) -> pd.DataFrame:
    """The rows of a claim's own runs; empty if it has none."""
    path = folder / claim / "runs.csv"
    if not path.exists():
        return pd.DataFrame({"cell": []})
    table = pd.read_csv(path)
    given = table[["commit", "level"]].astype(object)
    return table.assign(**given.where(given.notna(), ""))
