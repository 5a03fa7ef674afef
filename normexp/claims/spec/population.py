"""Settings drawn at random, from the distributions in a bank's yaml.

A draw is independent of all others, of the machine and of the order of keys: every choice has a random generator of
its own, seeded by the bank's seed, the names of stratum and choice, and the number of the draw. A rejected draw is
replaced by the next one of its stratum. Which were rejected, and the lengths and rates of the others, stand in the
file of pilots beside the yaml.
"""

import dataclasses
import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from normexp.claims.spec.cell import FACTS, BankCell, length_of, value_of
from normexp.claims.spec.files import Between, PopulationFile, Values, check, shorten

TRAINED = ("rates", "length", "grid")  # absent where networks are only looked at before training
MOST_DRAWS = 1000  # of a stratum
LEARNED_ERROR = 0.05  # on the training split, of a setting that networks have learned
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
        """The rules by which pilots find lengths, by name."""
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
        for key in _in_order(choose):
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
        learned=learned_in(pilot),
        labels={**cell.labels, "values per statistic": str(pilot["values_per_statistic"])},
        test=pilot["test"],
        **{fact: pilot[fact] for fact in FACTS},
    )


def learned_in(pilot: Mapping[str, Any]) -> bool | None:
    """Whether the best norm of a pilot had learned at its end; None where nobody counted the text's characters."""
    ends = pilot.get("ends", {}).values()
    if not ends:
        return None
    if pilot["test"] != "blocks":
        return min(1 - end["train_accuracy"] for end in ends) < LEARNED_ERROR
    if "learned_loss" not in pilot:
        return None
    return min(end["val_loss"] for end in ends) < pilot["learned_loss"]


def read_population(node: dict[str, Any], path: Path) -> Population:
    """Check the yaml of a population."""
    trained = any(key in node for key in TRAINED)
    check(node, PopulationFile, f"{path}: ")
    for key in TRAINED if trained else ():
        if key not in node:
            raise ValueError(f"{path}: {key}: is missing; add it")
    for optimizer, rates in node.get("rates", {}).items():
        if rates != sorted(set(rates)):
            raise ValueError(f"{path}: rates.{optimizer}={rates}: must rise, each once")
    for name, stratum in node["strata"].items():
        where, choose = f"{path}: strata.{name}.choose", _choices(node, stratum)
        earlier: dict[str, Any] = {}
        if missing := {"data", "model", *(["optimizer"] if trained else [])} - choose.keys():
            raise ValueError(f"{where}: must choose {min(missing)}")
        for label in _in_order(choose):
            _check_choice(choose[label], f"{where}.{label}", earlier)
            earlier[label] = choose[label]
        if trained and (absent := _names(choose["optimizer"]) - node["rates"].keys()):
            raise ValueError(
                f"{path}: rates.{min(absent)}: is missing; strata.{name} draws this optimizer, so add its rates"
            )
    return Population(node)


def _choices(node: Mapping[str, Any], stratum: Mapping[str, Any]) -> dict[str, Any]:
    return (node.get("choose") or {}) | (stratum.get("choose") or {})


def _in_order(choose: Mapping[str, Any]) -> list[str]:
    """The labels as they are drawn: by name, and those that depend on another one last."""
    return sorted(choose, key=lambda key: (_depends(choose[key]), key))


def _depends(choice: Any) -> bool:
    return isinstance(choice, dict) and "by" in choice


def _names(choice: Mapping[str, Any]) -> set[str]:
    """Every value that a label may have; none where one is drawn from a range."""
    if "by" in choice:
        parts = [_names(choice[value]) for value in choice.keys() - {"by"}]
        return set().union(*parts) if all(parts) else set()
    if "key" in choice:
        return {str(value) for value in choice.get("values", ())}
    return set(choice)


def _check_choice(choice: Any, where: str, earlier: Mapping[str, Any]) -> None:
    """Raise ValueError with one line for a choice that could not be drawn after the earlier ones."""
    if _depends(choice):
        by = choice["by"]
        names = _names(earlier[by]) if isinstance(by, str) and by in earlier else set()
        if not names:
            known = [label for label in earlier if _names(earlier[label])]
            raise ValueError(
                f"{where}.by={shorten(by)}: is no label with listed values that is drawn before; choose from "
                f"{', '.join(known)}"
            )
        if absent := names - choice.keys():
            raise ValueError(f"{where}.{min(absent)}: is missing; {by} may be {min(absent)}, so add a choice")
        for value in choice.keys() - {"by"}:
            _check_choice(choice[value], f"{where}.{value}", earlier)
    elif isinstance(choice, dict) and "key" in choice:
        _check_key(choice, where)
    elif not (
        isinstance(choice, dict) and choice and all(isinstance(words, list) for words in choice.values())
    ):
        raise ValueError(
            f"{where}={shorten(choice)}: must be names with overrides, or a key with low and high, or with "
            "values"
        )


def _check_key(choice: dict[str, Any], where: str) -> None:
    check(choice, Values if "values" in choice else Between, f"{where}.")
    if "values" in choice:
        return
    low, high = choice["low"], choice["high"]
    if high < low:
        raise ValueError(f"{where}.high={high}: is below low={low}; swap them")
    if isinstance(low, int) and high != int(high):
        raise ValueError(f"{where}.high={high}: must be whole as low={low} is; or write low={low}.0")


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


def equal_passes(cell: BankCell, overrides: Sequence[str]) -> list[str]:
    """The length of an arm with another batch size than its drawn setting: as many passes over the data."""
    arm_batch, setting_batch = value_of("batch_size", overrides), value_of("batch_size", cell.overrides)
    if not cell.draw or not arm_batch or arm_batch == setting_batch:
        return []
    return length_of(max(1, round(cell.updates * float(setting_batch) / float(arm_batch))))
