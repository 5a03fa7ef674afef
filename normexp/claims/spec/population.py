"""Settings drawn at random: a bank whose yaml has distributions in place of cells.

A draw is independent of all others, of the machine and of the order of keys: every choice has a random generator of
its own, seeded by the bank's seed, the names of stratum and choice, and the number of the draw. A rejected draw is
replaced by the next one of its stratum. Which were rejected, and the lengths and rates of the others, stand in the
file of pilots beside the yaml.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from normexp.claims.spec.bank import FACTS, Bank, BankCell, check_keys, load_bank, value_of
from normexp.claims.spec.claim_checks import is_named, is_number, is_texts, is_whole

KEYS = ("seed", "settings", "strata")
TRAINED = ("rates", "length", "grid")  # absent where networks are only looked at before training
LENGTH = ("updates", "passes", "start_seconds", "seconds", "learned", "gain", "early", "widenings", "seed")
MOST_DRAWS = 1000  # of a stratum
FINAL, EARLY = LENGTHS = "final", "early"
RATES = 3  # of the grid, round the best of the pilot
DIGITS = 2  # of a drawn number that is not whole


@dataclass(frozen=True)
class Stratum:
    """One kind of model: so many `share` of each block of settings, with overrides that are fixed and those chosen."""

    share: int
    fixed: tuple[str, ...]
    choose: Mapping[str, Any]


@dataclass(frozen=True)
class Draw:
    """One draw from a stratum: `mlp 3` is the third MLP."""

    stratum: str
    number: int
    overrides: tuple[str, ...]
    labels: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"{self.stratum} {self.number}"


@dataclass(frozen=True)
class Population:
    """Distributions of settings, and the rules by which pilots find lengths and learning rates.

    Attributes:
        seed: of the draws.
        settings: how many are drawn that are not rejected.
        rates: of the pilots' first search, by the label `optimizer`.
        length: the rules of `normexp.claims.evidence.pilot`, by name.
        node: the yaml as it was read, for the registry.
    """

    seed: int
    settings: int
    shared: tuple[str, ...]
    strata: Mapping[str, Stratum]
    rates: Mapping[str, tuple[float, ...]]
    length: Mapping[str, float]
    node: Mapping[str, Any] = field(repr=False)

    @property
    def slots(self) -> list[str]:
        """The stratum of each setting. Each block has the written proportions, in an order of its own."""
        block = [name for name in sorted(self.strata) for _ in range(self.strata[name].share)]
        found: list[str] = []
        while len(found) < self.settings:
            random = _generator(self.seed, "order", len(found)).random(len(block))
            found += [block[place] for place in np.argsort(random, kind="stable")]
        return found[: self.settings]

    def draw(self, stratum: str, number: int) -> Draw:
        """The draw with this number, from 1."""
        own = self.strata[stratum]
        overrides, labels = [*self.shared, *own.fixed], dict[str, str]()
        for name in sorted(own.choose, key=lambda name: ("by" in own.choose[name], name)):
            random = float(_generator(self.seed, stratum, number, name).random())
            labels[name], words = _choose(own.choose[name], random, labels)
            overrides += words
        return Draw(stratum, number, tuple(overrides), labels)

    def drawn(self, rejected: Collection[str]) -> Iterator[tuple[str, Draw]]:
        """(name of the setting, its draw) in the order drawn, without the rejected draws."""
        numbers = dict.fromkeys(self.strata, 0)
        for place, stratum in enumerate(self.slots, 1):
            numbers[stratum] += 1
            while (draw := self.draw(stratum, numbers[stratum])).name in rejected:
                numbers[stratum] += 1
                if numbers[stratum] > MOST_DRAWS:
                    raise ValueError(
                        f"strata.{stratum}: {MOST_DRAWS} draws were rejected; choose smaller ones"
                    )
            yield f"d{place:03d}", draw


def read_pilots(text: str) -> dict[str, dict[str, Any]]:
    """Name of a draw -> what its pilots found, or {"rejected": reason}. A last line that was cut off is left out."""
    return {row["draw"]: row for row in map(json.loads, text.split("\n")[:-1])}


def drawn_bank(node: dict[str, Any], path: Path, lines: str) -> Bank:
    """The bank of a yaml with `strata` and the lines of its pilots. Raises ValueError with one line for the first
    mistake."""
    population = read_population(node, path)
    pilots = read_pilots(lines)
    rejected = {name for name, row in pilots.items() if "rejected" in row}
    grid = node.get("grid", {})
    norms, seeds = tuple(grid.get("norms", ())), grid.get("seeds", 0)
    cells = {
        name: with_pilot(_cell(name, draw, norms, seeds), pilots.get(draw.name, {}))
        for name, draw in population.drawn(rejected)
    }
    return Bank(
        name=path.stem, cells=cells, norms=norms, seeds=seeds, population=population, path=path, pilots=pilots
    )


def _cell(name: str, draw: Draw, norms: tuple[str, ...], seeds: int) -> BankCell:
    return BankCell(
        name=name,
        draw=draw.name,
        overrides=draw.overrides,
        labels=draw.labels,
        replicas=draw.stratum == "mlp",
        norms=norms,
        seeds=seeds,
    )


def with_pilot(cell: BankCell, pilot: Mapping[str, Any]) -> BankCell:
    """The setting with its length, its rates and the facts of its data; without a pilot, as it was drawn."""
    if "updates" not in pilot:
        return cell
    each = {norm: tuple(rates) for norm, rates in pilot["rates"].items()}
    centers = sorted(rates[len(rates) // 2] for rates in each.values())
    return dataclasses.replace(
        cell,
        updates=pilot["updates"],
        step_seconds=pilot["step_seconds"],
        rates=next(rates for rates in each.values() if rates[len(rates) // 2] == centers[len(centers) // 2]),
        arm_rates=each,
        labels={**cell.labels, "values per statistic": str(pilot["values_per_statistic"])},
        test=pilot["test"],
        **{fact: pilot[fact] for fact in FACTS},
    )


def read_population(node: dict[str, Any], path: Path) -> Population:
    """Check the yaml of a population."""
    trained = any(key in node for key in TRAINED)
    needed = (*KEYS, *TRAINED) if trained else KEYS
    check_keys(node, needed, ("shared", "choose"), f"{path}: ")
    for key in ("seed", "settings"):
        if not is_whole(node[key]) or node[key] < (key == "settings"):
            raise ValueError(f"{path}: {key}={node[key]}: must be a whole number")
    if trained:
        _check_training(node, path)
    shared = node.get("shared") or []
    if not is_texts(shared):
        raise ValueError(f"{path}: shared={shared}: must be a list of texts")
    if not isinstance(node["strata"], dict) or not node["strata"]:
        raise ValueError(f"{path}: strata: must be kinds of models by name")
    strata = {}
    for name, own in node["strata"].items():
        where = f"{path}: strata.{name}."
        check_keys(own, ("share",), ("fixed", "choose"), where)
        if not is_whole(own["share"]) or own["share"] < 1:
            raise ValueError(f"{where}share={own['share']}: must be a whole number of at least 1")
        choose = (node.get("choose") or {}) | (own.get("choose") or {})
        if missing := {"data", "model", *(["optimizer"] if trained else [])} - choose.keys():
            raise ValueError(f"{where}choose: must choose {min(missing)}")
        for label, one in choose.items():
            _check_choice(one, f"{where}choose.{label}")
        strata[str(name)] = Stratum(own["share"], tuple(own.get("fixed") or ()), choose)
    return Population(
        seed=node["seed"],
        settings=node["settings"],
        shared=tuple(shared),
        strata=strata,
        rates={name: tuple(map(float, own)) for name, own in node.get("rates", {}).items()},
        length=node.get("length", {}),
        node=node,
    )


def _check_training(node: dict[str, Any], path: Path) -> None:
    check_keys(node["grid"], ("norms", "seeds"), (), f"{path}: grid.")
    check_keys(node["length"], LENGTH, (), f"{path}: length.")
    for key, value in node["length"].items():
        if not is_number(value) or value <= 0:
            raise ValueError(f"{path}: length.{key}={value}: must be a positive number")
    if not is_named(node["rates"], lambda r: isinstance(r, list) and len(r) > 2 and all(map(is_number, r))):
        raise ValueError(f"{path}: rates: must be three or more numbers for each optimizer")


def _check_choice(one: Any, where: str) -> None:
    if not isinstance(one, dict):
        raise ValueError(f"{where}={one}: must be a mapping; see docs/claims.md")
    if "by" in one:
        for value, own in one.items():
            if value != "by":
                _check_choice(own, f"{where}.{value}")
    elif "key" in one:
        between = is_number(one.get("low")) and is_number(one.get("high")) and 0 < one["low"] <= one["high"]
        values = isinstance(one.get("values"), list) and bool(one["values"])
        if not between and not values:
            raise ValueError(f"{where}: give low and high, both above 0, or values")
    elif not is_named(one, is_texts):
        raise ValueError(f"{where}: must be names with overrides, or a key with low and high, or with values")


def _choose(one: Mapping[str, Any], random: float, labels: Mapping[str, str]) -> tuple[str, list[str]]:
    """(label, overrides) for a random number in [0, 1)."""
    if "by" in one:
        return _choose(one[labels[one["by"]]], random, labels)
    if "key" not in one:
        name = sorted(one)[int(random * len(one))]
        return str(name), list(one[name])
    if "values" in one:
        value = one["values"][int(random * len(one["values"]))]
    else:
        low, high = math.log(one["low"]), math.log(one["high"])
        value = math.exp(low + random * (high - low))
        value = round(value) if is_whole(one["low"]) else float(f"{value:.{DIGITS}g}")
    return str(value), [f"{one['key']}={value}"]


def _generator(*words: Any) -> np.random.Generator:
    digest = hashlib.sha256("/".join(map(str, words)).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))


def at_length(cell: BankCell, at: str, early: float) -> BankCell:
    """The setting at its `final` length, or at its `early` one, which has a name of its own."""
    updates = cell.updates if at == FINAL else max(1, round(cell.updates / early))
    return dataclasses.replace(
        cell,
        name=cell.name if at == FINAL else f"{cell.name}-{at}",
        updates=updates,
        overrides=(*cell.overrides, *length_of(updates)),
        labels={**cell.labels, "updates": str(updates)},
        seconds=updates * cell.step_seconds,
    )


def sample(node: Mapping[str, Any], bank: Bank | None, path: Path) -> dict[str, Any]:
    """What the settings `{bank: drawn, first: 24, at: final, where: {...}}` give a claim: the first ones in the order
    drawn that have these labels. Of a claim about trained networks, those with a pilot; if none has, all of them.

    Args:
        bank: of the command; a drawn one takes the place of the named one.

    Raises ValueError with one line.
    """
    own = bank if bank is not None and bank.drawn else load_bank(node["bank"])
    if not own.drawn:
        raise ValueError(f"{path}: settings.bank={node['bank']}: is a list; name a bank that is drawn")
    at, where = node.get("at"), node.get("where", {})
    for key, value in where.items():
        known = {cell.labels[key] for cell in own.cells.values() if key in cell.labels}
        if strange := set(value if isinstance(value, list) else [value]) - known:
            raise ValueError(
                f"{path}: settings.where.{key}={min(strange)}: no setting of bank={own.name} has it; choose from "
                f"{', '.join(sorted(known)) or 'its labels'}"
            )
    names = own.with_labels(where)[: node["first"]]
    cells = [own.cells[name] for name in names]
    if at and any(cell.updates for cell in cells):
        cells = [own.at_lengths(cell.name)[LENGTHS.index(at)] for cell in cells if cell.updates]
    return {
        "settings": {cell.name: list(cell.overrides) for cell in cells},
        "cells": {cell.name: cell for cell in cells},
        "bank": own.name,
        "first": node["first"],
        "where": where,
        "drawn_from": own,
    }


def length_of(updates: int) -> list[str]:
    """The overrides of a length."""
    return [f"max_steps={updates}", f"val_every_n_steps={max(1, updates // 5)}"]


def equal_passes(cell: BankCell, overrides: Sequence[str]) -> list[str]:
    """The length of an arm with another batch size than its drawn setting: as many passes over the data."""
    asked, own = value_of("batch_size", overrides), value_of("batch_size", cell.overrides)
    if not cell.draw or not asked or asked == own:
        return []
    return length_of(max(1, round(cell.updates * float(own) / float(asked))))


def summary(bank: Bank) -> list[str]:
    """Lines on what was drawn, rejected and found, by stratum, and the core-hours of the grid."""
    population = bank.known_population
    blocks = sum(own.share for own in population.strata.values())
    lines, runs = [], len(bank.norms) * bank.seeds * RATES
    early, all_long = 1 + 1 / population.length["early"], list[float]()
    for name, own in population.strata.items():
        mine = [cell for cell in bank.cells.values() if cell.draw.rpartition(" ")[0] == name]
        rows = [row for draw, row in bank.pilots.items() if draw.rpartition(" ")[0] == name]
        long = [cell.updates * cell.step_seconds for cell in mine if cell.updates]
        mean = f", {sum(long) / len(long):.1f} core-seconds a long run" if long else ""
        all_long += long
        lines.append(
            f"{name}: {own.share} of each {blocks}; {len(mine)} settings, {len(long)} with a pilot; "
            f"{sum('rejected' in row for row in rows)} draws rejected{mean}"
        )
    known = "known when a setting has a pilot"
    if all_long:
        known = f"{sum(all_long) / len(all_long):.1f} core-seconds, the longest {max(all_long):.2g}"
    lines.append(f"mean of a long run: {known}; at most {population.length['seconds']:g} are allowed")
    pilots = sum(row["seconds"] for row in bank.pilots.values()) / 3600
    total = sum(all_long) * runs * early / 3600
    lines.append(f"grid: {runs} runs a setting at each length, {total:.2g} core-hours; pilots {pilots:.2g}")
    for cell in bank.cells.values():
        known = (
            f"{cell.updates} updates of {1000 * cell.step_seconds:.3g} ms" if cell.updates else "no pilot yet"
        )
        lines.append(
            f"  {cell.name} {cell.draw}: {', '.join(f'{k} {v}' for k, v in cell.labels.items())}; {known}"
        )
    lines += [
        f"  rejected {draw}: {row['rejected']}" for draw, row in bank.pilots.items() if "rejected" in row
    ]
    return lines
