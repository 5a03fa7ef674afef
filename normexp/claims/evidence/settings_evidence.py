"""The runs of a claim in each of its settings: networks at initialization, or runs of the bank from its ledger."""

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd

from normexp.claims.evidence import functions
from normexp.claims.evidence.bank_settings import bank_settings
from normexp.claims.judge.outcomes import Arm, Outcomes, Setting
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.settings import BANK, Cells, labels, split_options
from normexp.config.folder import CONFIGS

LEDGER = Path("docs") / "evidence" / "bank"
# metric -> measure of the ledger
MEASURES = {"test/error": "error", "test/loss": "loss", "failed": "failed"}


def gather_settings(
    claim: Claim, cells: Cells, seeds: range, function: str | None = None, root: Path = CONFIGS.parent
) -> list[Setting]:
    """Every arm in each of these settings, at these seeds. Raises ValueError for a claim with other evidence.

    Args:
        function: for an initialization claim: the function of its manipulation check, to replace its own.
        root: holds the bank and its ledger.
    """
    if claim.evidence == "initialization":
        return [_initial(claim, name, own, seeds, function) for name, own in cells.items()]
    return _of_the_bank(claim, cells, seeds, root)


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


def _of_the_bank(claim: Claim, cells: Cells, seeds: range, root: Path) -> list[Setting]:
    bank = load_bank(root / CONFIGS.name / BANK)
    arms = {arm: own[0].removeprefix("norm=") for arm, own in claim.arms.items() if len(own) == 1}
    strange = [name for name in cells if name not in bank.cells]
    if (
        strange
        or claim.fixed
        or claim.factor
        or set(arms) != set(claim.arms)
        or not set(arms.values()) <= set(bank.norms)
    ):
        what = f"setting {strange[0]}" if strange else "its arms, fixed overrides or factor"
        raise ValueError(
            f"claim={claim.id}: {what} are no runs of the bank; over several settings a training claim reads arms of a "
            "norm alone, in cells of the bank"
        )
    if claim.metric not in MEASURES:
        raise ValueError(
            f"claim={claim.id}: metric={claim.metric}: the bank has {', '.join(MEASURES)}; give one of these"
        )
    found = bank_settings(bank, root / LEDGER, arms, MEASURES[claim.metric], list(cells), claim.rate)
    names = {setting.name for setting in found}
    if missing := [name for name in cells if name not in names]:
        raise ValueError(
            f"claim={claim.id}: {', '.join(missing)}: not all runs are in the ledger; scripts/bank.py train, then "
            "ledger"
        )
    return [_at(setting, seeds, claim.id) for setting in found]


def _at(setting: Setting, seeds: range, claim: str) -> Setting:
    """The setting with the runs of these seeds only."""
    has = next(iter(setting.outcomes.values())).seeds
    if missing := sorted(set(seeds) - set(has.tolist())):
        raise ValueError(
            f"claim={claim}: setting={setting.name}: the bank has no seed {missing[0]}; ask for fewer, or train more"
        )
    kept = {arm: own.at(np.isin(own.seeds, list(seeds))) for arm, own in setting.outcomes.items()}
    return dataclasses.replace(setting, outcomes=kept)


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
