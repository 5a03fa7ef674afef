"""The design of a comparison: the words of the command as a claim over one setting, with its looks fixed beforehand."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from normexp.claims.judge.comparison import Comparison
from normexp.claims.spec.cell import BankCell
from normexp.claims.spec.claim import Claim
from normexp.config.folder import listed

FIRST = 5  # seeds of the first look; each further look has twice as many, up to the most
CHOSEN = ("norm", "seed", "lr", "optimizer.lr", "monitor", "name", "outputs")
LENGTHS = ("max_steps", "max_epochs")
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


def overrides_of(options: Mapping[str, Any], rest: Sequence[str]) -> list[str]:
    """The words of `normexp train` in a command: `module=` and `data=package:Class` become paths."""
    words = list(rest)
    if options["module"]:
        words = ["model=module", f"model.path={dotted('module', options['module'])}", *words]
    overrides: list[str] = []
    for word in words:
        key, _, value = word.partition("=")
        bare = key.lstrip("+~")
        # Also the rate of the optimizer alone: lr would move nothing.
        if bare in CHOSEN and (value or key.startswith("~")):
            other = "write norms=, seeds= or rates=, or leave it out"
            raise ValueError(f"{word}: is chosen by the comparison; {other}")
        if bare in LENGTHS and value.isdecimal() and not int(value):
            raise ValueError(f"{word}: nothing is learned; write at least {bare}=1")
        is_class = key == "data" and ":" in value
        overrides += ["data=module", f"data.path={dotted(key, value)}"] if is_class else [word]
    return overrides


def dotted(key: str, value: str) -> str:
    """package.Class of package:Class. Raises ValueError for another form."""
    package, colon, name = value.partition(":")
    if not (package and colon and name):
        raise ValueError(f"{key}={value}: write {key}=my_package:Name")
    return f"{package}.{name}"


def packages(options: Mapping[str, Any], rest: Sequence[str]) -> list[str]:
    """Packages of the user's own that the command line names by itself."""
    data = [word.partition("=")[2] for word in rest if word.startswith("data=") and ":" in word]
    imported = [target.partition(":")[0].partition(".")[0] for target in (options["module"], *data) if target]
    return list(dict.fromkeys([*imported, *listed(options["allow_targets"])]))


def refuse_twice(key: str, values: Sequence[float]) -> None:
    """Raise ValueError with one line for a value that stands twice in a list."""
    if twice := [value for place, value in enumerate(values) if value in values[:place]]:
        shown = ",".join(f"{value:.15g}" for value in values)
        raise ValueError(f"{key}={shown}: {twice[0]:.15g} stands there twice; keep one")


def design_of(
    options: Mapping[str, Any], words: Sequence[str], *, recipe: str, text: bool, labels: Mapping[str, str]
) -> Design:
    """The claim of a comparison. Raises ValueError with one line for a mistake.

    Args:
        recipe: that the model trains with, unless the words name another.
        text: whether the data is a text, whose default metric is the loss.
    """
    norms, sizes, most = options["norms"], options["batch_sizes"] or [], options["seeds"]
    if len(norms) < 2 or len(set(norms)) < len(norms):
        raise ValueError(
            f"norms={','.join(norms)}: name two or more different ones; the first is the baseline"
        )
    for key in ("batch_sizes", "rates"):
        refuse_twice(key, options[key] or ())
    rates = tuple(sorted(options["rates"] or ()))
    metric = options["metric"] or ("test/loss" if text else "test/error")
    own_recipe = any(word.startswith("recipe=") for word in words)
    shared = tuple(words) if own_recipe else (f"recipe={recipe}", *words)
    levels: list[int | None] = [*sizes] or [None]
    pairs = itertools.product(norms[1:], levels)
    rule: dict[str, Any] = {"kind": "different", "baseline": norms[0], "margin": options["margin"]}
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
    return Design(claim, looks, options["budget"], shared)
