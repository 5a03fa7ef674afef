"""What every verdict has, whatever its evidence: the claim that it is of, what this looked at, beyond which it shows
nothing, the means of its arms, and its failed runs."""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from normexp.claims.judge.outcomes import Arm, Outcomes, Setting
from normexp.claims.judge.verdict import Failures, Few, Limits
from normexp.claims.spec.cell import labels_of, value_of
from normexp.claims.spec.claim import Claim

SIZES = {"model.depth": "depth", "model.width": "width", "max_steps": "updates", "max_epochs": "epochs"}
FEW_SETTINGS = 24  # drawn settings


def head(claim: Claim, settings: Sequence[Setting]) -> dict[str, Any]:
    """The fields of a verdict that its claim gives, and the means of its arms."""
    same = (
        "id", "name", "sentence", "measure", "source", "evidence", "kind", "paper_effect", "bank", "expected",
        "withdrawn", "drawn", "early",
    )  # fmt: skip
    return {
        **{name: getattr(claim, name) for name in same},
        "covers": tuple(claim.covers),
        "means": claim.note,
        "limits": limits_of(claim),
        "arms": arm_means(settings),
    }


def arm_means(settings: Sequence[Setting]) -> dict[str, dict[str, float]]:
    """Mean value of each arm in each setting, over the seeds at which it trained; nan if it never did."""
    means: dict[str, dict[str, float]] = {}
    for setting in settings:
        for (arm, level), outcomes in setting.outcomes.items():
            trained = outcomes.values[~outcomes.failed]
            name = f"{setting.name} {level}".strip()
            means.setdefault(arm, {})[name] = float(trained.mean()) if len(trained) else math.nan
    return means


def lost_runs(settings: Iterable[Mapping[Arm, Outcomes]]) -> dict[str, Failures]:
    """Arm -> its runs, and how many of them failed, over all levels and the outcomes of several settings."""
    failed, of = Counter[str](), Counter[str]()
    for (arm, _), runs in itertools.chain(*(outcomes.items() for outcomes in settings)):
        failed[arm] += int(runs.failed.sum())
        of[arm] += len(runs.seeds)
    return {arm: Failures(failed=failed[arm], of=of[arm]) for arm in of}


def few_of(claim: Claim) -> Few | None:
    """Of a claim with fewer drawn settings than most: how many there are."""
    bank = claim.drawn_from
    if bank is None or len(claim.cells) >= FEW_SETTINGS:
        return None
    fitting = len(bank.with_labels(claim.where))
    return Few(bank=bank.name, cells=len(bank.cells), fitting=fitting, where=claim.where, first=claim.first)


def limits_of(claim: Claim) -> Limits:
    """The limits of a claim, from its own overrides and those of its settings. The updates of drawn settings are left
    out where the claim chooses the batch size: a run takes as many passes over the data as its setting, so another
    number of updates."""
    arms = [arm for arm in claim.arms.values() if isinstance(arm, list)]
    chosen = [[*claim.fixed, *arm, *claim.factor_of(level)] for arm in arms for level in claim.levels]
    settings = [cell.overrides for cell in claim.cells.values()] or [()]
    runs = [[*setting, *overrides] for setting in settings for overrides in chosen]
    labels = [claim.labels_in(cell.labels) for cell in claim.cells.values()] or list(map(labels_of, runs))
    sizes = {name: numbers_in(key, runs) for key, name in SIZES.items()}
    if claim.drawn and any(value_of("batch_size", overrides) for overrides in chosen):
        del sizes["updates"]
    return Limits(
        evidence=claim.evidence,
        drawn=claim.drawn,
        chosen=bool(claim.cells) and not claim.drawn,
        models=_names(labels, "model"),
        data=_names(labels, "data"),
        sizes={name: max(numbers) for name, numbers in sizes.items() if numbers},
        equal=claim.evidence == "training" and any(asked.rule.within for asked in claim.comparisons),
        own=claim.does_not_show,
    )


def numbers_in(key: str, runs: Sequence[Sequence[str]]) -> list[float]:
    """The numbers of a key in overrides of runs. The epochs of a run with a number of updates are not read."""
    if key == "max_epochs":
        runs = [overrides for overrides in runs if not value_of("max_steps", overrides)]
    texts = [value_of(key, overrides) for overrides in runs]
    return [float(text) for text in texts if text.replace(".", "", 1).isdecimal()]


def _names(labels: Sequence[Mapping[str, str]], key: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row[key] for row in labels if row.get(key)))
