"""A look in English: a sentence for each difference, and what failed."""

import math

from normexp.compare.effect import MOST
from normexp.compare.judged import BETTER, EQUAL, OPEN, WORSE, Design, Difference, Look, word_of
from normexp.format import pluralize
from normexp.runs.table import FEWEST_FOR_INTERVAL, FEWEST_SEEDS

VERBS = {
    BETTER: "is better than {}",
    WORSE: "is worse than {}",
    EQUAL: "equals {} within the margin",
    OPEN: "is not decided against {}",
}
MOST_SHOWN = 12  # differences of several settings; the table has all


def finding(look: Look) -> list[str]:
    """The result, a sentence for each difference; over several settings first in how many."""
    counted = in_settings(look)
    shown = [] if counted and len(look.differences) > MOST_SHOWN else look.differences
    return [*counted, *(sentence(diff, look.design) for diff in shown)]


def headline(look: Look) -> str:
    """The first sentence of a page: of several differences the words alone, as the table has their numbers."""
    design = look.design
    if len(look.differences) <= 2:
        return " ".join(finding(look))
    decisions = [f"{diff.arm.name} {VERBS[diff.word].format(design.baseline)}" for diff in look.differences]
    return " ".join(in_settings(look)) or f"{'; '.join(decisions)}."


def sentence(diff: Difference, design: Design) -> str:
    """One difference: effect with interval, word, and of what is not decided, why and how many seeds would do it."""
    metric, arm = design.metric, diff.arm
    unit = f" {metric.unit}" if metric.unit else ""
    effect = f"{metric.name} {metric.show(diff.effect, sign=True)}{unit}"
    if diff.seeds == 1 and diff.word == OPEN:
        few = "Two numbers decide" if arm.runs == diff.baseline.runs == 1 else "One run of an arm decides"
        need = more_seeds(diff, design) if diff.spread else "how many seeds would, spread=VALUE says"
        return f"{few} nothing: {arm.name} minus {design.baseline}, {effect}; {need}."
    if math.isfinite(diff.interval[0]):
        effect += f" ({metric.range(diff.interval, sign=True)})"
    seeds = (
        pluralize(diff.seeds, "pair") if diff.paired else f"{pluralize(diff.seeds, 'run')} an arm, not paired"
    )
    more = [in_steps(diff, design)] if diff.steps else []
    more += [why_open(diff, design)] if diff.word == OPEN else []
    decision = f"{arm.name} {VERBS[diff.word].format(design.baseline)}: {effect}, {seeds}"
    return "; ".join([decision, *more]) + "."


def in_steps(diff: Difference, design: Design) -> str:
    """How many steps fewer or more an arm takes to an equal value."""
    ratio, (low, high) = diff.steps or (1.0, (1.0, 1.0))
    fewer = ratio < 1

    values = (1 - ratio, 1 - high, 1 - low) if fewer else (ratio - 1, low - 1, high - 1)
    size, *ends = (f"{round(100 * value)}%".replace("-", "−") for value in values)
    return f"it reaches an equal {design.curve} in {size} {'fewer' if fewer else 'more'} steps ({' to '.join(ends)})"


def why_open(diff: Difference, design: Design) -> str:
    """Why a difference is not decided, and how many more seeds would probably decide it."""
    (low, high), margin, show = diff.interval, diff.margin, design.metric.show
    if math.isnan(diff.effect):
        return "no pair of runs has a number"
    if diff.seeds < FEWEST_FOR_INTERVAL:
        why = f"{diff.seeds} decide nothing"
    elif not math.isfinite(low):
        equal = "all differences of pairs are equal" if diff.paired else "its seeds do not differ"
        why = f"{equal}, so they give no interval"
    elif diff.seeds < FEWEST_SEEDS:
        why = f"fewer than {FEWEST_SEEDS} seeds have no word"
    elif any(low < end < high for end in (-margin, margin)):
        why = f"the interval crosses the margin of ±{show(margin)}" if margin else "the interval contains 0"
    else:
        why = "the interval would decide it alone, but not beside the other comparisons"
    known = diff.assumed and diff.seeds >= FEWEST_FOR_INTERVAL  # more such runs give no interval either
    return f"{why}; {more_seeds(diff, design)}" if diff.spread and not known else why


def more_seeds(diff: Difference, design: Design) -> str:
    """How many more seeds would decide at this effect and spread, and where the spread is from."""
    of_pairs = diff.paired and not diff.assumed
    spread = design.metric.show(diff.spread if of_pairs else diff.spread / math.sqrt(2))
    what = f"if {'the differences of pairs' if of_pairs else 'the runs of an arm'} spread by {spread}"
    if diff.assumed:
        what += f" (assumed{'' if design.spread else ': the margin'}; spread=VALUE)"
    if diff.more is None:
        return f"{what}, no {MOST:,} seeds decide it: the effect lies at the margin"
    if diff.seeds < FEWEST_FOR_INTERVAL:
        return f"{what}, it takes {diff.seeds + diff.more} seeds an arm to decide this"
    return f"{what}, {diff.more} more an arm would decide it"


def in_settings(look: Look) -> list[str]:
    """In how many hand-picked settings each norm is better; no word, as of every hand-picked list."""
    design = look.design
    if design.of_sizes or len(design.levels) < 2:
        return []
    lines = []
    for norm in design.norms[1:]:
        rows = [diff for diff in look.differences if diff.arm.norm == norm]
        known = [diff for diff in rows if not math.isnan(diff.effect)]
        sides = [word_of(diff.effect, diff.margin, higher=design.metric.higher) for diff in known]
        better, within, worse = map(sides.count, (BETTER, EQUAL, WORSE))
        lines.append(
            f"{norm} is better than {design.baseline} by more than the margin in {better} of {len(rows)} hand-picked"
            f" settings, within it in {within}, worse in {worse} (counted: hand-picked settings have no word)."
        )
    return lines


def failed_runs(look: Look) -> str:
    """How many runs of each arm failed, and what they count as; empty if none did."""
    if not any(arm.failed for arm in look.arms):
        return ""
    counts = []
    for norm in look.design.norms:
        arms = [arm for arm in look.arms if arm.norm == norm]
        counts.append(f"{sum(arm.failed for arm in arms)} of {sum(arm.runs for arm in arms)} with {norm}")
    how = "each counts" if look.guess is not None else "left out; guess=VALUE counts each"
    return f"failed runs: {', '.join(counts)} ({how} as a guess)"


def partners(look: Look) -> str:
    """How many runs of each arm had no partner; empty if all had."""
    counts = [
        f"{arm.runs - diff.seeds} of {arm.runs} with {arm.name}"
        for diff in look.differences
        for arm in (diff.baseline, diff.arm)
        if diff.paired and arm.runs > diff.seeds
    ]
    return f"without a partner or a number: {', '.join(dict.fromkeys(counts))}" if counts else ""
