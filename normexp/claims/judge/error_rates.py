"""The section of `docs/verdicts.md` on how often the judge errs: simulated comparisons and real ones."""

import json
from pathlib import Path
from typing import Any

from scipy import stats

from normexp.claims.judge.false_words import most_errors

CALIBRATION = Path(__file__).parents[3] / "docs" / "evidence" / "calibration.json"


def error_rates(real: list[dict[str, Any]], calibration: Path = CALIBRATION) -> str:
    """False words, power and A/A comparisons; `real` are the comparisons of `equal_arms`."""
    table = ["`python scripts/calibrate.py` has not been run: the judge's errors are not measured."]
    if calibration.exists():
        table = simulated(json.loads(calibration.read_text()))
    return "\n".join(["## How often the judge errs", "", *table, "", *of_real_runs(real)])


def simulated(found: dict[str, Any]) -> list[str]:
    """The measured table of `normexp.claims.judge.calibration`."""
    designs = list(found["shapes"][0]["false"])
    trials, bound, slow = (
        f"{found['trials']:,}",
        most_errors(found["trials"], 0.01),
        f"{found['slow_trials']:,}",
    )
    columns = [
        "effects of seeds",
        f"false words at {', '.join(designs)} (settings x seeds)",
        "least pairs",
        "least seeds in one setting alone",
        "weights of 1 / variance err in",
        f"power at {designs[0]}: effect, none",
        "pairs for a power of 50%",
    ]
    rows = [
        f"{trials} simulated claims per row (`python scripts/calibrate.py`). A word is false if it contradicts the "
        "true mean. Each row shows the worst of five questions, whose truths lie where errors are likeliest. At most "
        f"5% may be false; a one-sided binomial test at 1% allows up to {bound}. The judge does not know the shape: "
        "settings have equal weights, an interval is wider on the side of a long tail, and with fewer than 60 pairs "
        "of runs the word is inconclusive. The least numbers are the smallest with which a shape qualifies without "
        "that minimum. Power is given for an effect of practical size (a quarter fewer errors, where a twentieth "
        "matters) and for no effect (where a quarter matters). Seeds differ by a quarter, settings by a tenth.",
        "",
        f"| {' | '.join(columns)} |",
        "|---|---|--:|--:|--:|---|--:|",
    ]
    for row in found["shapes"]:
        false = ", ".join(f"{row['false'][design]:.1%}" for design in designs)
        power = ", ".join(f"{row['power'][word][designs[0]]:.0%}" for word in ("greater", "equivalent"))
        rows.append(
            f"| {row['name']} | {false} | {_at_least(row['least_pairs'])} | {_at_least(row['least_seeds_alone'])} "
            f"| {row['weights']:.0%} | {power} | {_at_least(row['pairs_for_half_power'])} |"
        )
    looks = found["looks"]
    seeds = ", ".join(map(str, looks["seeds"][:-1]))
    failing = [
        f"| {row['name']} | {row['false']:.1%} | {row['failures_found']:.0%} |" for row in found["failing"]
    ]
    sampled = [f"| {row['name']} | {row['seeds_alone']:.1%} | {row['own']:.1%} |" for row in found["designs"]]
    return [
        *rows,
        "",
        f"Judged after {seeds} and {looks['seeds'][-1]} seeds in {looks['settings']} settings until it decides, a "
        f"claim of no effect errs in {looks['false']:.1%}.",
        "",
        f"Runs of one arm fail, and both arms are equal if both trained ({slow} claims, 8 settings of 10 seeds):",
        "",
        "| failed runs | false words, given that both trained | the failures are found out |",
        "|---|--:|--:|",
        *failing,
        "",
        f"Equal arms of 5 seeds in one setting whose test set is a sample ({slow} comparisons), called different:",
        "",
        "| test set | by an interval over seeds alone | by the judge's interval |",
        "|---|--:|--:|",
        *sampled,
    ]


def _at_least(number: int | None) -> str:
    return "more than tried" if number is None else str(number)


def of_real_runs(real: list[dict[str, Any]]) -> list[str]:
    """Every A/A comparison of trained runs, and the bound on how many of them err."""
    if not real:
        return []
    errors = sum(row["different"] for row in real)
    rows = [
        "### The same arm twice",
        "",
        f"{len(real)} comparisons of runs that the claims above trained: five seeds of an arm against five other "
        f"seeds of the same arm, no margin. {errors} of {len(real)} are called different; at a true rate of 5% so "
        f"many or more have a probability of {chance(errors, len(real)):.2f}. A one-sided binomial test at 5% passes "
        f"up to {most_errors(len(real))}.",
        "",
        "| claim | arm | effect [interval] | p | called different |",
        "|---|---|---|--:|---|",
    ]
    for row in real:
        low, high = row["interval"]
        effect = f"{row['effect']:.2g} [{low:.2g}, {high:.2g}]"
        word = "**yes**" if row["different"] else "no"
        rows.append(f"| {row['claim']} | {row['arm']} | {effect} | {row['p']:.2f} | {word} |")
    return rows


def chance(errors: int, trials: int) -> float:
    """Probability of at least so many errors at a true rate of 5%."""
    return float(stats.binom.sf(errors - 1, trials, 0.05))
