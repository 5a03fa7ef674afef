"""The section of `docs/verdicts.md` on how often the judge errs: simulated comparisons and real ones."""

from typing import Any

from scipy import stats

from normexp.claims.judge import calibration

TRIALS, TRIALS_BOOTSTRAP = 20_000, 500
SHAPES = {
    "normal": "normal",
    "t3": "heavy-tailed (t, 3 degrees of freedom)",
    "accuracy": "accuracies near 95% on 360 images",
    "accuracy99": "accuracies near 99% on 360 images",
}


def error_rates(real: list[dict[str, Any]]) -> str:
    """A/A comparisons, coverage and power; `real` are the comparisons of `equal_arms`."""
    return "\n".join(["## How often the judge errs", "", *simulated(), "", *power(), "", *of_real_runs(real)])


def simulated() -> list[str]:
    rows = [
        f"{TRIALS:,} simulated A/A comparisons each (the bootstrap {TRIALS_BOOTSTRAP}): paired effects whose true mean "
        "is 0, no margin. p is the one-sided binomial probability of so many errors or more at a true rate of 5%.",
        "",
        "| values | seeds | called different | p | t interval covers (95%) | percentile bootstrap covers |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for shape, name in SHAPES.items():
        for seeds in (5, 8, 20):
            error = calibration.claimed(shape, seeds, margin=0.0, trials=TRIALS)
            t = calibration.coverage(shape, seeds, "t", TRIALS)
            boot = calibration.coverage(shape, seeds, "percentile", TRIALS_BOOTSTRAP)
            p = chance(round(error * TRIALS), TRIALS)
            rows.append(f"| {name} | {seeds} | {error:.2%} | {p:.2f} | {t:.1%} | {boot:.1%} |")
    looks = calibration.claimed_with_looks([5, 10, 20], TRIALS)
    p = chance(round(looks * TRIALS), TRIALS)
    margin = calibration.claimed("accuracy99", 8, margin=0.1, trials=TRIALS)
    return [
        *rows,
        "",
        f"Judged after 5, 10 and 20 seeds until it decides, an A/A comparison errs in {looks:.2%} (p {p:.2f}). "
        "Accuracies are multiples of 1/360, which matters little: with a margin of a tenth of a deviation, less than "
        f"claims about accuracy have, 8 accuracies near 99% err in {margin:.2%}. A bootstrap of few seeds promises "
        "95% and covers less, hence the t interval.",
    ]


def power() -> list[str]:
    rows = ["| planted effect (deviations) | power at 5 seeds | at 8 | at 20 |", "|--:|--:|--:|--:|"]
    for shift in (0.5, 1.0, 2.0):
        powers = [calibration.claimed("normal", seeds, margin=0.0, shift=shift) for seeds in (5, 8, 20)]
        rows.append(f"| {shift:g} | " + " | ".join(f"{power:.0%}" for power in powers) + " |")
    return rows


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


def most_errors(trials: int) -> int:
    """The most errors that a one-sided binomial test at 5% lets pass at a true rate of 5%: 4 of 40."""
    return int(stats.binom.isf(0.05, trials, 0.05))


def chance(errors: int, trials: int) -> float:
    """P(at least so many errors) at a true rate of 5%."""
    return float(stats.binom.sf(errors - 1, trials, 0.05))
