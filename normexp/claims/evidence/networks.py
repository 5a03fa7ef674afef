"""From the values of networks before training to the settings that the judge counts; equal networks count once."""

import numpy as np
import pandas as pd

from normexp.claims.judge.outcomes import Setting
from normexp.claims.spec.cell import labels_of
from normexp.claims.spec.claim import Claim, split_options

NETWORK = "network"  # the part by which networks are told apart
SAME = 1e-4  # the largest relative difference of equal networks: sums are rounded in another order
DIRECTIONS = "depth.direction"
DIFFERENT = {  # of drawn networks before training; a registered protocol holds it
    "passed over": "a draw that has in every arm and seed the values and directions of an earlier one",
    "directions": DIRECTIONS,
    "within": SAME,
}


def settings_of_values(claim: Claim, table: pd.DataFrame, part: str = "") -> list[Setting]:
    """The settings of networks before training, from the table of their values: those of the claim itself (""), or
    those by which a `NETWORK` is told from others."""
    rows = table[(table["part"] == part) & table["seed"].isin(list(claim.seed_range))]
    by_setting = dict(iter(rows.groupby("setting", sort=False)))
    return [
        Setting.of_table(by_setting[name], name, labels=initial_labels(claim, overrides))
        for name, overrides in claim.settings.items()
    ]


def different(claim: Claim, table: pd.DataFrame) -> list[Setting]:
    """The settings without those that are the same network as an earlier one: drawn twice, or apart only in what the
    claim's arms fix or do not use, or in a scale of the weights that a norm removes. Equal values alone, of a measure
    at the end of its range, do not make networks equal."""
    distinct: list[Setting] = []
    seen: list[np.ndarray] = []
    own, networks = (settings_of_values(claim, table, part) for part in ("", NETWORK))
    for setting, network in zip(own, networks, strict=True):
        values = [outcomes.values for part in (setting, network) for outcomes in part.outcomes.values()]
        numbers = np.concatenate(values)
        if not any(np.allclose(numbers, other, rtol=SAME, equal_nan=True) for other in seen):
            distinct.append(setting)
            seen.append(numbers)
    return distinct


def initial_labels(claim: Claim, overrides: list[str]) -> dict[str, str]:
    """The labels of a setting of initial networks, for the scope. A network without a data set sees noise."""
    if claim.drawn_from:
        own = next(cell.labels for cell in claim.cells.values() if [*cell.overrides] == overrides)
        return claim.labels_in(own)
    labels = labels_of([*split_options(overrides)[0], *claim.fixed])
    noise = "random tokens" if labels.get("model") == "GPT" else "Gaussian noise"
    return {"data": noise} | labels
