"""Read claims: the documents of a yaml, one a claim. Each is checked by itself, so a broken one stops no other."""

import functools
import itertools
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from normexp.claims.judge.comparison import EQUAL, PRACTICAL, TRENDS, Comparison
from normexp.claims.spec.bank import SMALL, Bank, load_bank, sample
from normexp.claims.spec.cell import BankCell, labels_of, value_of
from normexp.claims.spec.claim import TUNING_SEEDS, Claim, Manipulation
from normexp.claims.spec.files import GONE, ClaimFile, ComparisonFile, check, shorten
from normexp.config.folder import CONFIGS, parse_yaml, read_text
from normexp.runs.table import FEWEST_SEEDS

OF_TEST = ("test/error", "test/loss")
SEED = "seed"
DOCUMENT = re.compile(r"^id:[ \t]*['\"]?([\w.-]+)", re.M)
SEED_IS_SET = "sets the seed, which every run has of its own; leave it out and give first_seed and seeds"
POINTS = ("test/accuracy", "val/accuracy")


def load_claims(folder: Path) -> dict[str, Claim]:
    """Every claim of a folder by id. Raises ValueError if one is broken."""
    claims, broken = load_each(folder)
    for mistake in broken.values():
        raise ValueError(mistake)
    return claims


def load_each(
    folder: Path, bank: Bank | None = None, only: Callable[[str], bool] = lambda name: True
) -> tuple[dict[str, Claim], dict[str, str]]:
    """(readable claims by id, mistakes of the others by id). `only` says of an id whether its document is read."""
    claims, broken, places = dict[str, Claim](), dict[str, str](), dict[str, Path]()
    for path in folder.glob("*.yaml"):
        try:
            places |= dict.fromkeys(documents(path), path)
        except ValueError as error:
            broken[path.stem] = str(error)
    for name in sorted(filter(only, places), key=natural):
        try:
            claims[name] = read_claim(places[name], bank, name)
        except ValueError as error:
            broken[name] = str(error)
    return claims, broken


@functools.lru_cache(maxsize=64)
def _documents(path: Path, written: int) -> dict[str, str]:
    texts = re.split(r"^---[ \t]*\n", read_text(path), flags=re.M)
    if len(texts) == 1:
        named = DOCUMENT.search(texts[0])
        return {named[1] if named else path.stem: texts[0]}
    found: dict[str, str] = {}
    for text in texts:
        if not (named := DOCUMENT.search(text)):
            raise ValueError(f"{path}: a file of several claims names each; write id: M1 into every document")
        if named[1] in found:
            raise ValueError(f"{path}: id={named[1]}: stands there twice; rename one")
        found[named[1]] = text
    return found


def documents(path: Path) -> dict[str, str]:
    """The text of each claim of a file by its id; a file of one claim may leave `id` out, and has its own name then."""
    return _documents(path, path.stat().st_mtime_ns)


def natural(name: str) -> tuple[str, int, str]:
    """Order by letter, number and rest: S2 before S10."""
    match = re.fullmatch(r"([A-Z]+)(\d+)(.*)", name)
    return (match[1], int(match[2]), match[3]) if match else ("~", 0, name)


def read_claim(path: Path, bank: Bank | None = None, name: str = "") -> Claim:
    """Read one claim of a file. Raises ValueError with one line for the first mistake.

    Args:
        bank: gives the settings of a claim that filters cells by labels, or that names none of its cells (then all of
            them). By default the bank `small`. Names of shipped cells are known beside it.
        name: the id of the claim, if the file has several.
    """
    texts = documents(path)
    name = name or next(iter(texts))
    where = path if len(texts) == 1 else f"{path}: {name}"
    try:
        node = _parse(texts[name], path)
        for key, instead in GONE.items():
            if key in node:
                raise ValueError(f"{key}: {instead}")
        check(node, ClaimFile)
        node.pop("id", None)
        comparisons = node.pop("comparison", [])
        claim = Claim(
            id=name,
            **{**node, "covers": tuple(node["covers"]), **_parts(node, path, bank)},
            comparisons=[
                _comparison(item, path)
                for item in (comparisons if isinstance(comparisons, list) else [comparisons])
            ],
        )
        _check(claim)
        return claim
    except ValueError as error:
        raise ValueError(f"{where}: {str(error).removeprefix(f'{path}: ')}") from None


def _parse(text: str, path: Path) -> dict[str, Any]:
    node = parse_yaml(text, path)
    if node is None:
        raise ValueError(
            "is empty; write name, sentence, source, covers, evidence and what docs/claims.md says"
        )
    if not isinstance(node, dict):
        raise ValueError(f"{shorten(node)}: must be keys with values such as name: my_claim")
    return node


def _parts(node: dict[str, Any], path: Path, bank: Bank | None) -> dict[str, Any]:
    """The keys that become objects."""
    parts: dict[str, Any] = {}
    settings, training = node.get("settings"), node["evidence"] == "training"
    other = bank is not None and bank.name != SMALL and training
    sampled = isinstance(settings, dict) and isinstance(settings.get("first"), int)
    if sampled and not (other and bank and not bank.drawn):
        parts = sample(settings, bank)
        if ("at" in settings) != training:
            raise ValueError("settings.at: is final or early for trained networks, and absent for others")
    elif settings:
        bank = bank or load_bank()
        # A bank takes the place of the settings of a claim of the project, which names none of it.
        listed = isinstance(settings, list) and all(
            isinstance(entry, str) and entry not in bank.cells for entry in settings
        )
        is_other = sampled or (other and path.parent == CONFIGS / "claims" and listed)
        cells = bank.cells if is_other else read_settings(settings, bank)
        parts = {
            "settings": {name: list(cell.overrides) for name, cell in cells.items()},
            "cells": dict(cells),
            "bank": bank.name if is_other else SMALL,
        }
    if manipulation := node.get("manipulation"):
        parts["manipulation"] = Manipulation(
            **{**manipulation, "comparison": _comparison(manipulation["comparison"], path)}
        )
    return parts


def read_settings(node: Any, bank: Bank) -> dict[str, BankCell]:
    """The cells by name: a list of names and of names with overrides, a mapping of names to overrides, or of labels to
    their values. Raises ValueError with one line.

    Args:
        bank: in which names are looked up first, and whose labels are asked. Names of shipped cells are always known.
    """
    overrides = isinstance(node, dict) and all(isinstance(words, list) for words in node.values())
    overrides = overrides and any("=" in word for words in node.values() for word in words)
    if isinstance(node, dict) and not overrides:
        if names := bank.with_labels(node):
            return {name: bank.cells[name] for name in names}
        available = sorted(
            {f"{name}: {value}" for c in bank.cells.values() for name, value in c.labels.items()}
        )
        raise ValueError(f"settings={node}: no cell of bank={bank.name} has these; it has {available}")
    cells: dict[str, BankCell] = {}
    for item in [node] if isinstance(node, dict) else node:
        for name, cell_overrides in (item if isinstance(item, dict) else {item: None}).items():
            if name in cells:
                raise ValueError(f"settings: {name} stands there twice; keep one")
            if cell_overrides is not None:
                if SEED in _keys(cell_overrides):
                    raise ValueError(f"settings.{name}={shorten(cell_overrides)}: {SEED_IS_SET}")
                cells[name] = BankCell(
                    name=name, overrides=tuple(cell_overrides), labels=labels_of(cell_overrides)
                )
                continue
            known_cells = (
                candidate.cells.get(name) for candidate in (bank, load_bank(SMALL), load_bank("gpu"))
            )
            if (cell := next(filter(None, known_cells), None)) is None:
                raise ValueError(
                    f"settings: {name} is no cell of bank={bank.name} (its cells are {', '.join(bank.cells)}); "
                    f"write its overrides as {{{name}: [model=mlp, ...]}}"
                )
            cells[name] = cell
    return cells


def _check(claim: Claim) -> None:
    over_settings = bool(claim.settings or claim.drawn)
    if claim.evidence == "none":
        if not claim.reason:
            raise ValueError("evidence=none: say the reason")
        return
    if not over_settings and claim.seeds < FEWEST_SEEDS:
        raise ValueError(
            f"seeds={claim.seeds}: fewer than {FEWEST_SEEDS} seeds rank nothing; ask for {FEWEST_SEEDS} or more"
        )
    if not 0 <= claim.first_seed <= TUNING_SEEDS - claim.seeds:
        raise ValueError(f"first_seed={claim.first_seed}: seeds must lie in 0 to {TUNING_SEEDS - 1}")
    if len(claim.factor) > 1:
        raise ValueError(f"factor={list(claim.factor)}: one factor a claim; split the claim")
    for key, levels in claim.factor.items():
        if twice := [level for place, level in enumerate(levels) if level in levels[:place]]:
            raise ValueError(f"factor.{key}={shorten(levels)}: {twice[0]} stands there twice; keep one")
    needed = "metric" if claim.evidence == "training" else "function"
    if not (claim.arms and claim.comparisons and claim.measure and getattr(claim, needed)):
        raise ValueError(f"evidence={claim.evidence}: needs arms, a comparison, measure and {needed}")
    for arm, choice in claim.arms.items():
        if claim.evidence != "law" and isinstance(choice, dict):
            raise ValueError(f"arms.{arm}={shorten(choice)}: must be a list such as [norm=layernorm]")
        if isinstance(claim.metric, dict) and arm not in claim.metric:
            raise ValueError(f"metric={shorten(claim.metric)}: has none for arm {arm}; add it")
    _check_overwritten(claim)
    for comparison in claim.comparisons:
        _check_comparison(claim, comparison)
    _check_measure(claim)
    if claim.search:
        _check_search(claim)
    if claim.manipulation:
        if not getattr(claim.manipulation, needed):
            raise ValueError(f"manipulation: needs {needed}, as evidence={claim.evidence} has")
        _check_comparison(claim, claim.manipulation.comparison)
    if not over_settings and claim.rate != "own":
        raise ValueError("rate: is for claims over several settings; name them under settings")
    if over_settings:
        _check_family(claim)


def _check_overwritten(claim: Claim) -> None:
    """Check that no arm sets what the seeds or the factor's levels set after it."""
    arms = {f"arms.{arm}": choice for arm, choice in claim.arms.items()}
    for where, words in {
        **arms,
        "fixed": claim.fixed,
        "options": claim.options,
        "factor": claim.factor,
    }.items():
        keys = _keys(words)
        if SEED in keys:
            raise ValueError(f"{where}={shorten(words)}: {SEED_IS_SET}")
        for key in claim.factor if where in arms else ():
            is_option = claim.evidence != "training" and "." not in key  # of the function, not an override
            if key in keys and (isinstance(words, dict) or not is_option):
                raise ValueError(
                    f"{where}={shorten(words)}: the factor sets {key} in every arm; leave it out, or take another "
                    "factor"
                )


def _check_measure(claim: Claim) -> None:
    """Refuse a direction or a margin with which the metric cannot say no, and arms that see other data."""
    for metric in claim.metric.values() if isinstance(claim.metric, dict) else [claim.metric or ""]:
        name = metric.rpartition("/")[2]
        best = {"error": "lower", "loss": "lower", "accuracy": "higher"}.get(name)
        if best and claim.better not in (None, best):
            raise ValueError(f"better={claim.better}: {metric} is better {best}; change it or leave it out")
        margins = [
            c.margin for c in claim.comparisons if c.kind in EQUAL and not c.log and c.margin != PRACTICAL
        ]
        if name in ("error", "accuracy") and margins and max(margins) >= 1:
            raise ValueError(
                f"margin={max(margins)}: no two values of {metric} differ by more; give one below 1"
            )
    set_by_all = set.intersection(*(_keys(words) for words in claim.arms.values())) if claim.arms else set()
    if claim.evidence == "training" and (ignored := sorted(_keys(claim.fixed) & set_by_all)):
        raise ValueError(f"fixed: every arm sets {ignored[0]} itself; leave it out there")
    for key in ("data.train_size", "data.val_size", "data.split_seed"):
        chosen = {value_of(key, words) for words in claim.arms.values() if not isinstance(words, dict)}
        if len(chosen) > 1:
            raise ValueError(
                f"arms: {key} differs between them, and a seed is compared with itself on the same examples; write it "
                "into fixed"
            )


def _keys(words: Iterable[str]) -> set[str]:
    """What overrides or options set: batch_size for +batch_size=8."""
    return {str(word).lstrip("+~").partition("=")[0] for word in words}


def _check_family(claim: Claim) -> None:
    """Check what a claim over several settings asks."""
    if claim.evidence == "law":
        raise ValueError(f"settings: evidence={claim.evidence} needs none; leave them out")
    if claim.evidence == "training" and not claim.drawn:  # equal networks before training count once
        first: dict[tuple[str, ...], str] = {}
        for name, cell in claim.cells.items():
            if (other := first.setdefault(tuple(cell.overrides), name)) != name:
                raise ValueError(f"settings: {name} has the overrides of {other}; keep one")
    for metric in claim.metric.values() if isinstance(claim.metric, dict) else [claim.metric]:
        if metric in POINTS:
            raise ValueError(
                f"metric={metric}: a failed run counts as a guess, which errors know; give "
                f"{metric.replace('accuracy', 'error')}"
            )
    if any(comparison.kind == "every" for comparison in claim.comparisons):
        raise ValueError("kind=every: gives no number a setting; give a difference or a slope")


def _check_search(claim: Claim) -> None:
    if claim.evidence == "training" or claim.settings or claim.factor or len(claim.arms) > 1:
        raise ValueError(
            "search: is for a law or for initial networks, with one arm and without settings or factor"
        )
    for comparison in claim.comparisons:
        if comparison.kind != "every":
            raise ValueError(
                f"search: kind={comparison.kind}: counterexamples are to a universal sentence; give kind: every"
            )


def _check_comparison(claim: Claim, comparison: Comparison) -> None:
    """Check names, levels and lengths now. Otherwise they would fail only after all runs are trained."""
    for key in ("arm", "baseline", "over"):
        if (arm := getattr(comparison, key)) not in (None, *claim.arms):
            raise ValueError(f"{key}={arm}: is not among the arms {', '.join(claim.arms)}; name one")
    for other in filter(None, (comparison.baseline, comparison.over)):
        if comparison.arm is not None and _same(claim, comparison, comparison.arm, other):
            raise ValueError(
                f"arms.{other}={shorten(claim.arms[other])}: arm {comparison.arm} is the same; compare different arms"
            )
    if comparison.at is not None and comparison.at not in claim.levels:
        raise ValueError(f"at={comparison.at}: is no level of the factor; its levels are {claim.levels}")
    numbers = [
        level for level in claim.levels if isinstance(level, int | float) and not isinstance(level, bool)
    ]
    if comparison.kind in TRENDS and comparison.over is None and not 1 < len(numbers) == len(claim.levels):
        raise ValueError(f"kind={comparison.kind}: needs a factor of two or more numbers, or over: ARM")
    if comparison.kind in TRENDS and comparison.over is None and comparison.log2_factor and min(numbers) <= 0:
        raise ValueError(f"log2_factor=true: level {min(numbers)} has no logarithm; give levels above 0")
    if comparison.margin == PRACTICAL and not ((claim.settings or claim.drawn) and claim.metric in OF_TEST):
        raise ValueError(
            f"margin={PRACTICAL}: metric={shorten(claim.metric)}: is for {' and '.join(OF_TEST)} over "
            "settings; give a number"
        )
    bounded = claim.arms if comparison.arm is None else [comparison.arm]
    for key in ("at_most", "at_least", "equals"):
        bound = getattr(comparison, key)
        for arm in bounded if isinstance(bound, dict) else ():
            if arm not in bound:
                raise ValueError(f"{key}={shorten(bound)}: has none for arm {arm}; add it")
        for values in bound.values() if isinstance(bound, dict) else [bound]:
            if isinstance(values, list) and len(values) != len(claim.levels):
                raise ValueError(
                    f"{key}={shorten(values)}: must have {len(claim.levels)} numbers, one for each level"
                )
    if comparison.at_most is not None and comparison.at_least is not None:
        for arm, place in itertools.product(bounded, range(len(claim.levels))):
            most, least = (_bound(bound, arm, place) for bound in (comparison.at_most, comparison.at_least))
            if most < least:
                raise ValueError(f"at_most={most}: is below at_least={least}; no value is both")


def _same(claim: Claim, comparison: Comparison, arm: str, other: str) -> bool:
    """Whether two arms have one value, whatever is measured. Arms with equal overrides may differ in their metric."""
    of_check = claim.manipulation is not None and comparison is claim.manipulation.comparison
    one_metric = claim.evidence != "training" or of_check or claim.metric_of(arm) == claim.metric_of(other)
    return claim.arms[arm] == claim.arms[other] and one_metric


def _bound(bound: Any, arm: str, place: int) -> float:
    """The number of a bound for an arm at a level."""
    values = bound[arm] if isinstance(bound, dict) else bound
    return values[place] if isinstance(values, list) else values


def _comparison(node: dict[str, Any], path: Path) -> Comparison:
    check(node, ComparisonFile, "comparison.")
    return Comparison.read(node, str(path))
