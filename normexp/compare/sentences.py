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
    return [*counted, *(sentence(own, look.design) for own in shown)]


def headline(look: Look) -> str:
    """The first sentence of a page: of several differences the words alone, as the table has their numbers."""
    design = look.design
    if len(look.differences) <= 2:
        return " ".join(finding(look))
    words = [f"{own.arm.name} {VERBS[own.word].format(design.baseline)}" for own in look.differences]
    return " ".join(in_settings(look)) or f"{'; '.join(words)}."


def sentence(own: Difference, design: Design) -> str:
    """One difference: effect with interval, word, and of what is not decided, why and how many seeds would do it."""
    metric, where = design.metric, own.arm.name
    unit = f" {metric.unit}" if metric.unit else ""
    effect = f"{metric.name} {metric.show(own.effect, sign=True)}{unit}"
    if own.seeds == 1 and own.word == OPEN:
        few = "Two numbers decide" if own.arm.runs == own.baseline.runs == 1 else "One run of an arm decides"
        need = more_seeds(own, design) if own.spread else "how many seeds would, spread=VALUE says"
        return f"{few} nothing: {where} minus {design.baseline}, {effect}; {need}."
    if math.isfinite(own.interval[0]):
        effect += f" ({metric.range(own.interval, sign=True)})"
    seeds = (
        pluralize(own.seeds, "pair") if own.paired else f"{pluralize(own.seeds, 'run')} an arm, not paired"
    )
    more = [in_steps(own, design)] if own.steps else []
    more += [why_open(own, design)] if own.word == OPEN else []
    return "; ".join([f"{where} {VERBS[own.word].format(design.baseline)}: {effect}, {seeds}", *more]) + "."


def in_steps(own: Difference, design: Design) -> str:
    """How many steps fewer or more an arm takes to an equal value."""
    ratio, (low, high) = own.steps or (1.0, (1.0, 1.0))
    fewer = ratio < 1

    values = (1 - ratio, 1 - high, 1 - low) if fewer else (ratio - 1, low - 1, high - 1)
    size, *ends = (f"{round(100 * value)}%".replace("-", "−") for value in values)
    return f"it reaches an equal {design.curve} in {size} {'fewer' if fewer else 'more'} steps ({' to '.join(ends)})"


def why_open(own: Difference, design: Design) -> str:
    """Why a difference is not decided, and how many more seeds would probably decide it."""
    (low, high), margin, show = own.interval, own.margin, design.metric.show
    if math.isnan(own.effect):
        return "no pair of runs has a number"
    if own.seeds < FEWEST_FOR_INTERVAL:
        why = f"{own.seeds} decide nothing"
    elif not math.isfinite(low):
        equal = "all differences of pairs are equal" if own.paired else "its seeds do not differ"
        why = f"{equal}, so they give no interval"
    elif own.seeds < FEWEST_SEEDS:
        why = f"fewer than {FEWEST_SEEDS} seeds have no word"
    elif any(low < end < high for end in (-margin, margin)):
        why = f"the interval crosses the margin of ±{show(margin)}" if margin else "the interval contains 0"
    else:
        why = "the interval would decide it alone, but not beside the other comparisons"
    known = own.assumed and own.seeds >= FEWEST_FOR_INTERVAL  # more such runs give no interval either
    return f"{why}; {more_seeds(own, design)}" if own.spread and not known else why


def more_seeds(own: Difference, design: Design) -> str:
    """How many more seeds would decide at this effect and spread, and where the spread is from."""
    of_pairs = own.paired and not own.assumed
    spread = design.metric.show(own.spread if of_pairs else own.spread / math.sqrt(2))
    what = f"if {'the differences of pairs' if of_pairs else 'the runs of an arm'} spread by {spread}"
    if own.assumed:
        what += f" (assumed{'' if design.spread else ': the margin'}; spread=VALUE)"
    if own.more is None:
        return f"{what}, no {MOST:,} seeds decide it: the effect lies at the margin"
    if own.seeds < FEWEST_FOR_INTERVAL:
        return f"{what}, it takes {own.seeds + own.more} seeds an arm to decide this"
    return f"{what}, {own.more} more an arm would decide it"


def in_settings(look: Look) -> list[str]:
    """In how many hand-picked settings each norm is better; no word, as of every hand-picked list."""
    design = look.design
    if design.of_sizes or len(design.levels) < 2:
        return []
    lines = []
    for norm in design.norms[1:]:
        rows = [own for own in look.differences if own.arm.norm == norm]
        known = [own for own in rows if not math.isnan(own.effect)]
        sides = [word_of(own.effect, own.margin, higher=design.metric.higher) for own in known]
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
        f"{arm.runs - own.seeds} of {arm.runs} with {arm.name}"
        for own in look.differences
        for arm in (own.baseline, own.arm)
        if own.paired and arm.runs > own.seeds
    ]
    return f"without a partner or a number: {', '.join(dict.fromkeys(counts))}" if counts else ""
