"""The runs of a claim in each of its settings: networks at initialization, or trained runs from the ledgers."""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from normexp.claims.evidence import functions
from normexp.claims.evidence.bank_settings import setting_of_runs
from normexp.claims.evidence.chosen_runs import runs_at
from normexp.claims.evidence.claim_runs import RUN, ClaimCell
from normexp.claims.evidence.ledger import LEDGER, OWN_LEDGER, read_examples, read_ledger, read_own_ledger
from normexp.claims.judge.outcomes import Arm, Outcomes, Setting
from normexp.claims.spec.bank import BANK, OWN_CELLS, load_bank, load_cells
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.settings import Cells, labels, split_options
from normexp.config.folder import CONFIGS
from normexp.runs import TestExamples


def gather_settings(
    claim: Claim,
    cells: Cells,
    seeds: range,
    function: str | None = None,
    root: Path = CONFIGS.parent,
    *,
    check: bool = False,
) -> list[Setting]:
    """Every arm in each of these settings, at these seeds. Raises ValueError for a claim with other evidence.

    Args:
        function: for an initialization claim: the function of its manipulation check, to replace its own.
        root: holds the bank and the ledgers.
        check: for a training claim: the values of its manipulation check.
    """
    if claim.evidence == "initialization":
        return [_initial(claim, name, own, seeds, function) for name, own in cells.items()]
    return _trained(claim, cells, seeds, root, check=check)


def _initial(claim: Claim, name: str, overrides: list[str], seeds: range, function: str | None) -> Setting:
    overrides, options = split_options(overrides)
    own = dataclasses.replace(
        claim,
        settings={},
        fixed=[*overrides, *claim.fixed],
        options={**claim.options, **options},
        function=function or claim.function,
        first_seed=seeds.start,
    )
    return setting_of_table(name, functions.gather(own, len(seeds)), initial_labels(claim, overrides))


def initial_labels(claim: Claim, overrides: list[str]) -> dict[str, str]:
    """The labels of a setting of initial networks, for the scope. A network without a data set sees noise."""
    found = labels([*split_options(overrides)[0], *claim.fixed])
    noise = "random tokens" if found.get("model") == "GPT" else "Gaussian noise"
    return {"data": noise} | found


def setting_of_table(name: str, table: pd.DataFrame, kinds: dict[str, str]) -> Setting:
    """A setting with one number per seed. A value that is not a number is a failure."""
    outcomes: dict[Arm, Outcomes] = {}
    for (arm, level), rows in table.groupby(["arm", "factor"], sort=False):
        values = rows.sort_values("seed")["value"].to_numpy(float)
        outcomes[str(arm), level] = Outcomes(np.sort(rows["seed"].to_numpy()), values, ~np.isfinite(values))
    return Setting(name, outcomes, labels=kinds)


def _trained(claim: Claim, cells: Cells, seeds: range, root: Path, *, check: bool) -> list[Setting]:
    """The runs of a training claim, from the ledgers of the bank and of the claim's own runs."""
    configs = root / CONFIGS.name
    bank, known = load_bank(configs / BANK), load_cells(configs)
    if strange := [name for name in cells if name not in known]:
        raise ValueError(
            f"claim={claim.id}: setting={strange[0]}: is no cell; its rates and facts stand in {BANK} or {OWN_CELLS}"
        )
    own, found = read_own_ledger(root / OWN_LEDGER, claim.id), []
    for name in cells:
        ledger = read_ledger(root / LEDGER, [name] if name in bank.cells else [])
        place = ClaimCell(claim, known[name], bank, ledger)
        read = runs_at(_runs(place, own, seeds), place.cell, place.measure, claim.rate)
        folders = root / LEDGER, root / OWN_LEDGER / claim.id
        of = _examples([folder for folder in folders if (folder / f"{name}.npz").exists()], name)
        measure, column = ("value", "check") if check else (place.measure, "value")
        found.append(setting_of_runs(place.cell, read, measure, of, column))
    return found


def _runs(place: ClaimCell, own: pd.DataFrame, seeds: range) -> pd.DataFrame:
    """Every run of a claim in a cell at some seeds, named by its arms; ValueError where one is missing."""
    claim = place.claim
    runs = place.known(own)
    rates = place.grid(runs)
    kept = runs[runs["seed"].isin(seeds) & runs["lr"].isin(rates)] if len(runs) else runs
    has = set(kept[RUN].itertuples(index=False, name=None)) if len(kept) else set()
    each = itertools.product(claim.arms, claim.levels, seeds, rates)
    if missing := [run for run in each if run not in has]:
        arm, level, seed, rate = missing[0]
        what = " ".join(f"{arm} {level} seed {seed} lr {rate:g}".split())
        raise ValueError(
            f"claim={claim.id}: setting={place.cell.name}: {len(missing)} runs are not in the ledger, the first "
            f"{what}; scripts/bank.py or scripts/own_runs.py train, then ledger"
        )
    return kept


def _examples(folders: list[Path], cell: str) -> Callable[[str], TestExamples]:
    readers = [read_examples(folder, cell) for folder in folders]

    def of(run: str) -> TestExamples:
        for reader in readers:
            with contextlib.suppress(KeyError):
                return reader(run)
        raise ValueError(f"setting={cell}: no test examples of run {run[:8]}; write the ledger again")

    return of


def as_table(settings: list[Setting]) -> pd.DataFrame:
    """One row per setting, arm, level and seed, for `evidence.csv`."""
    return pd.DataFrame(
        {
            "setting": setting.name,
            "arm": arm,
            "factor": level,
            "seed": seed,
            "value": value,
            "failed": bool(failed),
        }
        for setting in settings
        for (arm, level), own in setting.outcomes.items()
        for seed, value, failed in zip(own.seeds, own.values, own.failed, strict=True)
    )
