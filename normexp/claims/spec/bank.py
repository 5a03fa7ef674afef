"""A bank: settings as cells of a yaml, among which claims choose.

`bank=small` is the default, `bank=gpu` has cells of the size of papers, and `bank=mine.yaml` is anybody's. A cell needs
its overrides and no more: rates and facts that are absent are found in the configuration and in the data. A yaml with
`strata` is a population, whose settings are drawn.
"""

import functools
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from normexp.claims.spec.cell import LENGTHS, BankCell, Cell, Overrides, Strict, labels_of, read_as
from normexp.claims.spec.population import Population, with_pilot
from normexp.config.folder import CONFIGS, brought_hint, config_file, parse_yaml, read_text

SMALL = "small"  # the bank of the project's registered claims
BANKS = CONFIGS / "banks"


class BankFile(Strict):
    """A bank whose settings somebody chose, as its file says it."""

    shared: Overrides = Field(default=[])
    cells: Annotated[dict[str, Cell], Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class Bank:
    """The cells of a file. Those of a bank with a `population` were drawn, and stand in that order; `norms` are
    trained in all of them, with so many seeds, before any claim asks."""

    path: Path
    cells: dict[str, BankCell]
    norms: tuple[str, ...] = ()
    seeds: int = 0
    population: Population | None = None

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def drawn(self) -> bool:
        return self.population is not None

    @property
    def grid(self) -> dict[str, BankCell]:
        """The settings of a drawn bank that have a pilot, at both lengths."""
        names = [name for name, cell in self.cells.items() if cell.updates]
        return {cell.name: cell for name in names for cell in self.at_lengths(name)}

    def at_lengths(self, name: str) -> list[BankCell]:
        """A drawn setting at its final and its early length."""
        length = self.population and self.population.length
        return [self.cells[name].at_length(at, length.early if length else 1) for at in LENGTHS]

    def with_labels(self, labels: Mapping[str, Collection[str]]) -> list[str]:
        """Names of the cells whose labels have one of these values each."""
        return [
            name
            for name, cell in self.cells.items()
            if all(str(cell.labels.get(key)) in values for key, values in labels.items())
        ]


def bank_file(name: str) -> Path:
    """The file of a bank: a path that ends in .yaml, or the name of one of the project, of the user's folder or of an
    allowed package. Raises ValueError."""
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    if path := config_file("bank", name):
        return path
    names = ", ".join(sorted(file.stem for file in BANKS.glob("*.yaml")))
    unknown = f"no such bank; choose from {names}, or name a file: bank=mine.yaml"
    raise ValueError(f"bank={name}: {brought_hint('bank', name) or unknown}")


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
        return drawn_bank(read_as(Population, node, f"{path}: "), path, pilots)
    file: BankFile = read_as(BankFile, node, f"{path}: ")
    cells = dict[str, BankCell]()
    for name, cell in file.cells.items():
        overrides = (*file.shared, *cell.overrides)
        labels = {key: str(value) for key, value in (cell.labels or labels_of(overrides)).items()}
        if not {"data", "model"} <= labels.keys():
            raise ValueError(
                f"{path}: cells.{name}.overrides: must name data and model, such as [data=digits, model=mlp]"
            )
        cells[name] = BankCell(**dict(cell) | {"name": name, "overrides": overrides, "labels": labels})
    return Bank(path=path, cells=cells)


def drawn_bank(population: Population, path: Path, lines: str) -> Bank:
    """The bank of a population and the lines of its pilots."""
    # Name of a draw -> what its pilots found, or {"rejected": reason}. A last line that was cut off is left out.
    pilots = {row["draw"]: row for row in map(json.loads, lines.split("\n")[:-1])}
    rejected = {name for name, row in pilots.items() if "rejected" in row}
    cells = {cell.name: with_pilot(cell, pilots.get(cell.draw, {})) for cell in population.drawn(rejected)}
    norms, seeds = (tuple(population.grid.norms), population.grid.seeds) if population.grid else ((), 0)
    return Bank(path=path, cells=cells, norms=norms, seeds=seeds, population=population)
