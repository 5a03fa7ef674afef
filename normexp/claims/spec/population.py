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

from normexp.claims.spec.bank import (
    FACTS,
    GRID,
    LENGTHS,
    SHARED,
    Bank,
    BankCell,
    length_of,
    load_bank,
    value_of,
)
from normexp.claims.spec.shape import (
    ANY,
    OBJECT,
    POSITIVE,
    TEXTS,
    WHOLE,
    Shape,
    check,
    fits,
    keyed,
    listed,
    mapping_of,
    optional,
    shorten,
)

TRAINED = ("rates", "length", "grid")  # absent where networks are only looked at before training
LENGTH = ("updates", "passes", "start_seconds", "seconds", "learned", "gain", "early", "widenings", "seed")
NUMBERS = listed({"type": "number"}, minItems=3)
STRATUM = keyed({"share": WHOLE, "fixed": SHARED, "choose": optional(OBJECT)}, "share")
POPULATION = keyed(
    {
        "seed": {"type": "integer", "minimum": 0, "wanted": "must be a whole number"},
        "settings": WHOLE,
        "shared": SHARED,
        "choose": optional(OBJECT),
        "strata": mapping_of(STRATUM, minProperties=1, title="kinds of models by name"),
        "rates": mapping_of(NUMBERS, wanted="must be three or more numbers for each optimizer"),
        "length": keyed(dict.fromkeys(LENGTH, POSITIVE) | {"ngrams": WHOLE}, " ".join(LENGTH)),
        "grid": keyed({key: GRID["properties"][key] for key in ("norms", "seeds")}, "norms seeds"),
    }
)
BETWEEN: Shape = {**OBJECT, "properties": {"low": POSITIVE, "high": POSITIVE}, "required": ["low", "high"]}
VALUES: Shape = {**OBJECT, "properties": {"values": listed(ANY, minItems=1)}, "required": ["values"]}
MOST_DRAWS = 1000  # of a stratum
RATES = 3  # of the grid, round the best of the pilot
DIGITS = 2  # of a drawn number that is not whole


@dataclass(frozen=True)
class Population:
    """Distributions of settings, and the rules by which pilots find lengths and learning rates.

    Attributes:
        node: the yaml as it was read, for the registry.
    """

    node: Mapping[str, Any] = field(repr=False)

    @property
    def rates(self) -> dict[str, tuple[float, ...]]:
        """Those of the pilots' first search, by the label `optimizer`; none for networks that are not trained."""
        return {name: tuple(map(float, values)) for name, values in self.node.get("rates", {}).items()}

    @property
    def length(self) -> Mapping[str, float]:
        """The rules of `normexp.claims.evidence.pilots.pilot`, by name."""
        return self.node.get("length", {})

    @property
    def slots(self) -> list[str]:
        """The stratum of each setting. Each block has the written proportions, in an order of its own."""
        strata, settings = self.node["strata"], self.node["settings"]
        block = [name for name in sorted(strata) for _ in range(strata[name]["share"])]
        slots: list[str] = []
        while len(slots) < settings:
            random = _generator(self.node["seed"], "order", len(slots)).random(len(block))
            slots += [block[place] for place in np.argsort(random, kind="stable")]
        return slots[:settings]

    def draw(self, stratum: str, number: int, name: str = "") -> BankCell:
        """The draw with this number, from 1: `mlp 3` is the third MLP."""
        stratum_node = self.node["strata"][stratum]
        choose = _choices(self.node, stratum_node)
        overrides = [*(self.node.get("shared") or ()), *(stratum_node.get("fixed") or ())]
        labels: dict[str, str] = {}
        for key in sorted(choose, key=lambda key: ("by" in choose[key], key)):
            random = float(_generator(self.node["seed"], stratum, number, key).random())
            labels[key], words = _choose(choose[key], random, labels)
            overrides += words
        return BankCell(
            name=name,
            draw=f"{stratum} {number}",
            overrides=tuple(overrides),
            labels=labels,
            replicas=stratum == "mlp",
            norms=tuple(self.node.get("grid", {}).get("norms", ())),
        )

    def drawn(self, rejected: Collection[str]) -> Iterator[BankCell]:
        """The settings in the order drawn, without the rejected draws."""
        numbers = dict.fromkeys(self.node["strata"], 0)
        for place, stratum in enumerate(self.slots, 1):
            numbers[stratum] += 1
            while f"{stratum} {numbers[stratum]}" in rejected:
                numbers[stratum] += 1
                if numbers[stratum] > MOST_DRAWS:
                    raise ValueError(
                        f"strata.{stratum}: {MOST_DRAWS} draws were rejected; choose smaller ones"
                    )
            yield self.draw(stratum, numbers[stratum], f"d{place:03d}")


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


def with_pilot(cell: BankCell, pilot: Mapping[str, Any]) -> BankCell:
    """The setting with its length, its rates and the facts of its data; without a pilot, as it was drawn."""
    if "updates" not in pilot:
        return cell
    arm_rates = {norm: tuple(rates) for norm, rates in pilot["rates"].items()}
    by_center = sorted(arm_rates.values(), key=lambda rates: rates[len(rates) // 2])
    return dataclasses.replace(
        cell,
        updates=pilot["updates"],
        step_seconds=pilot["step_seconds"],
        rates=by_center[len(by_center) // 2],
        arm_rates=arm_rates,
        counts_loss=pilot.get("counts_loss", math.inf),
        labels={**cell.labels, "values per statistic": str(pilot["values_per_statistic"])},
        test=pilot["test"],
        **{fact: pilot[fact] for fact in FACTS},
    )


def read_population(node: dict[str, Any], path: Path) -> Population:
    """Check the yaml of a population."""
    trained = any(key in node for key in TRAINED)
    needed = ["seed", "settings", "strata", *(TRAINED if trained else ())]
    check(node, {**POPULATION, "required": needed}, f"{path}: ")
    for name, stratum in node["strata"].items():
        where, choose = f"{path}: strata.{name}.choose", _choices(node, stratum)
        if missing := {"data", "model", *(["optimizer"] if trained else [])} - choose.keys():
            raise ValueError(f"{where}: must choose {min(missing)}")
        for label, choice in choose.items():
            _check_choice(choice, f"{where}.{label}")
    return Population(node)


def _choices(node: Mapping[str, Any], stratum: Mapping[str, Any]) -> dict[str, Any]:
    return (node.get("choose") or {}) | (stratum.get("choose") or {})


def _check_choice(choice: Any, where: str) -> None:
    if isinstance(choice, dict) and "by" in choice:
        for value in choice.keys() - {"by"}:
            _check_choice(choice[value], f"{where}.{value}")
    elif isinstance(choice, dict) and "key" in choice:
        if not (fits(choice, VALUES) or (fits(choice, BETWEEN) and choice["low"] <= choice["high"])):
            raise ValueError(f"{where}: give low and high, both above 0, or values")
    elif not fits(choice, mapping_of(TEXTS)):
        raise ValueError(
            f"{where}={shorten(choice)}: must be names with overrides, or a key with low and high, or with "
            "values"
        )


def _choose(choice: Mapping[str, Any], random: float, labels: Mapping[str, str]) -> tuple[str, list[str]]:
    """(label, overrides) for a random number in [0, 1)."""
    if "by" in choice:
        return _choose(choice[labels[choice["by"]]], random, labels)
    if "key" not in choice:
        name = sorted(choice)[int(random * len(choice))]
        return str(name), list(choice[name])
    if "values" in choice:
        value = choice["values"][int(random * len(choice["values"]))]
    else:
        low, high = math.log(choice["low"]), math.log(choice["high"])
        value = math.exp(low + random * (high - low))
        value = round(value) if isinstance(choice["low"], int) else float(f"{value:.{DIGITS}g}")
    return str(value), [f"{choice['key']}={value}"]


def _generator(*words: Any) -> np.random.Generator:
    digest = hashlib.sha256("/".join(map(str, words)).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))


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
                f"settings.where.{key}={min(strange)}: no setting of bank={chosen_bank.name} has it; choose "
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


def equal_passes(cell: BankCell, overrides: Sequence[str]) -> list[str]:
    """The length of an arm with another batch size than its drawn setting: as many passes over the data."""
    arm_batch, setting_batch = value_of("batch_size", overrides), value_of("batch_size", cell.overrides)
    if not cell.draw or not arm_batch or arm_batch == setting_batch:
        return []
    return length_of(max(1, round(cell.updates * float(setting_batch) / float(arm_batch))))


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
