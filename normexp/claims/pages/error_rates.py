"""The section of `docs/verdicts.md` on how often the judge errs: simulated comparisons and real ones."""

import json
from pathlib import Path
from typing import Any

from scipy import stats

from normexp.claims.pages import markdown_table

CALIBRATION = Path(__file__).parents[3] / "docs" / "evidence" / "calibration.json"


def most_errors(trials: int, level: float = 0.05) -> int:
    """The most errors that a one-sided binomial test allows at a true rate of 5%: 4 of 40."""
    return int(stats.binom.isf(level, trials, 0.05))


def qualifies(share: float, trials: int) -> bool:
    """Whether this share of false words is consistent with at most 5%, by a test at 1%, as many shares are tested."""
    return round(share * trials) <= most_errors(trials, 0.01)


def error_rates(real: list[dict[str, Any]], calibration: Path = CALIBRATION) -> str:
    """False words, power and A/A comparisons, as measured by `scripts/calibrate.py`; `real` are comparisons of trained
    arms with themselves."""
    text = "`python scripts/calibrate.py` has not been run: the judge's errors are not measured."
    if calibration.exists():
        text = simulated(json.loads(calibration.read_text()))
    return "\n\n".join(["## How often the judge errs", text, *of_real_runs(real)])


def simulated(found: dict[str, Any]) -> str:
    """The measured table."""
    designs, looks = list(found["shapes"][0]["false"]), found["looks"]
    slow, seeds = f"{found['slow_trials']:,}", ", ".join(map(str, looks["seeds"][:-1]))
    shapes = [
        (
            row["name"],
            ", ".join(f"{row['false'][design]:.1%}" for design in designs),
            _at_least(row["least_pairs"]),
            _at_least(row["least_seeds_alone"]),
            f"{row['weights']:.0%}",
            ", ".join(f"{row['power'][word][designs[0]]:.0%}" for word in ("greater", "equivalent")),
            _at_least(row["pairs_for_half_power"]),
        )
        for row in found["shapes"]
    ]
    return "\n\n".join(
        [
            f"{found['trials']:,} simulated claims per row (`python scripts/calibrate.py`). A word is false if it "
            "contradicts the true mean. Each row shows the worst of five questions, whose truths lie where errors are "
            "likeliest. At most 5% may be false; a one-sided binomial test at 1% allows up to "
            f"{most_errors(found['trials'], 0.01)}. The judge does not know the shape: settings have equal weights, an "
            "interval is wider on the side of a long tail, and with fewer than 60 pairs of runs the word is "
            "inconclusive. The least numbers are the smallest with which a shape qualifies without that minimum. Power "
            "is given for an effect of practical size (a quarter fewer errors, where a twentieth matters) and for no "
            "effect (where a quarter matters). Seeds differ by a quarter, settings by a tenth.",
            markdown_table(
                (
                    "effects of seeds",
                    f"false words at {', '.join(designs)} (settings x seeds)",
                    "least pairs",
                    "least seeds in one setting alone",
                    "weights of 1 / variance err in",
                    f"power at {designs[0]}: effect, none",
                    "pairs for a power of 50%",
                ),
                shapes,
                numbers=(2, 3, 4, 6),
            ),
            f"Judged after {seeds} and {looks['seeds'][-1]} seeds in {looks['settings']} settings until it decides, a "
            f"claim of no effect errs in {looks['false']:.1%}.",
            f"Runs of one arm fail, and both arms are equal if both trained ({slow} claims, 8 settings of 10 seeds):",
            markdown_table(
                ("failed runs", "false words, given that both trained", "the failures are found out"),
                [
                    (row["name"], f"{row['false']:.1%}", f"{row['failures_found']:.0%}")
                    for row in found["failing"]
                ],
                numbers=(1, 2),
            ),
            f"Equal arms of 5 seeds in one setting whose test set is a sample ({slow} comparisons), called different:",
            markdown_table(
                ("test set", "by an interval over seeds alone", "by the judge's interval"),
                [(row["name"], f"{row['seeds_alone']:.1%}", f"{row['own']:.1%}") for row in found["designs"]],
                numbers=(1, 2),
            ),
        ]
    )


def _at_least(number: int | None) -> str:
    return "more than tried" if number is None else str(number)


def of_real_runs(real: list[dict[str, Any]]) -> list[str]:
    """Every A/A comparison of trained runs, and the bound on how many of them err."""
    if not real:
        return []
    errors, trials = sum(row["different"] for row in real), len(real)
    return [
        "### The same arm twice",
        f"{trials} comparisons of runs in the ledgers (`python scripts/calibrate.py equal_arms=FILE`): in the settings "
        "of a claim, the first half of an arm's seeds against the other half, no margin. The mean over settings is "
        f"called different at p of at most 5%, whatever the number of pairs. {errors} of {trials} are; at a true rate "
        f"of 5% so many or more have a probability of {chance(errors, trials):.2f}. A one-sided binomial test at 5% "
        f"passes up to {most_errors(trials)}.",
        markdown_table(
            ("claim", "arm", "effect [interval]", "p", "called different"),
            [
                (
                    row["claim"],
                    row["arm"],
                    "{:.2g} [{:.2g}, {:.2g}]".format(row["effect"], *row["interval"]),
                    f"{row['p']:.2f}",
                    "**yes**" if row["different"] else "no",
                )
                for row in real
            ],
            numbers=(3,),
        ),
    ]


def chance(errors: int, trials: int) -> float:
    """Probability of at least so many errors at a true rate of 5%."""
    return float(stats.binom.sf(errors - 1, trials, 0.05))
