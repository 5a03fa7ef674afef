"""The settings of a claim: cells of banks, or settings of its own."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from normexp.claims.spec.bank import Bank, BankCell, labels_of, load_bank
from normexp.claims.spec.claim_checks import is_named, is_texts

if TYPE_CHECKING:
    from normexp.claims.spec.claim import Claim

TUNING_SEEDS = 1000  # this and higher seeds tune learning rates; no verdict sees them
OPTION = "options."  # marks an option of an initialization claim's function among the overrides of a setting
Cells = dict[str, list[str]]  # name -> overrides
POINTS = ("test/accuracy", "val/accuracy")


def read_settings(node: Any, bank: Bank, path: Path) -> dict[str, BankCell]:
    """The cells by name: a list of names and of names with overrides, a mapping of names to overrides, or of labels to
    their values. Raises ValueError with one line.

    Args:
        bank: in which names are looked up first, and whose labels are asked. Names of shipped cells are always known.
        path: of the claim, for messages.
    """
    if isinstance(node, dict) and not is_own(node):
        if names := bank.with_labels(node):
            return {name: bank.cells[name] for name in names}
        known = sorted({f"{name}: {value}" for c in bank.cells.values() for name, value in c.labels.items()})
        raise ValueError(f"{path}: settings={node}: no cell of bank={bank.name} has these; it has {known}")
    found: dict[str, BankCell] = {}
    for item in [node] if isinstance(node, dict) else node:
        for name, own in (item if isinstance(item, dict) else {item: None}).items():
            if name in found:
                raise ValueError(f"{path}: settings: {name} stands there twice; keep one")
            if own is not None:
                found[name] = BankCell(name=name, overrides=tuple(own), labels=labels_of(own))
                continue
            cell = bank.cells.get(name) or shipped_cell(name)
            if cell is None:
                raise ValueError(
                    f"{path}: settings: {name} is no cell of bank={bank.name} (its cells are "
                    f"{', '.join(bank.cells)}); write its overrides as {{{name}: [model=mlp, ...]}}"
                )
            found[name] = cell
    return found


def shipped_cell(name: str) -> BankCell | None:
    """A cell of the project's banks."""
    return next((cell for bank in ("small", "gpu") if (cell := load_bank(bank).cells.get(name))), None)


def is_own(node: Mapping[str, Any]) -> bool:
    """Whether a mapping gives names their overrides, such as {a: [model=mlp]}, and not labels their values."""
    return is_named(node, is_texts) and any("=" in word for words in node.values() for word in words)


def split_options(overrides: list[str]) -> tuple[list[str], dict[str, Any]]:
    """(overrides of the configuration, options of the function such as {"batch_size": 16})."""
    own = [o for o in overrides if not o.startswith(OPTION)]
    given = (o.removeprefix(OPTION).partition("=") for o in overrides if o.startswith(OPTION))
    return own, {key: yaml.safe_load(value) for key, _, value in given}


def check_family(claim: "Claim", path: Path) -> None:
    """Raise ValueError with one line for the first mistake in a claim over several settings."""
    if claim.evidence not in ("training", "initialization"):
        raise ValueError(f"{path}: settings: evidence={claim.evidence} needs none; leave them out")
    metrics = claim.metric.values() if isinstance(claim.metric, dict) else [claim.metric]
    for metric in metrics:
        if metric in POINTS:
            raise ValueError(
                f"{path}: metric={metric}: a failed run counts as a guess, which errors know; give "
                f"{metric.replace('accuracy', 'error')}"
            )
    for comparison in claim.comparisons:
        if comparison.kind == "every":
            raise ValueError(f"{path}: kind=every: gives no number a setting; give a difference or a slope")
