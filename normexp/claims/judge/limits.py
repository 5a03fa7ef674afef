"""What the evidence of a claim does not show, in words: by its kind and its settings."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from normexp.claims.judge.comparison import EQUAL
from normexp.claims.spec.cell import labels_of

if TYPE_CHECKING:
    from normexp.claims.spec.claim import Claim

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
    untrained = sum(not bank.cells[name].updates for name in fitting)
    if untrained and bank.known_population.rates:  # else it trains nothing, and has no pilots
        text += f", {untrained} of them without a pilot"
    budget = f", of which the claim's budget of training pays for the first {claim.first}"
    return text + budget * (claim.first < len(fitting))


def limits(claim: "Claim") -> str:
    """What a claim does not show: a sentence by its evidence, and the claim's own one, if it has one."""
    equal = claim.evidence == "training" and any(comparison.kind in EQUAL for comparison in claim.comparisons)
    sentence = claim.does_not_show
    sentence = sentence and f"Nor does it show: {sentence[0].lower()}{sentence[1:]}"
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
    """`MLP, CNN on MNIST`; empty if no override says it."""
    labels = [dict(cell.labels) for cell in claim.cells.values()] or [
        labels_of([*claim.fixed, *arm]) for arm in claim.arms.values() if isinstance(arm, list)
    ]
    return " on ".join(filter(None, (_names(labels, key) for key in ("model", "data"))))


def _names(labels: Sequence[Mapping[str, str]], key: str) -> str:
    names = list(dict.fromkeys(setting_labels[key] for setting_labels in labels if setting_labels.get(key)))
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
