"""The family of settings over which a claim is judged: cells of the bank by name, or settings of its own."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from normexp.claims.spec.bank import BANK, load_cells

NAMES = {
    "data": {
        "mnist": "MNIST",
        "fashion_mnist": "Fashion-MNIST",
        "kmnist": "KMNIST",
        "cifar10": "CIFAR-10",
        "cifar10_jpeg": "CIFAR-10",
        "cifar100": "CIFAR-100",
        "python_docs": "Python docs",
    },
    "model": {"mlp": "MLP", "cnn": "CNN", "resnet": "ResNet", "gpt": "GPT", "transformer": "transformer"},
    "model.activation": {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "identity": "linear"},
    "model.initialization": {
        "he": "He",
        "xavier": "Xavier",
        "gpt2": "GPT-2",
        "small_gaussian": "small Gaussian",
    },
    "model.norm_position": {
        "pre_activation": "norm before the activation",
        "post_activation": "norm after the activation",
        "pre": "Pre-LN",
        "post": "Post-LN",
        "sandwich": "Peri-LN",
    },
}
OPTION = "options."  # marks an option of an initialization claim's function among the overrides of a setting
Cells = dict[str, list[str]]  # name -> overrides


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """A registered contrast: groups of settings that differ only in one key, judged on separate seeds.

    Attributes:
        varies: what differs, in words that follow "depends on", such as "the place of the norm".
        key: the override that differs.
        groups: value in words -> its settings.
    """

    varies: str
    key: str
    groups: dict[str, Cells]
    first_seed: int
    seeds: int

    @property
    def seed_range(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)

    @property
    def cells(self) -> Cells:
        """The settings of all groups by name."""
        return {name: overrides for group in self.groups.values() for name, overrides in group.items()}


def bank_beside(claims: Path) -> Cells:
    """Cells of the bank, and those beside it, for a folder of claims; none where there is no bank."""
    return {name: list(cell.overrides) for name, cell in load_cells(claims.parent).items()}


def read_settings(items: list, path: Path, key: str = "settings") -> Cells:
    """Settings by name, with their overrides. A name alone is a cell of the bank."""
    bank = bank_beside(path.parent)
    found: Cells = {}
    for item in items:
        own = item if isinstance(item, dict) else {item: bank.get(item)}
        for name, overrides in own.items():
            if overrides is None:
                known = (
                    f"its cells are {', '.join(bank)}" if bank else f"there is no {BANK} beside the claims"
                )
                raise ValueError(
                    f"{path}: {key}: {name} is no cell of the bank ({known}); write its overrides as "
                    f"{{{name}: [model=mlp, ...]}}"
                )
            if name in found:
                raise ValueError(f"{path}: {key}: {name} stands there twice; keep one")
            found[name] = list(overrides)
    return found


def read_contrast(node: dict[str, Any], path: Path) -> Contrast:
    """Read a contrast. Raises ValueError unless the groups differ in one key, setting by setting."""
    groups = {name: read_settings(items, path, f"contrast.{name}") for name, items in node["groups"].items()}
    if len(groups) < 2 or len({len(cells) for cells in groups.values()}) > 1:
        raise ValueError(f"{path}: contrast.groups: give two groups or more with equally many settings each")
    keys: set[str] = set()
    for cells in zip(*(own.values() for own in groups.values()), strict=True):
        common = set.intersection(*map(set, cells))
        keys |= {override.partition("=")[0] for cell in cells for override in set(cell) - common}
    if len(keys) != 1:
        found = ", ".join(sorted(keys)) or "nothing"
        raise ValueError(
            f"{path}: contrast={node['varies']}: the groups differ in {found}; let them differ in one key"
        )
    return Contrast(
        varies=node["varies"],
        key=keys.pop(),
        groups=groups,
        first_seed=node["first_seed"],
        seeds=node["seeds"],
    )


def value_of(key: str, overrides: list[str]) -> str:
    """The last value of a key in overrides; empty if there is none."""
    return next((o.partition("=")[2] for o in reversed(overrides) if o.partition("=")[0] == key), "")


def split_options(overrides: list[str]) -> tuple[list[str], dict[str, Any]]:
    """(overrides of the configuration, options of the function such as {"batch_size": 16})."""
    own = [o for o in overrides if not o.startswith(OPTION)]
    given = (o.removeprefix(OPTION).partition("=") for o in overrides if o.startswith(OPTION))
    return own, {key: yaml.safe_load(value) for key, _, value in given}


def label(key: str, value: str) -> str:
    """The name of a choice in scopes."""
    return NAMES[key].get(value, value)


def labels(overrides: list[str]) -> dict[str, str]:
    """The labels of a setting for scopes, such as {"data": "MNIST", "model": "MLP", "activation": "ReLU"}."""
    found = {key.rpartition(".")[2]: value_of(key, overrides) for key in NAMES}
    return {name: label(key, value) for key, (name, value) in zip(NAMES, found.items(), strict=True) if value}
