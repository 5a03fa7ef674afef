"""What a claim looks at, beyond which it shows nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from normexp.claims.spec.cell import labels_of, value_of
from normexp.claims.spec.claim import Claim

SIZES = {"model.depth": "depth", "model.width": "width", "max_steps": "updates", "max_epochs": "epochs"}
FEW_SETTINGS = 24  # drawn settings


@dataclass(frozen=True, kw_only=True)
class Few:
    """A sample of fewer drawn settings than most claims have."""

    bank: str
    cells: int  # settings of the bank
    fitting: int  # those with the labels that the claim asks for
    where: Mapping[str, tuple[str, ...]]  # these labels
    first: int  # settings that its budget of training pays for


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a claim looked at, beyond which it shows nothing."""

    evidence: str
    drawn: bool
    chosen: bool  # whether somebody chose several settings
    models: tuple[str, ...]
    data: tuple[str, ...]
    sizes: Mapping[str, float]  # the largest depth, width, updates, epochs, as far as overrides say it
    equal: bool  # whether trained networks are claimed to be equal within a margin
    own: str  # what else the claim's file says


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
