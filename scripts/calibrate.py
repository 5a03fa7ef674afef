"""Measure how often the judge's words are false: `python scripts/calibrate.py`; `--help` explains."""

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # works without installing the package

import numpy as np
import simulated_designs as designs

from normexp.claims.evidence.plan import Known
from normexp.claims.evidence.sources import ComputedSource
from normexp.claims.evidence.stored import PLACE, StoredEvidence
from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.outcomes import Arm, Setting
from normexp.claims.judge.several_settings import Rules, judge_settings
from normexp.claims.pages.error_rates import qualifies
from normexp.claims.pages.verdicts_page import CALIBRATION
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_files import load_claims
from normexp.cli.errors import read_options
from normexp.config.folder import CONFIGS

FEWEST = 100
HELP = f"""Measure how often the judge's words are false, and how often it finds an effect whose truth is known.

  trials=1000      simulated claims a row (10,000: some ten minutes of one core); at least {FEWEST}
  out=FILE         where the table goes (docs/evidence/calibration.json)
  equal_arms=FILE  instead, half of an arm's seeds against the other half, from the ledgers

docs/verdicts.md shows both tables (docs/evidence/equal_arms.json) when it is next written."""
ALONE = (5, 8, 10, 15, 20, 30, 40, 60, 80, 100, 150, 200, 300)  # seeds of one setting
TOGETHER = (5, 6, 7, 8, 10, 12, 15)  # seeds of each of eight settings
USED = ((8, 8), (12, 5), (6, 10))  # (settings, seeds) as claims use them
POWERFUL = (8, 10, 15, 20, 30)  # seeds of each of eight settings


def calibrate(
    trials: int = 10_000, slow_trials: int = 1000, report: Callable[[str], None] = print
) -> dict[str, Any]:
    """The measured table as plain values. `report` gets a line for each row when it is done."""

    def told(row: dict[str, Any]) -> dict[str, Any]:
        report(f"{row['name']}: {row.get('false', row)}")
        return row

    looks = [8, 10, 20]
    return {
        "trials": trials,
        "slow_trials": slow_trials,
        "shapes": [told(row_of_shape(name, draw, trials)) for name, draw in designs.SHAPES.items()],
        "failing": [
            told(row_of_failing(name, share, slow_trials)) for name, share in designs.FAILING.items()
        ],
        "designs": [told(row_of_design(name, slow_trials)) for name in designs.DESIGNS],
        "looks": {
            "settings": 8,
            "seeds": looks,
            "false": designs.false_with_looks(designs.SHAPES["normal"], 1.0, 8, looks, trials),
        },
    }


def row_of_shape(name: str, draw: designs.Draw, trials: int) -> dict[str, Any]:
    """False words and power of one shape. `false` is the judge's share of false words. The least seeds and pairs are
    measured without the judge's minimum of 60 pairs, to show why the minimum is needed. The last number is the pairs
    in eight settings that find the right word at least every other time, for both questions."""
    spread = designs.spread_of(draw)
    alone = {n: designs.false_in_one_setting(draw, spread, n, trials) for n in ALONE}
    together = {8 * n: designs.false_over_settings(draw, spread, 8, n, trials, floor=False) for n in TOGETHER}
    used = {f"{k} x {n}": designs.false_over_settings(draw, spread, k, n, trials) for k, n in USED}
    enough = (
        n
        for n in POWERFUL
        if all(designs.power(draw, spread, word, n, 8, trials) >= 0.5 for word in designs.PRACTICAL)
    )
    half = next(enough, None)
    return {
        "name": name,
        "alone": alone,
        "least_seeds_alone": least(alone, trials),
        "together": together,
        "least_pairs": least(together, trials),
        "false": used,
        "qualifies": all(qualifies(share, trials) for share in used.values()),
        "weights": designs.false_with_weights(draw, spread, 8, 8, trials),
        "power": {
            word: {f"{k} x {n}": designs.power(draw, spread, word, n, k, trials) for k, n in USED}
            for word in designs.PRACTICAL
        },
        "pairs_for_half_power": half and 8 * half,
    }


def least(shares: dict[int, float], trials: int) -> int | None:
    """The smallest number that qualifies together with all larger ones; None if the largest does not."""
    found = None
    for number in sorted(shares, reverse=True):
        if not qualifies(shares[number], trials):
            break
        found = number
    return found


def row_of_failing(name: str, share: float, trials: int) -> dict[str, Any]:
    """False words about the mean, for arms that fail in part of their runs and are equal if both trained; and how often
    the judge finds the failures."""
    generator, rules = np.random.default_rng(0), Rules(better="lower")
    different, greater = (
        [
            judge_settings(designs.failing_family(generator, share), [comparison], rules)[0]
            for _ in range(trials)
        ]
        for comparison, _ in designs.QUESTIONS[:2]
    )
    shares = [
        np.mean([own.verdict in ("supported", "varies across settings") for own in each])
        for each in (different, greater)
    ]
    found = float(np.mean([judgement.failures["unequal"] for judgement in different]))
    false = float(max(shares))
    return {
        "name": name,
        "share": share,
        "false": false,
        "qualifies": qualifies(false, trials),
        "failures_found": found,
    }


def row_of_design(name: str, trials: int) -> dict[str, Any]:
    seeds_alone, own = designs.called_different(designs.DESIGNS[name], trials)
    return {"name": name, "seeds_alone": seeds_alone, "own": own, "qualifies": qualifies(own, trials)}


def equal_arms(claims: list[Claim], root: Path) -> Iterator[dict[str, Any]]:
    """A/A comparisons: in the settings of a claim, the first half of an arm's seeds against the other half. Only the
    seed differs, so each claimed difference is an error. Runs that several claims share are compared once."""
    compared, stored = set(), StoredEvidence(root / PLACE)
    for claim in claims:
        try:
            source = Known(claim, stored, None) if claim.evidence == "training" else ComputedSource(claim)
            settings = source("", claim.settings, claim.seed_range(claim.looks[-1]))
        except ValueError as error:  # some of its runs are not in the ledgers
            print(f"{claim.id} is left out: {error}", file=sys.stderr)
            continue
        log = any(comparison.log for comparison in claim.comparisons)
        for arm in dict.fromkeys(key for setting in settings for key in setting.outcomes):
            halves = [halved(setting, arm) for setting in settings if arm in setting.outcomes]
            runs = frozenset(run for own in halves for half in own.outcomes.values() for run in half.runs)
            if runs in compared:
                continue
            compared.add(runs)
            different = Comparison(kind="different", log=log, **designs.ARMS)
            found = judge_settings(halves, [different], Rules(failed=claim.failed, better=claim.better))[0]
            if np.isfinite(found.effect):
                shown = {
                    "claim": claim.id,
                    "arm": f"{arm[0]} {arm[1]}".strip(),
                    "effect": float(f"{found.effect:.2g}"),
                }
                ends = [float(f"{end:.2g}") for end in found.interval]
                yield shown | {"interval": ends, "p": round(found.p_raw, 3), "different": found.p_raw <= 0.05}


def halved(setting: Setting, arm: Arm) -> Setting:
    """A setting in which the first half of an arm's seeds meets the other half."""
    own = setting.outcomes[arm]
    half = len(own.seeds) // 2
    first, second = own.at(np.arange(half)), own.at(np.arange(half, 2 * half))
    arms = {("a", ""): first, ("b", ""): dataclasses.replace(second, seeds=first.seeds)}
    return dataclasses.replace(setting, outcomes=arms)


def main(arguments: list[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        print(HELP)
        return 0
    start = time.perf_counter()
    try:
        options = read_options(
            arguments, {"trials": "10000", "out": str(CONFIGS.parent / CALIBRATION), "equal_arms": ""}
        )
        if not options["trials"].isdecimal() or int(options["trials"]) < FEWEST:
            raise ValueError(f"trials={options['trials']}: must be a whole number of at least {FEWEST}")
        out, trials = Path(options["equal_arms"] or options["out"]), int(options["trials"])
        out.parent.mkdir(parents=True, exist_ok=True)
        if options["equal_arms"]:
            claims = load_claims(CONFIGS / "claim").values()
            over = [claim for claim in claims if claim.settings and claim.evidence == "training"]
            rows = ",\n".join(f" {json.dumps(row)}" for row in equal_arms(over, CONFIGS.parent))
            out.write_text(f"[\n{rows}\n]\n")
        else:
            found = calibrate(trials, max(trials // 10, FEWEST), report=lambda line: print(line, flush=True))
            out.write_text(json.dumps(found, indent=1) + "\n")
    except (OSError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    print(f"{out}: {time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
