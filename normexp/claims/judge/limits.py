"""What a claim's evidence does not show, in a sentence: by its kind, its settings, their sizes and lengths."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from normexp.claims.judge.comparison import EQUAL
from normexp.claims.spec.bank import labels_of, value_of

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
    kinds = [
        f"{key} {' or '.join(map(str, one if isinstance(one, list) else [one]))}"
        for key, one in claim.where.items()
    ]
    fitting = bank.with_labels(claim.where)
    text = f"few settings: {len(fitting)} of the {len(bank.cells)} of bank={bank.name} have {' and '.join(kinds)}"
    text = text if kinds else f"few settings: bank={bank.name} has {len(fitting)}"
    untrained = sum(not bank.cells[name].updates for name in fitting)
    if untrained and bank.known_population.rates:  # else it trains nothing, and has no pilots
        text += f", {untrained} of them without a pilot"
    budget = f", of which the claim's budget of training pays for the first {claim.first}"
    return text + budget * (claim.first < len(fitting))


def limits(claim: "Claim") -> str:
    """What a claim does not show: a sentence by its evidence, and the claim's own one, if it has one."""
    equal = claim.evidence == "training" and any(one.kind in EQUAL for one in claim.comparisons)
    own = (
        claim.does_not_show and f"Nor does it show: {claim.does_not_show[0].lower()}{claim.does_not_show[1:]}"
    )
    return " ".join(filter(None, (_by_evidence(claim), SMALLER if equal else "", own)))


def _by_evidence(claim: "Claim") -> str:
    where = _where(claim)
    if claim.evidence == "none":
        return ""
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
    """`MLP, CNN on MNIST, at most depth 12, width 256, 6,000 updates`; empty if no override says it."""
    own = [[*claim.fixed, *arm] for arm in claim.arms.values() if isinstance(arm, list)]
    settings = [list(cell.overrides) for cell in claim.cells.values()] or [[]]
    words = [[*setting, *arm] for setting in settings for arm in own]
    labels = [dict(cell.labels) for cell in claim.cells.values()] or list(map(labels_of, words))
    named = " on ".join(filter(None, (_names(labels, key) for key in ("model", "data"))))
    levels = {key: own for key, own in claim.factor.items() if key in SIZES}
    largest = {
        name: max(found)
        for key, name in SIZES.items()
        if (
            found := [
                *_numbers(value_of(key, one) for one in words),
                *_numbers(map(str, levels.get(key, ()))),
            ]
        )
    }
    sizes = ", ".join(name.format(f"{size:,g}") for name, size in largest.items())
    return ", ".join(filter(None, (named, f"at most {sizes}" if sizes else "")))


def _names(labels: Sequence[Mapping[str, str]], key: str) -> str:
    names = list(dict.fromkeys(own[key] for own in labels if own.get(key)))
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _numbers(values: Iterable[str]) -> list[float]:
    return [float(value) for value in values if value.replace(".", "", 1).isdecimal()]
