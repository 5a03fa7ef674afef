"""Read the files in `configs/claim/`. Each is read and checked by itself, so a broken file does not stop the others."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from normexp.claims.judge.comparison import PRACTICAL, TRENDS, Comparison
from normexp.claims.spec.bank import LOADER, SMALL, Bank, load_bank
from normexp.claims.spec.claim import EVIDENCE, VERDICTS, Claim, Manipulation
from normexp.claims.spec.claim_checks import CLAIM, COMPARISON, check_values, is_sample, shorten
from normexp.claims.spec.population import sample
from normexp.claims.spec.settings import TUNING_SEEDS, check_family, read_settings
from normexp.config.folder import CONFIGS
from normexp.runs.table import FEWEST_SEEDS

LARGER = "larger settings are cells of a bank now; leave it out and ask with bank=gpu"
GONE = {
    "full": LARGER,
    "paper": LARGER,
    "contrast": "a word depends on nothing now; leave it out, and ask when a claim holds over drawn settings",
    "failed": "a failed run counts as a guess, and the row says what holds given that all trained; leave it out",
}
OF_TEST = ("test/error", "test/loss")
NEEDED = ("name", "sentence", "source", "covers", "evidence")


def load_claims(folder: Path, bank: Bank | None = None) -> dict[str, Claim]:
    """Every claim of a folder by id. Raises ValueError if one is broken."""
    claims, broken = load_each(folder, bank)
    for mistake in broken.values():
        raise ValueError(mistake)
    return claims


def load_each(
    folder: Path, bank: Bank | None = None, only: Callable[[str], bool] = lambda name: True
) -> tuple[dict[str, Claim], dict[str, str]]:
    """(readable claims by id, mistakes of the other files by id). `only` says of an id whether its file is read."""
    claims, broken = {}, {}
    for path in sorted((path for path in folder.glob("*.yaml") if only(path.stem)), key=natural):
        try:
            claims[path.stem] = read_claim(path, bank)
        except ValueError as error:
            broken[path.stem] = str(error)
    return claims, broken


def natural(path: Path) -> tuple[str, int, str]:
    """Order by letter, number and rest: S2 before S10."""
    match = re.fullmatch(r"([A-Z]+)(\d+)(.*)", path.stem)
    return (match[1], int(match[2]), match[3]) if match else ("~", 0, path.stem)


def read_claim(path: Path, bank: Bank | None = None) -> Claim:
    """Read one file. Raises ValueError with one line for the first mistake.

    Args:
        bank: gives the settings of a claim that filters cells by labels, or that names none of its cells (then all of
            them). By default the bank `small`. Names of shipped cells are known beside it.
    """
    node = _parse(path)
    for key, instead in GONE.items():
        if key in node:
            raise ValueError(f"{path}: {key}: {instead}")
    check_values(node, CLAIM, str(path))
    missing = [key for key in NEEDED if key not in node]
    if missing:
        raise ValueError(f"{path}: {missing[0]}: is missing; add it")
    comparisons = node.pop("comparison", [])
    comparisons = comparisons if isinstance(comparisons, list) else [comparisons]
    claim = Claim(
        id=path.stem,
        **{**node, "covers": tuple(node["covers"]), **_parts(node, path, bank)},
        comparisons=[_comparison(item, str(path)) for item in comparisons],
    )
    _check(claim, path)
    if claim.settings or claim.drawn:
        check_family(claim, path)
    return claim


def _parts(node: dict[str, Any], path: Path, bank: Bank | None) -> dict[str, Any]:
    """The keys that become objects."""
    found: dict[str, Any] = {}
    asked = node.get("settings")
    chosen = bank is not None and not bank.drawn and bank.name != SMALL and node["evidence"] == "training"
    if asked and is_sample(asked) and not chosen:
        found = sample(asked, bank, path)
        if ("at" in asked) != (node["evidence"] == "training"):
            raise ValueError(
                f"{path}: settings.at: is final or early for trained networks, and absent for others"
            )
    elif asked:
        bank = bank or load_bank()
        is_other = is_sample(asked) or _is_other(asked, bank, node["evidence"], path)
        cells = bank.cells if is_other else read_settings(asked, bank, path)
        found = {
            "settings": {name: list(cell.overrides) for name, cell in cells.items()},
            "cells": dict(cells),
            "bank": bank.name if is_other else SMALL,
        }
    if node.get("manipulation"):
        own = node["manipulation"]
        found["manipulation"] = Manipulation(
            **{**own, "comparison": _comparison(own["comparison"], str(path))}
        )
    return found


def _is_other(asked: Any, bank: Bank, evidence: str, path: Path) -> bool:
    """Whether a bank takes the place of the settings of a training claim of the project, which names none of it."""
    if path.parent != CONFIGS / "claim":
        return False
    names = [name for name in asked if isinstance(name, str)] if isinstance(asked, list) else []
    named = len(names) == len(asked) and not any(name in bank.cells for name in names)
    return evidence == "training" and bank.name != SMALL and named


def _parse(path: Path) -> dict[str, Any]:
    try:
        node = yaml.load(path.read_text(encoding="utf-8"), LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        what = shorten(getattr(error, "problem", None) or error)
        raise ValueError(f"{path}: {where}{what}; close brackets and quote text that has a colon") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is no text in UTF-8; save it as that") from None
    if node is None:
        raise ValueError(f"{path}: is empty; write {', '.join(NEEDED)} and what docs/claims.md says")
    if not isinstance(node, dict):
        raise ValueError(f"{path}: {shorten(node)}: must be keys with values such as name: my_claim")
    return node


def _check(claim: Claim, path: Path) -> None:
    if claim.evidence not in EVIDENCE:
        raise ValueError(f"{path}: evidence={claim.evidence}: choose from {', '.join(EVIDENCE)}")
    if claim.evidence == "none":
        if not claim.reason:
            raise ValueError(f"{path}: evidence=none: say the reason")
        return
    if claim.expected not in (None, *VERDICTS):
        raise ValueError(f"{path}: expected={claim.expected}: choose from {', '.join(VERDICTS)}")
    if not (claim.settings or claim.drawn) and claim.seeds < FEWEST_SEEDS:
        raise ValueError(
            f"{path}: seeds={claim.seeds}: fewer than {FEWEST_SEEDS} seeds rank nothing; ask for {FEWEST_SEEDS} or more"
        )
    if not 0 <= claim.first_seed <= TUNING_SEEDS - claim.seeds:
        raise ValueError(f"{path}: first_seed={claim.first_seed}: seeds must lie in 0 to {TUNING_SEEDS - 1}")
    if len(claim.factor) > 1:
        raise ValueError(f"{path}: factor={list(claim.factor)}: one factor a claim; split the claim")
    needed = "metric" if claim.evidence == "training" else "function"
    if not (claim.arms and claim.comparisons and claim.measure and getattr(claim, needed)):
        raise ValueError(f"{path}: evidence={claim.evidence}: needs arms, a comparison, measure and {needed}")
    for arm, choice in claim.arms.items():
        if claim.evidence != "law" and isinstance(choice, dict):
            raise ValueError(f"{path}: arms.{arm}={shorten(choice)}: must be a list such as [norm=layernorm]")
        if isinstance(claim.metric, dict) and arm not in claim.metric:
            raise ValueError(f"{path}: metric={shorten(claim.metric)}: has none for arm {arm}; add it")
    for comparison in claim.comparisons:
        _check_comparison(claim, comparison, path)
    if claim.search:
        _check_search(claim, path)
    if claim.manipulation:
        if not getattr(claim.manipulation, needed):
            raise ValueError(f"{path}: manipulation: needs {needed}, as evidence={claim.evidence} has")
        _check_comparison(claim, claim.manipulation.comparison, path)
    alone = {"universal": claim.universal, "rate": claim.rate != "own"}
    if not (claim.settings or claim.drawn) and any(alone.values()):
        key = next(name for name, given in alone.items() if given)
        raise ValueError(f"{path}: {key}: is for claims over several settings; name them under settings")


def _check_search(claim: Claim, path: Path) -> None:
    if claim.evidence == "training" or claim.settings or claim.factor or len(claim.arms) > 1:
        raise ValueError(
            f"{path}: search: is for a law or for initial networks, with one arm and without settings or factor"
        )
    for comparison in claim.comparisons:
        if comparison.kind != "every":
            raise ValueError(
                f"{path}: search: kind={comparison.kind}: counterexamples are to a universal sentence; give kind: every"
            )


def _check_comparison(claim: Claim, comparison: Comparison, path: Path) -> None:
    """Check names, levels and lengths now. Otherwise they would fail only after all runs are trained."""
    for key in ("arm", "baseline", "over"):
        if (arm := getattr(comparison, key)) not in (None, *claim.arms):
            raise ValueError(f"{path}: {key}={arm}: is not among the arms {', '.join(claim.arms)}; name one")
    if comparison.at is not None and comparison.at not in claim.levels:
        raise ValueError(
            f"{path}: at={comparison.at}: is no level of the factor; its levels are {claim.levels}"
        )
    if comparison.kind in TRENDS and comparison.over is None and not _numbers(claim.levels):
        raise ValueError(
            f"{path}: kind={comparison.kind}: needs a factor of two or more numbers, or over: ARM"
        )
    if comparison.margin == PRACTICAL and not ((claim.settings or claim.drawn) and claim.metric in OF_TEST):
        raise ValueError(
            f"{path}: margin={PRACTICAL}: metric={shorten(claim.metric)}: is for {' and '.join(OF_TEST)} over "
            "settings; give a number"
        )
    for key in ("at_most", "at_least", "equals"):
        bound = getattr(comparison, key)
        for arm in claim.arms if isinstance(bound, dict) and comparison.arm is None else ():
            if arm not in bound:
                raise ValueError(f"{path}: {key}={shorten(bound)}: has none for arm {arm}; add it")
        for values in bound.values() if isinstance(bound, dict) else [bound]:
            if isinstance(values, list) and len(values) != len(claim.levels):
                raise ValueError(
                    f"{path}: {key}={shorten(values)}: must have {len(claim.levels)} numbers, one for each level"
                )


def _numbers(levels: list) -> bool:
    return len(levels) > 1 and all(isinstance(x, int | float) and not isinstance(x, bool) for x in levels)


def _comparison(node: dict[str, Any], path: str) -> Comparison:
    check_values(node, COMPARISON, path, "comparison.")
    return Comparison.read(node, path)
