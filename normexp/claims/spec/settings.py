"""The family of settings over which a claim is judged: cells of banks, or settings of its own, and what makes them one.

Only a family that passes these checks gives a meaningful word.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from normexp.claims.spec.bank import Bank, BankCell, label, labels_of, load_bank, value_of
from normexp.claims.spec.claim_checks import is_named, is_texts

if TYPE_CHECKING:
    from normexp.claims.spec.claim import Claim

TUNING_SEEDS = 1000  # this and higher seeds tune learning rates; no verdict sees them
OPTION = "options."  # marks an option of an initialization claim's function among the overrides of a setting
Cells = dict[str, list[str]]  # name -> overrides
FEWEST = 6
# Settings that differ only in these count as one.
ALIKE = ("lr", "optimizer.lr", "seed", "data.split_seed", "model.width")
CALLED = {"gpt": "transformer"}  # names of models in sentences
POINTS = ("test/accuracy", "val/accuracy")  # a point of accuracy means something else at 98% than at 45%


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """A registered contrast: groups of settings that differ only in one key, judged on separate seeds.

    Attributes:
        varies: what differs, in words that follow "depends on", such as "the place of the norm".
        key: the override that differs.
        groups: value in words -> its settings.
        found: the cells of all groups.
    """

    varies: str
    key: str
    groups: dict[str, Cells]
    first_seed: int
    seeds: int
    found: dict[str, BankCell] = field(default_factory=dict, compare=False)

    @property
    def seed_range(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)

    @property
    def cells(self) -> Cells:
        """The settings of all groups by name."""
        return {name: overrides for group in self.groups.values() for name, overrides in group.items()}


class Settings:
    """Reads the settings of one claim.

    Args:
        bank: in which names are looked up first, and whose labels are asked. Names of shipped cells are always known.
        path: of the claim, for messages.
    """

    def __init__(self, bank: Bank, path: Path):
        self.bank, self.path = bank, path

    def read(self, node: Any, key: str = "settings") -> dict[str, BankCell]:
        """The cells by name: a list of names and of names with overrides, a mapping of names to overrides, or of
        labels to their values. Raises ValueError with one line."""
        if isinstance(node, dict) and not is_own(node):
            return self._labeled(node, key)
        found: dict[str, BankCell] = {}
        for item in [node] if isinstance(node, dict) else node:
            for name, overrides in (item if isinstance(item, dict) else {item: None}).items():
                if name in found:
                    raise ValueError(f"{self.path}: {key}: {name} stands there twice; keep one")
                found[name] = self._named(name, key) if overrides is None else self._own(name, overrides)
        return found

    def _labeled(self, node: dict[str, Any], key: str) -> dict[str, BankCell]:
        if names := self.bank.with_labels(node):
            return {name: self.bank.cells[name] for name in names}
        known = sorted(
            {f"{name}: {value}" for c in self.bank.cells.values() for name, value in c.labels.items()}
        )
        raise ValueError(
            f"{self.path}: {key}={node}: no cell of bank={self.bank.name} has these; it has {known}"
        )

    def _named(self, name: str, key: str) -> BankCell:
        cell = self.bank.cells.get(name) or shipped_cell(name)
        if cell is None:
            raise ValueError(
                f"{self.path}: {key}: {name} is no cell of bank={self.bank.name} (its cells are "
                f"{', '.join(self.bank.cells)}); write its overrides as {{{name}: [model=mlp, ...]}}"
            )
        return cell

    def _own(self, name: str, overrides: list[str]) -> BankCell:
        return BankCell(name=name, overrides=tuple(overrides), labels=labels_of(overrides))

    def contrast(self, node: dict[str, Any]) -> Contrast:
        """Read a contrast. Raises ValueError unless the groups differ in one key, setting by setting."""
        read = {name: self.read(items, f"contrast.{name}") for name, items in node["groups"].items()}
        groups = {name: overrides_of(cells) for name, cells in read.items()}
        if len(groups) < 2 or len({len(cells) for cells in groups.values()}) > 1:
            raise ValueError(
                f"{self.path}: contrast.groups: give two groups or more with equally many settings each"
            )
        keys: set[str] = set()
        for cells in zip(*(own.values() for own in groups.values()), strict=True):
            common = set.intersection(*map(set, cells))
            keys |= {override.partition("=")[0] for cell in cells for override in set(cell) - common}
        if len(keys) != 1:
            differ = ", ".join(sorted(keys)) or "nothing"
            raise ValueError(
                f"{self.path}: contrast={node['varies']}: the groups differ in {differ}; let them differ in one key"
            )
        return Contrast(
            varies=node["varies"],
            key=keys.pop(),
            groups=groups,
            first_seed=node["first_seed"],
            seeds=node["seeds"],
            found={name: cell for cells in read.values() for name, cell in cells.items()},
        )


def is_own(node: Mapping[str, Any]) -> bool:
    """Whether a mapping gives names their overrides, such as {a: [model=mlp]}, and not labels their values."""
    return is_named(node, is_texts) and any("=" in word for words in node.values() for word in words)


def shipped_cell(name: str) -> BankCell | None:
    """A cell of the project's banks."""
    return next((cell for bank in ("small", "gpu") if (cell := load_bank(bank).cells.get(name))), None)


def overrides_of(cells: Mapping[str, BankCell]) -> Cells:
    """Name -> overrides."""
    return {name: list(cell.overrides) for name, cell in cells.items()}


def split_options(overrides: list[str]) -> tuple[list[str], dict[str, Any]]:
    """(overrides of the configuration, options of the function such as {"batch_size": 16})."""
    own = [o for o in overrides if not o.startswith(OPTION)]
    given = (o.removeprefix(OPTION).partition("=") for o in overrides if o.startswith(OPTION))
    return own, {key: yaml.safe_load(value) for key, _, value in given}


def check_family(claim: "Claim", path: Path) -> None:
    """Raise ValueError with one line for the first mistake in a claim over several settings."""
    if claim.evidence not in ("training", "initialization"):
        raise ValueError(f"{path}: settings: evidence={claim.evidence} needs none; leave them out")
    check_settings(claim.settings, claim.sentence, path)
    metrics = claim.metric.values() if isinstance(claim.metric, dict) else [claim.metric]
    for metric in metrics:
        if metric in POINTS:
            raise ValueError(
                f"{path}: metric={metric}: points of accuracy mean something else in each setting; give "
                f"{metric.replace('accuracy', 'error')} with log: true"
            )
        logs = metric is not None and metric.endswith(("/error", "/loss"))
        for comparison in claim.comparisons:
            if logs and not comparison.log:
                raise ValueError(
                    f"{path}: comparison.log: {metric} is pooled over settings as a ratio; give log: true"
                )
    for comparison in claim.comparisons:
        if comparison.kind == "every" or comparison.over is not None:
            what = "kind=every" if comparison.kind == "every" else f"over={comparison.over}"
            raise ValueError(
                f"{path}: {what}: has no mean over settings; give a difference, a slope, or by: rank"
            )
    if claim.metric == "failed" and claim.failed == "guess":
        raise ValueError(f"{path}: failed=guess: the claim is about failure itself; leave it out")
    if claim.contrast:
        _check_seeds(claim, claim.contrast, path)


def _check_seeds(claim: "Claim", contrast: Contrast, path: Path) -> None:
    """The seeds of the contrast must be fresh."""
    first, count = contrast.first_seed, contrast.seeds
    if count < 1 or first < 0 or first + count > TUNING_SEEDS:
        raise ValueError(f"{path}: contrast.first_seed={first}: seeds must lie in 0 to {TUNING_SEEDS - 1}")
    seen = claim.seed_range(claim.looks[-1])
    if first < seen.stop and seen.start < first + count:
        raise ValueError(
            f"{path}: contrast.first_seed={first}: the verdict has seeds {seen.start} to {seen.stop - 1}; a contrast "
            f"takes fresh ones, from {seen.stop} on"
        )


def check_settings(settings: Cells, sentence: str, path: Path) -> None:
    """Require six settings that differ in kind, two data sets, and two models unless the sentence names one. For
    networks at initialization, noise counts as a data set."""
    if len(settings) < FEWEST:
        raise ValueError(f"{path}: settings: {len(settings)} are too few for a word; name {FEWEST} or more")
    kinds: dict[frozenset, str] = {}
    for name, overrides in settings.items():
        kind = frozenset(o for o in overrides if o.partition("=")[0] not in ALIKE)
        if kind in kinds:
            raise ValueError(
                f"{path}: settings: {kinds[kind]} and {name} differ in width, rate or seed at most; keep one of them"
            )
        kinds[kind] = name
    for key in ("data", "model"):
        values = {value_of(key, overrides) for overrides in settings.values()}
        words = {word.lower() for v in values if v for word in (v, label(key, v), CALLED.get(v, v))}
        named = any(word in sentence.lower() for word in words)
        if len(values) < 2 and not named:
            what = values.pop() or "noise"
            raise ValueError(
                f"{path}: settings: all have {key}={what}, which the sentence does not name; add another {key}"
            )
