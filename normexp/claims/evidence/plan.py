"""What a training claim still needs, and what is known of it: `plan`, `table`, and the settings for the judge.

A verdict is `while missing := plan(...): run(missing)`, then the judge. Runs that tune and rates of an expanded grid
are more turns of that loop. Runs on this disk and those of the ledger are read alike.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from normexp.claims.evidence.choose_rates import Grid, next_grid, rates_of, runs_at
from normexp.claims.evidence.disk_runs import DiskRuns, RunKey
from normexp.claims.evidence.metric import measure_of
from normexp.claims.evidence.sources import MANIPULATION, Examples, setting_of_runs, table_of, unfitted_arms
from normexp.claims.evidence.stored import StoredEvidence, grid_arms, ledger_of_bank
from normexp.claims.judge.outcomes import COLUMNS, Setting
from normexp.claims.judge.settings_count import FRESH_SEEDS, MOST_SEEDS, near_margin, worst_setting
from normexp.claims.spec.cell import BankCell
from normexp.claims.spec.claim import TUNING_SEEDS, Cells, Claim
from normexp.runs import load_test_examples

if TYPE_CHECKING:
    from normexp.config.run_spec import RunSpec  # loads torch

KEY = ["norm", "level", "seed", "lr"]
Rates = dict[tuple[str, Any], float | None]  # of each arm and level


class Known:
    """The runs of one training claim that are finished, from all stores.

    Args:
        stored: the ledger; None to judge from this disk alone.
        disk: the runs on this disk; None to judge from the ledger alone.
    """

    def __init__(self, claim: Claim, stored: StoredEvidence | None, disk: DiskRuns | None):
        if stored and claim.drawn_from:
            stored = StoredEvidence(ledger_of_bank(claim.drawn_from, stored.folder))
        self.claim, self.stored, self.disk = claim, stored, disk
        self.parts: dict[str, list[Setting]] = {}  # what the judge got
        self._read: list[pd.DataFrame] = []  # the runs behind it
        self._ledger: dict[str, tuple[pd.DataFrame, dict[tuple, int]]] = {}
        self._seeds: dict[str, range] = {}  # of each setting, once its own runs are finished
        # Of each setting: the first grid, and those that its runs asked for.
        self.grids: dict[str, list[Grid]] = {}
        self._whole: dict[tuple, pd.DataFrame] = {}  # the runs of a setting of which none is missing

    def rows(self, keys: list[RunKey]) -> pd.DataFrame:
        """One row for each of these runs that is finished: first from the ledger, then from this disk. All keys are of
        one setting."""
        tables = []
        if self.stored and self.claim.settings and keys:
            stored, places = self._in_ledger(self.stored, keys[0].setting)
            tables.append(stored.iloc[[places[key[1:]] for key in keys if key[1:] in places]])
            keys = [key for key in keys if key[1:] not in places]
        if self.disk and keys:
            tables.append(self.disk.rows(keys))
        tables = [table for table in tables if len(table)]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame({"cell": [], "lr": []})

    def missing(self, keys: list[RunKey], rows: pd.DataFrame) -> list[RunKey]:
        """Those of the keys that have no row."""
        has = set(places_of(rows))
        if "lr" in rows and rows["lr"].isna().any():  # the configuration's own rate
            has = {(*key[:3], None) for key in has}
        return [key for key in keys if key[1:] not in has]

    def _in_ledger(self, stored: StoredEvidence, setting: str) -> tuple[pd.DataFrame, dict[tuple, int]]:
        """(the rows of a setting, the place of each run in them)."""
        if setting not in self._ledger:
            rows = stored.rows(self.claim, self.claim.cells[setting])
            self._ledger[setting] = rows, places_of(rows)
        return self._ledger[setting]

    def examples(self, cell: BankCell, runs: pd.DataFrame) -> Examples:
        """A function from the hash of one of these runs to its test examples."""
        stored = self.stored.examples(self.claim, cell) if self.stored else lambda run: None
        here = runs.dropna(subset="folder") if "folder" in runs else runs.iloc[:0]
        folders = dict(zip(here["hash"], here["folder"], strict=True)) if len(here) else {}
        return lambda run: load_test_examples(folders[run]) if run in folders else stored(run)

    # Over several settings.

    def cell_runs(self, cell: BankCell, seeds: Iterable[int]) -> tuple[pd.DataFrame, list[RunKey]]:
        """(the finished runs of a cell at the rates of its grid, the runs that are missing there).

        The grid expands as far as the finished runs ask; it is asked again when the missing ones are finished.
        """
        if cell.draw and not cell.updates:
            raise ValueError(
                f"claim={self.claim.id}: setting={cell.name}: has no pilot yet: normexp evidence pilot"
            )
        seeds = tuple(seeds)
        place = (cell.name, cell.rates, seeds)
        if place in self._whole:
            return self._whole[place], []
        arms = list(itertools.product(self.claim.arms, self.claim.levels))
        # In a drawn setting every arm has rates of its own, so one that needs others costs the others nothing.
        groups = [[arm] for arm in arms] if cell.draw else [arms]
        parts = [self._at_rates(cell, group, seeds) for group in groups]
        rows = pd.concat([group_rows for group_rows, _ in parts], ignore_index=True)
        missing = list(itertools.chain(*(group_missing for _, group_missing in parts)))
        if not missing:
            self._whole[place] = rows
        return rows, missing

    def _at_rates(
        self, cell: BankCell, arms: list[tuple[str, Any]], seeds: tuple[int, ...]
    ) -> tuple[pd.DataFrame, list[RunKey]]:
        own_rates = self.claim.rate == "own"
        if cell.draw:
            ((arm, level),) = arms
            choice = self.claim.arms[arm] if own_rates else []  # else the same in every arm
            rates = rates_of(cell, [*self.claim.fixed, *choice, *self.claim.factor_of(level)])
            cell = dataclasses.replace(cell, rates=rates)
        tried = self.grids[cell.name] = [cell.rates if own_rates else (cell.rate(self.claim.rate),)]
        while True:
            keys = [RunKey(cell.name, *arm, seed, lr) for arm in arms for seed in seeds for lr in tried[-1]]
            rows = self.rows(keys)
            missing = self.missing(keys, rows)
            if missing:
                return rows, missing
            wider = next_grid(tried, rows, cell, self.measure) if own_rates else tried[-1]
            if wider == tried[-1]:
                return rows, []
            tried.append(wider)

    @property
    def measure(self) -> str:
        """What the metric of the first arm measures; see `measure_of`."""
        return measure_of(self.claim.metric_of(next(iter(self.claim.arms))))

    def seeds_in(self, cell: BankCell) -> range:
        """The seeds that are judged in a setting: two more where a drawn one lies near its margin."""
        seeds = self.claim.seed_range
        if self.claim.drawn and self.claim.seeds < MOST_SEEDS and cell.name not in self._seeds:
            rows, missing = self.cell_runs(cell, seeds)
            if missing:
                return seeds
            if near_margin([self.setting(cell, rows)], self.claim.comparisons):
                seeds = range(seeds.start, seeds.start + MOST_SEEDS)
            self._seeds[cell.name] = seeds
        return self._seeds.get(cell.name, seeds)

    @property
    def ready(self) -> list[BankCell]:
        """The settings that a claim may train in: not those in which the bank's grid is still to train its arms."""
        stored = self.stored
        return [
            cell
            for cell in self.claim.cells.values()
            if not cell.draw
            or stored is None
            or (f"bank/{cell.name}.csv" in stored.manifest and stored.has_cell(cell))
            or not grid_arms(self.claim, cell)
        ]

    def runs_in(self, cell: BankCell) -> tuple[pd.DataFrame, list[RunKey]]:
        """`cell_runs` at the seeds that are judged there."""
        return self.cell_runs(cell, self.seeds_in(cell))

    def is_finished(self, cell: BankCell) -> bool:
        """Whether a setting has every run."""
        return bool(cell.updates or not cell.draw) and not self.runs_in(cell)[1]

    def is_near(self, setting: str) -> bool:
        """Whether a setting has the runs of the claim's own seeds, and lies so near its margin that it needs more."""
        cell = self.claim.cells[setting]
        return bool(cell.updates) and self.seeds_in(cell) != self.claim.seed_range

    def finished(self, cell: BankCell) -> pd.DataFrame:
        """Every finished run of a setting that a verdict may read."""
        rows, _ = self.runs_in(cell)
        if self.claim.drawn and self.claim.universal:
            rows = pd.concat([rows, self.cell_runs(cell, fresh_seeds(self.claim))[0]], ignore_index=True)
        return rows

    def worst(self, settings: Sequence[Setting]) -> tuple[Setting | None, list[RunKey]]:
        """(the worst setting of a universal sentence with fresh seeds, or None; its runs that are missing)."""
        cell = self.claim.cells[worst_setting(settings, self.claim.comparisons[0])]
        rows, missing = self.cell_runs(cell, fresh_seeds(self.claim))
        return (None if missing else self.setting(cell, rows)), missing

    def setting(self, cell: BankCell, rows: pd.DataFrame, part: str = "", *, keep: bool = False) -> Setting:
        """A setting for the judge, from all its runs. `keep`: these are what a verdict rests on."""
        read = runs_at(rows, cell, self.measure, self.claim.rate)
        if keep:
            self._read.append(read)
        measure, column = ("value", "check") if part == MANIPULATION else (self.measure, "value")
        setting = setting_of_runs(cell, read, measure, self.examples(cell, rows), column)
        if self.claim.drawn_from and cell.name in self.claim.drawn_from.cells:  # at its final length
            rules = self.claim.drawn_from.known_population.length
            return dataclasses.replace(setting, unfitted=unfitted_arms(cell, read, rules))
        return setting

    def judged(self, cell: BankCell) -> pd.DataFrame:
        """The runs that a verdict compares in a cell, named by their arms: one per arm, level and seed."""
        rows, _ = self.runs_in(cell)
        return runs_at(rows, cell, self.measure, self.claim.rate) if len(rows) else rows

    def __call__(self, part: str, cells: Cells) -> list[Setting]:
        """The settings of a part of the claim for the judge, see `Source`. Raises ValueError if a run is missing."""
        settings = []
        for cell in (self.claim.cells[name] for name in cells):
            rows, missing = self.runs_in(cell)
            self._refuse(missing, f"setting={cell.name}: ")
            settings.append(self.setting(cell, rows, part, keep=True))
        self.parts[part] = settings
        return settings

    def _refuse(self, missing: list[RunKey], where: str = "") -> None:
        """Raise ValueError if runs are missing, since a missing run decides nothing."""
        if missing:
            words = f"{len(missing)} runs are missing, the first {missing[0]}"
            raise ValueError(f"claim={self.claim.id}: {where}{words}")

    def table(self) -> pd.DataFrame:
        """One row per part, setting, arm, level and seed."""
        return table_of(self.parts)

    def read_runs(self) -> pd.DataFrame:
        """The runs that the judge got, each once, `bank` true for those that a grid trained."""
        runs = pd.concat(self._read, ignore_index=True).drop_duplicates(["cell", *KEY], ignore_index=True)
        of_grid = runs["bank"].eq(True) if "bank" in runs else False
        return runs.rename(columns={"hash": "run"}).assign(bank=of_grid).fillna({"commit": ""})

    def compared(self) -> list[tuple[RunKey, Path]]:
        """In one setting: the runs that the verdict compares, with their folders."""
        if self.disk is None:
            return []
        keys = seed_keys(self.claim, self.tuned(), self.claim.seed_range)
        return list(zip(keys, (spec.folder for spec in self.disk.specs(keys)), strict=True))

    # In one setting.

    def tuned(self) -> Rates:
        """The best learning rate of each arm at each level, from one grid, by mean validation accuracy over the tuning
        runs. The lower validation loss breaks ties. A rate that diverged once is excluded."""
        if not (keys := tuning_keys(self.claim)):
            return dict.fromkeys(itertools.product(self.claim.arms, self.claim.levels))
        runs = self.rows(keys)
        runs["diverged"] = runs["status"] == "diverged"
        by_rate = runs.groupby(["norm", "level", "lr"], sort=False)
        scores = by_rate.agg({"diverged": "any", "val_accuracy": "sum", "val_loss": "sum"}).reset_index()
        scores.loc[scores["diverged"], ["val_accuracy", "val_loss"]] = 0.0
        order = {"diverged": True, "val_accuracy": False, "val_loss": True}
        best = scores.sort_values([*order], ascending=[*order.values()], kind="stable")
        best = best.drop_duplicates(["norm", "level"])[["norm", "level", "lr"]]
        return {(arm, level): float(lr) for arm, level, lr in best.itertuples(index=False)}

    def values(self, seeds: range) -> pd.DataFrame:
        """The claim's metric of every arm, level and seed. Raises ValueError if a run is missing."""
        keys = seed_keys(self.claim, self.tuned(), seeds)
        runs = self.rows(keys)
        self._refuse(self.missing(keys, runs))
        return runs.rename(columns={"norm": "arm", "level": "factor"})[COLUMNS]


def places_of(rows: pd.DataFrame) -> dict[tuple, int]:
    """The place of each run by its `KEY`."""
    runs = zip(*(rows[key].tolist() for key in KEY), strict=True) if len(rows) else ()
    return {run: place for place, run in enumerate(runs)}


def cost(runs: pd.DataFrame, disk: DiskRuns | None) -> dict[str, Any]:
    """How many of these runs this command trained and how many it read, and their seconds of training: the clock of
    replicas counts for all of them together."""
    new = {str(folder) for folder in disk.new} if disk else set()
    trained = int(runs["folder"].isin(new).sum()) if "folder" in runs else 0
    seconds = round(float((runs["seconds"] / runs.get("replicas", 1)).sum()), 1)
    return {"trained": trained, "from_cache": len(runs) - trained, "training_seconds": seconds}


def fresh_seeds(claim: Claim) -> range:
    """Those with which the worst setting of a universal sentence is trained again."""
    first = claim.first_seed + max(claim.seeds, MOST_SEEDS)
    return range(first, first + FRESH_SEEDS)


def plan(claim: Claim, known: Known) -> "list[RunSpec]":
    """The runs that a claim needs next, each once; none when it can be judged.

    Raises ValueError with one line if a run cannot be made, or has failed three times.
    """
    if known.disk is None:
        return []
    keys = missing_keys(claim, known)
    known.disk.check(keys)
    return known.disk.missing(keys)


def missing_keys(claim: Claim, known: Known) -> list[RunKey]:
    """The same as keys: runs that tune, then those that are judged."""
    if claim.settings:
        missing = [key for cell in known.ready for key in known.runs_in(cell)[1]]
        if not missing and claim.universal and claim.drawn and len(known.ready) == len(claim.cells):
            missing = known.worst(known("", claim.settings))[1]
        return missing
    tuning = tuning_keys(claim)
    if missing := known.missing(tuning, known.rows(tuning)):
        return missing
    keys = seed_keys(claim, known.tuned(), claim.seed_range)
    return known.missing(keys, known.rows(keys))


def most_missing(claim: Claim, known: Known) -> int:
    """Most runs that are missing: those that a claim of one setting needs are known only after the rates are."""
    missing, more = missing_keys(claim, known), 0
    if missing and not claim.settings and missing[0].seed >= TUNING_SEEDS:
        more = len(claim.arms) * len(claim.levels) * claim.seeds
    different = {spec.folder for spec in known.disk.specs(missing)} if known.disk else missing
    return len(different) + more


def tuning_keys(claim: Claim) -> list[RunKey]:
    """The runs that choose learning rates, for each arm at each level, over seeds that no verdict sees."""
    if claim.tune is None:
        return []
    seeds = range(TUNING_SEEDS, TUNING_SEEDS + claim.tune["seeds"])
    combinations = itertools.product(claim.arms, claim.levels, claim.tune["lr"], seeds)
    return [RunKey("", arm, level, seed, lr) for arm, level, lr, seed in combinations]


def seed_keys(claim: Claim, rates: Rates, seeds: range) -> list[RunKey]:
    """The runs of every arm, level and seed."""
    combinations = itertools.product(claim.arms, claim.levels, seeds)
    return [RunKey("", arm, level, seed, rates[arm, level]) for arm, level, seed in combinations]
