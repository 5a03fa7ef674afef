"""The design of a comparison: the words of the command as a claim over one setting, with its looks fixed beforehand."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from normexp.claims.judge.comparison import PRACTICAL, Comparison
from normexp.claims.spec.bank import BankCell
from normexp.claims.spec.claim import Claim

FIRST = 5  # seeds of the first look; each further look has twice as many, up to the most
METRICS = {"test/error": "share of wrong answers on test", "test/loss": "cross-entropy on test, in nats"}


@dataclass(frozen=True)
class Design:
    """One comparison.

    Attributes:
        claim: with the seeds of the first look; the first arm is the baseline.
        looks: numbers of seeds at which the table is looked at.
        budget: minutes of one core after which no further look begins.
        words: overrides of `normexp train` that all runs share.
    """

    claim: Claim
    looks: tuple[int, ...]
    budget: float
    words: tuple[str, ...]

    @property
    def baseline(self) -> str:
        return next(iter(self.claim.arms))


def overrides_of(options: Mapping[str, str], rest: Sequence[str]) -> list[str]:
    """The words of `normexp train` in a command: `module=` and `data=package:Class` become paths."""
    words = list(rest)
    if options["module"]:
        words = ["model=module", f"model.path={dotted('module', options['module'])}", *words]
    overrides: list[str] = []
    for word in words:
        key, _, value = word.partition("=")
        if key in ("norm", "seed", "lr", "replicas", "monitor", "name", "outputs") and value:
            other = "write norms=, seeds= or rates=, or leave it out"
            raise ValueError(f"{word}: is chosen by the comparison; {other}")
        is_class = key == "data" and ":" in value
        overrides += ["data=module", f"data.path={dotted(key, value)}"] if is_class else [word]
    return overrides


def dotted(key: str, value: str) -> str:
    """package.Class of package:Class. Raises ValueError for another form."""
    package, colon, name = value.partition(":")
    if not (package and colon and name):
        raise ValueError(f"{key}={value}: write {key}=my_package:Name")
    return f"{package}.{name}"


def packages(options: Mapping[str, str], rest: Sequence[str]) -> list[str]:
    """Packages of the user's own that the command line names by itself."""
    data = [word.partition("=")[2] for word in rest if word.startswith("data=") and ":" in word]
    imported = [target.partition(":")[0].partition(".")[0] for target in (options["module"], *data) if target]
    return list(dict.fromkeys([*imported, *split(options, "allow_targets")]))


def design_of(
    options: Mapping[str, str], words: Sequence[str], *, recipe: str, text: bool, labels: Mapping[str, str]
) -> Design:
    """The claim of a comparison. Raises ValueError with one line for a mistake.

    Args:
        recipe: that the model trains with, unless the words name another.
        text: whether the data is a text, whose default metric is the loss.
    """
    norms = split(options, "norms")
    if len(norms) < 2 or len(set(norms)) < len(norms):
        raise ValueError(
            f"norms={options['norms']}: name two or more different ones; the first is the baseline"
        )
    sizes = [whole("batch_sizes", size) for size in split(options, "batch_sizes")]
    most, budget = whole("seeds", options["seeds"], FIRST), number("budget", options["budget"])
    metric = options["metric"] or ("test/loss" if text else "test/error")
    if metric not in METRICS:
        raise ValueError(f"metric={metric}: choose from {', '.join(METRICS)}")
    margin: Any = PRACTICAL if options["margin"] == PRACTICAL else number("margin", options["margin"])
    rates = tuple(sorted(number("rates", rate) for rate in split(options, "rates")))
    own_recipe = any(word.startswith("recipe=") for word in words)
    shared = tuple(words) if own_recipe else (f"recipe={recipe}", *words)
    levels: list[int | None] = [*sizes] or [None]
    pairs = itertools.product(norms[1:], levels)
    rule: dict[str, Any] = {"kind": "different", "baseline": norms[0], "margin": margin}
    comparisons = [Comparison(**rule, arm=norm, at=level) for norm, level in pairs]
    looks = tuple(dict.fromkeys(min(FIRST * 2**k, most) for k in range(32) if FIRST * 2 ** (k - 1) < most))
    claim = Claim(
        id="compare",
        name=options["name"],
        sentence=f"{' and '.join(norms[1:])} differ from {norms[0]} by more than the margin",
        source="this command",
        covers=(),
        evidence="training",
        kind="ours",
        measure=METRICS[metric],
        metric=metric,
        better="lower",
        arms={norm: [f"norm={norm}"] for norm in norms},
        factor={"batch_size": sizes} if sizes else {},
        seeds=looks[0],
        comparisons=comparisons,
        settings={"here": list(shared)},
        cells={"here": BankCell(name="here", overrides=shared, rates=rates, labels=dict(labels))},
    )
    return Design(claim, looks, budget, shared)


def split(options: Mapping[str, str], key: str) -> list[str]:
    """The parts of a list on the command line, with or without brackets."""
    return [part.strip() for part in options[key].strip("[]").split(",") if part.strip()]


def whole(key: str, value: str, least: int = 1) -> int:
    """A whole number of the command line."""
    if not value.isdecimal() or int(value) < least:
        raise ValueError(f"{key}={value}: must be a whole number, at least {least}")
    return int(value)


def number(key: str, value: str) -> float:
    """A positive number of the command line."""
    try:
        parsed = float(value)
    except ValueError:
        parsed = 0.0
    if not 0 < parsed < float("inf"):
        raise ValueError(f"{key}={value}: must be a number above 0")
    return parsed
