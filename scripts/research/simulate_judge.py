"""Measure how often words over drawn settings are false, where settings differ and are skewed, and how often they are
found: `python scripts/research/simulate_judge.py` writes docs/data/judge_errors.json, which docs/verdicts.md shows."""

import argparse
import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # works without installing the package

import numpy as np
from scipy import stats

from normexp.claims.evidence.settings import settings, whole
from normexp.claims.evidence.table import PLACE, kept_grid, read, runs_in
from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.estimate import median_interval, p_of_share, share_interval
from normexp.claims.judge.outcomes import Arm, Setting
from normexp.claims.judge.settings_count import FEWEST, count, number_in, word_of
from normexp.claims.pages.verdicts_page import ERRORS
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_files import load_claims
from normexp.config.folder import CONFIGS

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
DIRECTIONAL = ("supported", "refuted")
HALVES = Comparison(kind="greater", arm="a", baseline="b")  # of the seeds of one arm
SIZES = (24, 48)
SHARES = (0.6, 0.7, 0.75, 0.8, 0.9, 1.0)
# a seed's deviation in spreads of settings: between settings it is 10 to 20 times the seeds' error
NOISE = 0.1
NOISES = (0.1, 0.3, 1.0)
# False words and misses of the first judge, at 6 settings of 12 seeds: a review measured them on the code that is gone.
FIRST = {
    "normal": ("3%", "5%"),
    "exponential": ("8 to 10%", "11%"),
    "lognormal": ("13 to 16%", "16 to 18%"),
    "one in 6 differs": ("34%", "34%"),
    "one in 8 differs": ("45%", "46%"),
    "one in 10 differs": ("53%", "54%"),
}


def differing(one_in: int) -> Draw:
    """Most settings differ by a tenth; one in so many lies ten times as far."""

    def draw(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
        other = generator.random(size) < 1 / one_in
        return 0.1 * generator.normal(size=size) + other * (1.0 + 0.1 * generator.normal(size=size))

    return draw


SHAPES: dict[str, Draw] = {
    "normal": lambda generator, size: generator.normal(size=size),
    "exponential": lambda generator, size: generator.exponential(size=size),
    "lognormal": lambda generator, size: generator.lognormal(size=size),
    **{f"one in {k} differs": differing(k) for k in (6, 8, 10)},
}


@functools.cache
def facts(shape: str) -> tuple[float, float, float]:
    """(mean, half the width of the middle 68%, median) of the true effects of a population."""
    values = SHAPES[shape](np.random.default_rng(1), (1_000_000,))
    low, high = np.quantile(values, [0.16, 0.84])
    return float(values.mean()), float(high - low) / 2, float(np.median(values))


@functools.cache
def words(n: int) -> np.ndarray:
    """(n + 1,) the word for each number of settings in which a claim holds."""
    return np.array([word_of(share_interval(k, n, 0.95)) for k in range(n + 1)])


def measured(
    true: np.ndarray, noise: float, generator: np.random.Generator, *, rule: bool = True
) -> np.ndarray:
    """The measured effects of settings with two seeds; with four where the margin, 0, is within a standard error."""
    seeds = true[..., None] + noise * generator.normal(size=(*true.shape, 4))
    two, error = seeds[..., :2].mean(-1), np.abs(seeds[..., 0] - seeds[..., 1]) / 2
    return np.where((np.abs(two) <= error) & rule, seeds.mean(-1), two)


def false_words(shape: str, trials: int) -> tuple:
    """A row: the first judge's errors; how often t intervals of a mean miss it; this judge's errors where half of all
    settings lie beyond the margin; how often the interval of the median misses it."""
    generator = np.random.default_rng(0)
    mean, spread, median = facts(shape)
    row: list[str] = [shape, *FIRST[shape]]
    for n in SIZES:
        drawn = SHAPES[shape](generator, (trials, n))
        t, error = stats.t.ppf(0.975, n - 1), drawn.std(1, ddof=1) / np.sqrt(n)
        row.append(percent((np.abs(drawn.mean(1) - mean) > t * error).mean()))
        holds = (measured(drawn - median, NOISE * spread, generator) > 0).sum(1)
        row.append(percent(np.isin(words(n)[holds], DIRECTIONAL).mean()))
        ends = np.array([median_interval(sample, 0.95) for sample in drawn[: min(trials, 1000)]])
        row.append(percent(((ends[:, 0] > median) | (ends[:, 1] < median)).mean()))
    return tuple(row)


def power(share: float) -> tuple:
    """A row: how often the word is the right one, exactly, where the claim holds in this share of all settings."""
    powers = [stats.binom.pmf(np.arange(n + 1), n, share)[words(n) == "supported"].sum() for n in SIZES]
    return (percent(share, 0), *map(percent, powers))


def bias(shape: str, noise: float, trials: int) -> tuple:
    """A row: the share of measured effects beyond the margin where half of the true ones are, with two seeds, with the
    rule, and how many settings the rule asks for."""
    generator = np.random.default_rng(2)
    _, spread, median = facts(shape)
    true = SHAPES[shape](generator, (100 * trials,)) - median
    both = [measured(true, noise * spread, np.random.default_rng(3), rule=rule) for rule in (False, True)]
    return (
        shape,
        f"{noise:g}",
        *(f"{(effects > 0).mean():.3f}" for effects in both),
        percent((both[0] != both[1]).mean(), 0),
    )


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}%"


def simulate(trials: int) -> dict[str, Any]:
    """The tables as plain values."""
    columns = ["settings' effects", "first judge: false words", "its interval misses"]
    for n in SIZES:
        columns += [f"a mean of {n} misses", f"false words, {n}", f"the median's interval misses, {n}"]
    return {
        "trials": trials,
        "columns": columns,
        "rows": [false_words(shape, trials) for shape in SHAPES],
        "power_columns": ["the claim holds in", *(f"supported, {n} settings" for n in SIZES)],
        "power": [power(share) for share in SHARES],
        "bias_columns": [
            "settings' effects", "seed's deviation / spread", "two seeds", "two, or four near the margin", "four in",
        ],
        "bias": [bias(shape, noise, trials) for shape in ("normal", "exponential", "lognormal") for noise in NOISES],
    }  # fmt: skip


def equal_arms(claims: list[Claim], root: Path) -> dict[str, Any]:
    """The same arm twice: in the settings of each claim, the first half of an arm's seeds against the other half. Only
    the seeds differ, so each directional word is false."""
    rows = [count(halves, HALVES, 0.95) for halves in compared(claims, root)]
    p = [p_of_share(row["holds"], row["n"]) for row in rows]

    def expected(counts: Callable[[int, int], bool]) -> float:
        cases = ((k, row["n"]) for row in rows for k in range(row["n"] + 1) if counts(k, row["n"]))
        return float(sum(stats.binom.pmf(k, n, 0.5) for k, n in cases))

    return {
        "compared": len(rows),
        "words": sum(word_of(row["share_interval"]) in DIRECTIONAL for row in rows),
        "expected_words": expected(lambda k, n: words(n)[k] in DIRECTIONAL),
        "below_20": sum(value < 0.2 for value in p),
        "expected_20": expected(lambda k, n: p_of_share(k, n) < 0.2),
    }


def compared(claims: list[Claim], root: Path) -> Iterator[list[Setting]]:
    """The halves of each arm in each setting of each claim in which they differ: halves that are equal, or failed, have
    no direction. Runs that several claims share are compared once."""
    evidence, seen = root / PLACE, set()
    for claim in claims:
        try:
            grid = kept_grid(claim, runs_in(evidence))
            found = settings(claim, whole(claim, grid, read(evidence, grid, claim=claim.id)))
        except ValueError as error:
            print(f"{claim.id} is left out: {error}", file=sys.stderr)
            continue
        for arm in dict.fromkeys(key for setting in found for key in setting.outcomes):
            halves = [half for setting in found if number_in(half := halved(setting, arm), HALVES).number]
            values = tuple(float(v) for half in halves for v in half.outcomes["a", ""].values)
            if len(halves) >= FEWEST and values not in seen:
                seen.add(values)
                yield halves


def halved(setting: Setting, arm: Arm) -> Setting:
    """A setting in which the first half of an arm's seeds meets the other half."""
    outcomes = setting.outcomes[arm]
    half = len(outcomes.seeds) // 2
    first, second = outcomes.at(np.arange(half)), outcomes.at(np.arange(half, 2 * half))
    arms: dict[Arm, Any] = {("a", ""): first, ("b", ""): dataclasses.replace(second, seeds=first.seeds)}
    return dataclasses.replace(setting, outcomes=arms)


def main() -> None:
    """Simulate, judge equal arms, and write both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000, help="simulated claims a row")
    parser.add_argument("--out", type=Path, default=CONFIGS.parent / ERRORS)
    given = parser.parse_args()
    claims = [c for c in load_claims(CONFIGS / "claims").values() if c.settings and c.evidence == "training"]
    result = simulate(given.trials) | {"equal_arms": equal_arms(claims, CONFIGS.parent)}
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{given.out}: {given.trials} claims a row, {result['equal_arms']}")


if __name__ == "__main__":
    main()
