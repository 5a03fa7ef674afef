"""What a claim looked at, beyond which its evidence shows nothing: models, data, and the largest sizes and lengths."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from normexp.claims.judge.verdict import Few, Limits
from normexp.claims.spec.cell import labels_of, value_of

if TYPE_CHECKING:
    from normexp.claims.spec.claim import Claim

SIZES = {"model.depth": "depth", "model.width": "width", "max_steps": "updates", "max_epochs": "epochs"}
FEW = 24  # drawn settings


def few_of(claim: "Claim") -> Few | None:
    """Of a claim with fewer drawn settings than most: how many there are."""
    bank = claim.drawn_from
    if bank is None or len(claim.cells) >= FEW:
        return None
    where = {
        key: tuple(map(str, value if isinstance(value, list) else [value]))
        for key, value in claim.where.items()
    }
    fitting = len(bank.with_labels(claim.where))
    return Few(bank=bank.name, cells=len(bank.cells), fitting=fitting, where=where, first=claim.first)


def limits_of(claim: "Claim") -> Limits:
    """The limits of a claim, from its own overrides and those of its settings. The updates of drawn settings are left
    out where the claim chooses the batch size: a run takes as many passes over the data as its setting, so another
    number of updates."""
    arms = [arm for arm in claim.arms.values() if isinstance(arm, list)]
    own = [[*claim.fixed, *arm, *claim.factor_of(level)] for arm in arms for level in claim.levels]
    settings = [list(cell.overrides) for cell in claim.cells.values()] or [[]]
    overrides = [[*setting, *chosen] for setting in settings for chosen in own]
    labels = [claim.labels_in(cell.labels) for cell in claim.cells.values()] or list(
        map(labels_of, overrides)
    )
    passes = claim.drawn and any(value_of("batch_size", chosen) for chosen in own)
    sizes = {
        name: numbers_in(key, overrides) for key, name in SIZES.items() if not (passes and name == "updates")
    }
    return Limits(
        evidence=claim.evidence,
        drawn=claim.drawn,
        chosen=bool(claim.settings) and not claim.drawn,
        models=_names(labels, "model"),
        data=_names(labels, "data"),
        sizes={name: max(numbers) for name, numbers in sizes.items() if numbers},
        equal=claim.evidence == "training" and any(own.rule.within for own in claim.comparisons),
        own=claim.does_not_show,
    )


def numbers_in(key: str, overrides: Sequence[Sequence[str]]) -> list[float]:
    """The numbers of a key in lists of overrides. The epochs of a run with a number of updates are not read."""
    if key == "max_epochs":
        overrides = [own for own in overrides if not value_of("max_steps", own)]
    texts = [value_of(key, own) for own in overrides]
    return [float(text) for text in texts if text.replace(".", "", 1).isdecimal()]


def _names(labels: Sequence[Mapping[str, str]], key: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(own[key] for own in labels if own.get(key)))
