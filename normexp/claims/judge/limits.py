"""What the evidence of a claim does not show, in words: by its kind, its settings, their sizes and lengths."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from normexp.claims.judge.comparison import EQUAL
from normexp.claims.spec.cell import labels_of, value_of

if TYPE_CHECKING:
    from normexp.claims.spec.claim import Claim

SIZES = {
    "model.depth": "depth {}",
    "model.width": "width {}",
    "max_steps": "{} updates",
    "max_epochs": "{} epochs",
}
MOST_NAMED = 5
FEW = 24  # drawn settings
SMALLER = "It does not exclude differences below its margin."


def few(claim: "Claim") -> str:
    """Why a claim rests on fewer drawn settings than most do; empty if it does not."""
    bank = claim.drawn_from
    if bank is None or len(claim.cells) >= FEW:
        return ""
    values = {key: value if isinstance(value, list) else [value] for key, value in claim.where.items()}
    kinds = " and ".join(f"{key} {' or '.join(map(str, choices))}" for key, choices in values.items())
    fitting = bank.with_labels(claim.where)
    text = f"few settings: {len(fitting)} of the {len(bank.cells)} of bank={bank.name} have {kinds}"
    text = text if kinds else f"few settings: bank={bank.name} has {len(fitting)}"
    budget = f", of which the claim's budget of training pays for the first {claim.first}"
    return text + budget * (claim.first < len(fitting))


def limits(claim: "Claim") -> str:
    """What a claim does not show: a sentence by its evidence, and the claim's own one, if it has one."""
    equal = claim.evidence == "training" and any(comparison.kind in EQUAL for comparison in claim.comparisons)
    own = claim.does_not_show
    sentence = f"Nor does it show: {own[0].lower()}{own[1:]}" if own else ""
    return " ".join(filter(None, (_by_evidence(claim), SMALLER if equal else "", sentence)))


def _by_evidence(claim: "Claim") -> str:
    where = _where(claim)
    if claim.evidence == "law":
        return (
            "This does not show what it does to training: values were computed, and no network was trained."
        )
    if claim.evidence == "initialization":
        of = f" of {where}" if where else ""
        return f"This does not show what training makes of it: the networks{of} have their initial weights."
    if claim.drawn:
        return f"This does not show what holds outside its population: {where}."
    if claim.settings:
        return f"This does not show how often it holds: somebody chose these settings ({where})."
    return f"This does not show what holds in other settings than this one: {where}."


def _where(claim: "Claim") -> str:
    """`MLP, CNN on MNIST, at most depth 12, width 256, 6,000 updates`; empty if no override says it. The updates of
    drawn settings are not named where the claim chooses the batch size: a run takes as many passes over the data as its
    setting, so another number of updates."""
    arms = [arm for arm in claim.arms.values() if isinstance(arm, list)]
    own = [[*claim.fixed, *arm, *claim.factor_of(level)] for arm in arms for level in claim.levels]
    settings = [list(cell.overrides) for cell in claim.cells.values()] or [[]]
    words = [[*setting, *chosen] for setting in settings for chosen in own]
    labels = [claim.labels_in(cell.labels) for cell in claim.cells.values()] or list(map(labels_of, words))
    subject = " on ".join(filter(None, (_names(labels, key) for key in ("model", "data"))))
    passes = claim.drawn and any(value_of("batch_size", chosen) for chosen in own)
    sizes = [
        name.format(f"{max(numbers):,g}")
        for key, name in SIZES.items()
        if (numbers := numbers_in(key, words)) and not (passes and key == "max_steps")
    ]
    return ", ".join(filter(None, (subject, f"at most {', '.join(sizes)}" if sizes else "")))


def numbers_in(key: str, words: Sequence[Sequence[str]]) -> list[float]:
    """The numbers of a key in lists of overrides. The epochs of a run with a number of updates are not read."""
    if key == "max_epochs":
        words = [overrides for overrides in words if not value_of("max_steps", overrides)]
    texts = [value_of(key, overrides) for overrides in words]
    return [float(text) for text in texts if text.replace(".", "", 1).isdecimal()]


def _names(labels: Sequence[Mapping[str, str]], key: str) -> str:
    names = list(dict.fromkeys(setting_labels[key] for setting_labels in labels if setting_labels.get(key)))
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
