"""Measure the judge's errors: `python scripts/calibrate.py` writes the table that the page shows."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.false_words import (
    ARMS,
    QUESTIONS,
    false_in_one_setting,
    false_over_settings,
    false_with_looks,
    false_with_weights,
    power,
    qualifies,
)
from normexp.claims.judge.judge_settings import judge_settings
from normexp.claims.judge.known_designs import DESIGNS, called_different, failing_family
from normexp.claims.judge.settings_word import SUPPORTED, VARIES
from normexp.claims.judge.shapes import FAILING, SHAPES, Draw, spread_of
from normexp.claims.judge.voting import Rules

ALONE = (5, 8, 10, 15, 20, 30, 40, 60, 80, 100, 150, 200, 300)  # seeds of one setting
TOGETHER = (5, 6, 7, 8, 10, 12, 15)  # seeds of each of eight settings
USED = ((8, 8), (12, 5), (6, 10))  # (settings, seeds) as claims use them
POWERFUL = (8, 10, 15, 20, 30)  # seeds of each of eight settings
QUARTER = -math.log(0.75)
# An effect of practical size (a quarter fewer errors), and no effect. Seeds differ by a quarter.
PRACTICAL = {
    "greater": {
        "comparison": Comparison(kind="greater", margin=0.05, **ARMS),
        "truth": QUARTER,
        "noise": 0.25,
        "between": 0.1,
    },
    "equivalent": {
        "comparison": Comparison(kind="equivalent", margin=QUARTER, **ARMS),
        "truth": 0.0,
        "noise": 0.25,
        "between": 0.1,
    },
}


def calibrate(
    trials: int = 10_000, slow_trials: int = 1000, report: Callable[[str], None] = print
) -> dict[str, Any]:
    """The measured table as plain values. `report` gets a line for each row when it is done."""
    rows = []
    for name, draw in SHAPES.items():
        rows.append(row_of_shape(name, draw, trials))
        report(f"{name}: {rows[-1]['false']}")
    failing = []
    for name, share in FAILING.items():
        failing.append(row_of_failing(name, share, slow_trials))
        report(f"{name}: {failing[-1]}")
    designs = []
    for name, make in DESIGNS.items():
        seeds_alone, own = called_different(make, slow_trials)
        designs.append(
            {"name": name, "seeds_alone": seeds_alone, "own": own, "qualifies": qualifies(own, slow_trials)}
        )
        report(f"{name}: {designs[-1]}")
    looks = false_with_looks(SHAPES["normal"], 1.0, 8, [8, 10, 20], trials)
    return {
        "trials": trials,
        "slow_trials": slow_trials,
        "shapes": rows,
        "failing": failing,
        "designs": designs,
        "looks": {"settings": 8, "seeds": [8, 10, 20], "false": looks},
    }


def row_of_shape(name: str, draw: Draw, trials: int) -> dict[str, Any]:
    """False words and power of one shape. `false` is the judge's share of false words. The least seeds and pairs are
    measured without the judge's minimum of 60 pairs, to show why the minimum is needed."""
    spread = spread_of(draw)
    alone = {n: false_in_one_setting(draw, spread, n, trials) for n in ALONE}
    together = {8 * n: false_over_settings(draw, spread, 8, n, trials, floor=False) for n in TOGETHER}
    used = {f"{k} x {n}": false_over_settings(draw, spread, k, n, trials) for k, n in USED}
    return {
        "name": name,
        "alone": alone,
        "least_seeds_alone": least(alone, trials),
        "together": together,
        "least_pairs": least(together, trials),
        "false": used,
        "qualifies": all(qualifies(share, trials) for share in used.values()),
        "weights": false_with_weights(draw, spread, 8, 8, trials),
        "power": {
            word: {f"{k} x {n}": power(draw, spread, question, n, k, trials) for k, n in USED}
            for word, question in PRACTICAL.items()
        },
        "pairs_for_half_power": pairs_for_half_power(draw, spread, trials),
    }


def pairs_for_half_power(draw: Draw, spread: float, trials: int) -> int | None:
    """Pairs in eight settings that are enough to find the right word at least every other time, for both questions."""
    for n in POWERFUL:
        if all(power(draw, spread, question, n, 8, trials) >= 0.5 for question in PRACTICAL.values()):
            return 8 * n
    return None


def least(shares: dict[int, float], trials: int) -> int | None:
    """The smallest number that qualifies together with all larger ones; None if the largest does not."""
    found = None
    for number in sorted(shares, reverse=True):
        if not qualifies(shares[number], trials):
            break
        found = number
    return found


def row_of_failing(name: str, share: float, trials: int) -> dict[str, Any]:
    """False words about the mean, for arms that fail in part of their runs and are equal if both trained. Also how
    often the judge finds the failures, and how often it finds none when both arms fail alike."""
    generator = np.random.default_rng(0)
    found = {
        question: judged(generator, share, comparison, trials)
        for question, comparison in (("different", QUESTIONS[0][0]), ("greater", QUESTIONS[1][0]))
    }
    words = [judgement.verdict for judgements in found.values() for judgement in judgements]
    per_question = np.reshape([word in (SUPPORTED, VARIES) for word in words], (len(found), trials)).mean(1)
    false = float(per_question.max())
    unequal = float(np.mean([judgement.failures["unequal"] for judgement in found["different"]]))
    return {
        "name": name,
        "share": share,
        "false": false,
        "qualifies": qualifies(false, trials),
        "failures_found": unequal,
    }


def judged(generator: np.random.Generator, share: float, comparison: Comparison, trials: int) -> Sequence:
    """One judgment per trial, of settings in which this share of one arm's runs fails by chance."""
    rules = Rules(better="lower")
    return [judge_settings(failing_family(generator, share), [comparison], rules)[0] for _ in range(trials)]
