"""A bank: settings as cells of a yaml, among which claims choose.

`bank=small` is the default, `bank=gpu` has cells of the size of papers, `bank=mine.yaml` is anybody's. A cell needs its
overrides and no more: rates and facts that are absent are found in the configuration and in the data.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from normexp.claims.spec.cell import LENGTHS, BankCell, labels_of
from normexp.claims.spec.files import BankFile, check
from normexp.claims.spec.population import RATES, Population, read_population, with_pilot
from normexp.config.folder import CONFIGS, brought_hint, config_file, parse_yaml, read_text

SMALL = "small"  # the bank of the project's registered claims
BANKS = CONFIGS / "banks"


@dataclass(frozen=True, kw_only=True)
class Bank:
    """The cells of a file, and its grid: norms that are trained in some of them at all rates with the same seeds.

    The cells of a bank with a `population` were drawn, and stand in that order; see `normexp.claims.spec.population`.
    """

    name: str
    cells: dict[str, BankCell]
    norms: tuple[str, ...] = ()
    seeds: int = 0
    population: Population | None = None
    path: Path = Path()
    pilots: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of each draw, rejected ones too

    @property
    def drawn(self) -> bool:
        return self.population is not None

    @property
    def shipped(self) -> bool:
        """Whether it comes with normexp; else its file is a user's own."""
        return self.path.parent == BANKS

    @property
    def word(self) -> str:
        """What a user writes behind `bank=`."""
        return self.name if self.shipped else str(self.path)

    @property
    def known_population(self) -> Population:
        """`population`. Raises ValueError if there is none."""
        if self.population is None:
            raise ValueError(
                f"bank={self.word}: has no population; name one that is drawn, such as bank=drawn"
            )
        return self.population

    @property
    def grid(self) -> "Bank":
        """The bank with no cells but those of the grid: of a drawn one the settings with a pilot, at both lengths."""
        if self.population:
            cells = [
                cell
                for name, drawn_cell in self.cells.items()
                if drawn_cell.updates
                for cell in self.at_lengths(name)
            ]
            return dataclasses.replace(self, cells={cell.name: cell for cell in cells}, population=None)
        return dataclasses.replace(self, cells={n: cell for n, cell in self.cells.items() if cell.norms})

    def at_lengths(self, name: str) -> list[BankCell]:
        """A drawn setting at its final and its early length."""
        early = self.known_population.length["early"]
        return [self.cells[name].at_length(at, early) for at in LENGTHS]

    def with_labels(self, labels: Mapping[str, str | list[str]]) -> list[str]:
        """Names of the cells whose labels have these values, or one of each list of values."""
        allowed = {key: value if isinstance(value, list) else [value] for key, value in labels.items()}
        return [
            name
            for name, cell in self.cells.items()
            if all(cell.labels.get(key) in values for key, values in allowed.items())
        ]


def bank_file(name: str) -> Path:
    """The file of a bank: a path that ends in .yaml, or the name of one of the project, of the user's folder or of an
    allowed package. Raises ValueError."""
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    if path := config_file("bank", name):
        return path
    names = ", ".join(sorted(file.stem for file in BANKS.glob("*.yaml")))
    hint = brought_hint("bank", name)
    raise ValueError(
        f"bank={name}: {hint or f'no such bank; choose from {names}, or name a file: bank=mine.yaml'}"
    )


def pilots_file(path: Path) -> Path:
    """Where the pilots of a bank's yaml are written down."""
    return path.with_suffix(".pilots.jsonl")


def load_bank(name: str | Path = SMALL) -> Bank:
    """Read and check a bank. Raises ValueError with one line for the first mistake."""
    path = name if isinstance(name, Path) else bank_file(name)
    if not path.exists():
        raise ValueError(f"bank={path}: no such file; name a yaml with cells, or small or gpu")
    pilots = pilots_file(path)
    return _read(path, read_text(path), pilots.read_text(encoding="utf-8") if pilots.exists() else "")


@functools.lru_cache(maxsize=8)
def _read(path: Path, text: str, pilots: str) -> Bank:
    """The bank that a yaml and the file of its pilots hold. Every claim over settings asks for the same few; nobody may
    change what is shared."""
    node = parse_yaml(text, path)
    if isinstance(node, dict) and "strata" in node:
        return drawn_bank(node, path, pilots)
    check(node, BankFile, f"{path}: ")
    grid = node.get("grid") or {}
    in_grid = grid.get("cells", list(node["cells"])) if grid else []
    if strange := set(in_grid) - node["cells"].keys():
        raise ValueError(f"{path}: grid.cells={min(strange)}: is no cell")
    norms = tuple(grid.get("norms", ()))
    cells = {
        name: _read_cell(name, cell, node.get("shared") or [], norms if name in in_grid else (), path)
        for name, cell in node["cells"].items()
    }
    settings: dict[frozenset[str], str] = {}  # the last word of each key decides
    for name, cell in cells.items():
        words = frozenset({word.partition("=")[0]: word for word in cell.overrides}.values())
        if (first := settings.setdefault(words, name)) != name:
            raise ValueError(
                f"{path}: cells.{name}.overrides: are those of {first}, and one setting counts once; change them or "
                "leave the cell out"
            )
    return Bank(name=path.stem, cells=cells, norms=norms, seeds=grid.get("seeds", 0), path=path)


def _read_cell(name: str, node: Any, shared: list[str], norms: tuple[str, ...], path: Path) -> BankCell:
    """One cell: a list of overrides, or a mapping with `overrides` and what else is known. Raises ValueError."""
    node = {"overrides": node} if isinstance(node, list) else node
    rates, overrides = node.get("rates") or [], (*shared, *node["overrides"])
    if rates != sorted(set(rates)):
        raise ValueError(f"{path}: cells.{name}.rates={rates}: must rise, each once")
    labels = node.get("labels") or labels_of(overrides)
    if not {"data", "model"} <= set(labels):
        raise ValueError(
            f"{path}: cells.{name}.overrides: must name data and model, such as [data=digits, model=mlp]"
        )
    return BankCell(
        name=name,
        overrides=overrides,
        labels={key: str(value) for key, value in labels.items()},
        rates=tuple(map(float, rates)),
        norms=norms,
        **{key: node[key] for key in ("test", "replicas", "seconds") if key in node},
        **(node.get("facts") or {}),
    )


def drawn_bank(node: dict[str, Any], path: Path, lines: str) -> Bank:
    """The bank of a yaml with `strata` and the lines of its pilots. Raises ValueError with one line for the first
    mistake."""
    population = read_population(node, path)
    # Name of a draw -> what its pilots found, or {"rejected": reason}. A last line that was cut off is left out.
    pilots = {row["draw"]: row for row in map(json.loads, lines.split("\n")[:-1])}
    rejected = {name for name, row in pilots.items() if "rejected" in row}
    cells = {cell.name: with_pilot(cell, pilots.get(cell.draw, {})) for cell in population.drawn(rejected)}
    grid = node.get("grid", {})
    return Bank(
        name=path.stem,
        cells=cells,
        norms=tuple(grid.get("norms", ())),
        seeds=grid.get("seeds", 0),
        population=population,
        path=path,
        pilots=pilots,
    )


def sample(node: Mapping[str, Any], bank: Bank | None) -> dict[str, Any]:
    """What the settings `{bank: drawn, first: 24, at: final, where: {...}}` give a claim: the first ones in the order
    drawn that have these labels. Of a claim about trained networks, those with a pilot; if none has, all of them.

    Args:
        bank: of the command; a drawn one takes the place of the named one.

    Raises ValueError with one line.
    """
    chosen_bank = bank if bank is not None and bank.drawn else load_bank(node["bank"])
    if not chosen_bank.drawn:
        raise ValueError(f"settings.bank={node['bank']}: is a list; name a bank that is drawn")
    at, where = node.get("at"), node.get("where", {})
    for key, value in where.items():
        available = {cell.labels[key] for cell in chosen_bank.cells.values() if key in cell.labels}
        if strange := set(value if isinstance(value, list) else [value]) - available:
            raise ValueError(
                f"settings.where.{key}={min(strange)}: no setting of bank={chosen_bank.word} has it; choose "
                f"from {', '.join(sorted(available)) or 'its labels'}"
            )
    names = chosen_bank.with_labels(where)[: node["first"]]
    cells = [chosen_bank.cells[name] for name in names]
    if at and any(cell.updates for cell in cells):
        cells = [chosen_bank.at_lengths(cell.name)[LENGTHS.index(at)] for cell in cells if cell.updates]
    return {
        "settings": {cell.name: list(cell.overrides) for cell in cells},
        "cells": {cell.name: cell for cell in cells},
        "bank": chosen_bank.name,
        "first": node["first"],
        "where": where,
        "drawn_from": chosen_bank,
    }


def summary(bank: Bank) -> list[str]:
    """Lines on what was drawn, rejected and found, by stratum, and the core-hours of the grid."""
    population = bank.known_population
    rejected = {draw: row["rejected"] for draw, row in bank.pilots.items() if "rejected" in row}
    shares = {name: stratum["share"] for name, stratum in population.node["strata"].items()}
    lines, long = [], list[float]()
    for name, share in shares.items():
        cells = [cell for cell in bank.cells.values() if cell.draw.rpartition(" ")[0] == name]
        seconds = [cell.updates * cell.step_seconds for cell in cells if cell.updates]
        out = sum(draw.rpartition(" ")[0] == name for draw in rejected)
        mean = f", {sum(seconds) / len(seconds):.1f} core-seconds a long run" if seconds else ""
        lines.append(
            f"{name}: {share} of each {sum(shares.values())}; {len(cells)} settings, {len(seconds)} with a pilot; "
            f"{out} draws rejected{mean}"
        )
        long += seconds
    total, mean_text = sum(long), "known when a setting has a pilot"
    if long:
        mean_text = f"{total / len(long):.1f} core-seconds, the longest {max(long):.2g}"
    lines.append(f"mean of a long run: {mean_text}; at most {population.length['seconds']:g} are allowed")
    pilots, runs = sum(row["seconds"] for row in bank.pilots.values()), len(bank.norms) * bank.seeds * RATES
    hours = total * runs * (1 + 1 / population.length["early"]) / 3600
    lines.append(
        f"grid: {runs} runs a setting at each length, {hours:.2g} core-hours; pilots {pilots / 3600:.2g}"
    )
    for cell in bank.cells.values():
        step = f"{cell.updates} updates of {1000 * cell.step_seconds:.3g} ms"
        labels = ", ".join(f"{key} {value}" for key, value in cell.labels.items())
        lines.append(f"  {cell.name} {cell.draw}: {labels}; {step if cell.updates else 'no pilot yet'}")
    return lines + [f"  rejected {draw}: {why}" for draw, why in rejected.items()]
