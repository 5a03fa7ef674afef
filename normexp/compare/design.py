"""The design of a comparison, fixed before its first run: norms, rates, margin and looks, from the command's words."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normexp.claims.judge.comparison import Comparison

FIRST = 5  # seeds of the first look; each further look has twice as many, up to the most
CHOSEN = ("norm", "seed", "lr", "optimizer.lr", "monitor", "name", "outputs")
LENGTHS = ("max_steps", "max_epochs")


@dataclass(frozen=True)
class Design:
    """One comparison.

    Attributes:
        norms: the first is the baseline.
        levels: the batch sizes; "" alone for that of the configuration.
        rates: learning rates, the same for every norm; empty for those around the recipe's own.
        margin: the smallest difference that matters, or `practical`.
        measure: `error` or `loss`, on test.
        looks: numbers of seeds at which the table is looked at.
        budget: minutes of one core after which no further look begins.
        words: overrides of `normexp train` that all runs share.
    """

    name: str
    norms: tuple[str, ...]
    levels: tuple[Any, ...]
    rates: tuple[float, ...]
    margin: Any
    measure: str
    looks: tuple[int, ...]
    budget: float
    words: tuple[str, ...]

    @property
    def baseline(self) -> str:
        return self.norms[0]

    @property
    def comparisons(self) -> list[Comparison]:
        """Each norm against the baseline, at each batch size."""
        return [
            Comparison(kind="different", baseline=self.baseline, margin=self.margin, arm=norm, at=level)
            for norm, level in itertools.product(self.norms[1:], self.levels)
        ]


def overrides_of(words: Sequence[str]) -> list[str]:
    """The words of `normexp train` in a command. Raises ValueError for one that the comparison chooses itself."""
    for word in words:
        key, _, value = word.partition("=")
        bare = key.lstrip("+~")
        # Also the rate of the optimizer alone: lr would move nothing.
        if bare in CHOSEN and (value or key.startswith("~")):
            other = "write norms=, seeds= or rates=, or leave it out"
            raise ValueError(f"{word}: is chosen by the comparison; {other}")
        if bare in LENGTHS and value.isdecimal() and not int(value):
            raise ValueError(f"{word}: nothing is learned; write at least {bare}=1")
    return list(words)


def design_of(options: Mapping[str, Any], words: Sequence[str], *, recipe: str, text: bool) -> Design:
    """The design of a comparison. Raises ValueError with one line for a mistake.

    Args:
        recipe: that the model trains with, unless the words name another.
        text: whether the data is a text, whose default metric is the loss.
    """
    norms, most = options["norms"], options["seeds"]
    if len(norms) < 2 or len(set(norms)) < len(norms):
        raise ValueError(
            f"norms={','.join(norms)}: name two or more different ones; the first is the baseline"
        )
    if Path(options["name"]).is_absolute() or ".." in Path(options["name"]).parts:
        raise ValueError(f"name={options['name']}: the page lies below out; set out for another place")
    for key in ("batch_sizes", "rates"):
        values = options[key] or ()
        if twice := [value for place, value in enumerate(values) if value in values[:place]]:
            shown = ",".join(f"{value:.15g}" for value in values)
            raise ValueError(f"{key}={shown}: {twice[0]:.15g} stands there twice; keep one")
    metric = options["metric"] or ("test/loss" if text else "test/error")
    own_recipe = any(word.startswith("recipe=") for word in words)
    return Design(
        name=options["name"],
        norms=tuple(norms),
        levels=tuple(options["batch_sizes"] or [""]),
        rates=tuple(sorted(options["rates"] or ())),
        margin=options["margin"],
        measure=metric.partition("/")[2],
        looks=tuple(dict.fromkeys(min(FIRST * 2**k, most) for k in range(32) if FIRST * 2 ** (k - 1) < most)),
        budget=options["budget"],
        words=tuple(words) if own_recipe else (f"recipe={recipe}", *words),
    )
