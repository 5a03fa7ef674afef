"""The learning rates of a setting: each judging seed takes its own best one, so the interval contains the noise of
tuning, and the grid grows where they lie at its edge.

If two extra seeds chose the rates for all, the interval would lack that noise. Equal arms would then be called
different in 5 to 19% of comparisons instead of 5%.

At an edge are the seeds of an arm that take the lowest or the highest rate, both counted together. If they are more
than a fifth, the grid of all arms continues at each end that one of them took, by one rate. This happens twice at most,
and every registered protocol holds the rule. It sees which rate is best, and never how the arms compare.
"""

import math
from collections.abc import Callable, Sequence

import pandas as pd

from normexp.claims.spec.cell import BankCell, value_of

EDGE_SHARE = 0.2  # of the seeds; if more take an edge, the grid must be widened
MOST_WIDENINGS = 2
RATE_RULES = {
    "share of seeds at an edge above which a grid is widened": EDGE_SHARE,
    "widenings, at most": MOST_WIDENINGS,
}
LADDER = (0.1, 0.3, 1.0, 3.0, 10.0)  # times a configuration's own rate
STEPS = (1.0, 3.0)  # the learning rates in each power of ten: 0.001, 0.003, 0.01, ...
Rates = tuple[float, ...]
# Scores that may choose a rate (higher is better), each with a second score that breaks ties. For others it is
# that of `error`: of `failed` a run counts that was the best of its seed, failed or not.
SCORES: dict[str, Callable[[pd.DataFrame], tuple[pd.Series, pd.Series]]] = {
    "error": lambda runs: (runs["val_accuracy"], -runs["val_loss"]),
    "loss": lambda runs: (-runs["val_loss"], runs["val_accuracy"]),
    "steps": lambda runs: (-runs["value"], runs["val_accuracy"]),
    "fit": lambda runs: (-runs["train_loss"], runs["val_accuracy"]),
    # Of a comparison of anything, which scores its runs itself.
    "own": lambda runs: (runs["score"], runs["tie"]),
}
WIDENS_BY = {"fit": "loss"}  # registered: a loss on the training split widens the grid by validation


def rates_around(rate: float) -> Rates:
    """The rates to try where none are named, around that of the configuration."""
    return tuple(float(f"{rate * step:.2g}") for step in LADDER)


def tuned_runs(runs: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """The row of each setting, arm, level and seed at its best rate: the highest validation score of `quantity` among
    the runs that did not fail; of all, where every rate failed. A second score breaks ties, then the lower rate; a
    score that is no number comes last. Arms are in the order of their names."""
    score, tie = SCORES.get(quantity, SCORES["error"])(runs)
    order = {"failed_": runs["status"] != "completed", "score_": -score, "tie_": -tie}
    ordered = runs.assign(**order).sort_values([*order, "lr"], kind="stable")
    best = runs.loc[ordered.drop_duplicates(["setting", "arm", "level", "seed"]).index.sort_values()]
    return best.sort_values(["arm", "level"], kind="stable", key=lambda column: column.astype(str))


def at_edges(runs: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Arms and levels of one setting of which too many seeds take an edge of the rates (see the module): how many take
    the `lowest`, how many the `highest`, `of` how many. Seeds whose runs all failed take none."""
    best = tuned_runs(runs, WIDENS_BY.get(quantity, quantity))
    taken = best["lr"].where(best["status"] == "completed")
    ends = pd.DataFrame({"lowest": taken == runs["lr"].min(), "highest": taken == runs["lr"].max()})
    seeds = ends.groupby([best["arm"], best["level"]], sort=False)
    counts = seeds.sum().assign(of=seeds.size())
    return counts[counts["lowest"] + counts["highest"] > EDGE_SHARE * counts["of"]]


def widened_rates(runs: pd.DataFrame, quantity: str) -> list[float]:
    """The rates of one setting, with one more at the ends that too many seeds take, by the ratio of the last two."""
    rates = sorted(set(runs["lr"].tolist()))
    if len(rates) < 2:
        return rates
    low, high = (at_edges(runs, quantity)[["lowest", "highest"]] > 0).any()
    if low:
        rates = [rates[0] ** 2 / rates[1], *rates]
    return [*rates, rates[-1] ** 2 / rates[-2]] if high else rates


def next_rates(runs: pd.DataFrame, cell: BankCell, quantity: str) -> Rates:
    """The grid of rates that the runs of the last grid ask for; the last grid itself if it need not be wider."""
    wider = tuple(float(f"{rate:g}") for rate in widened_rates(runs, quantity))
    # Those of a drawn setting are 0.001, 0.003, 0.01, ...: 0.01, not 0.009.
    return tuple(neighbor(rate, 0) for rate in wider) if cell.draw else wider


def first_rates(cell: BankCell, overrides: Sequence[str]) -> Rates:
    """The first grid of an arm in a drawn setting: that of its norm in the pilot; for a norm that had none, that of the
    norm with whose name it begins (layernorm_detach), else the one in the middle of all. At another batch size, rates
    move with its ratio (SGD) or the root of it (AdamW), in whole steps of the grid."""
    norm = value_of("norm", overrides)
    of_norm = (rates for name, rates in cell.arm_rates.items() if f"{norm}_".startswith(f"{name}_"))
    rates = next(of_norm, cell.rates)
    arm_batch, setting_batch = value_of("batch_size", overrides), value_of("batch_size", cell.overrides)
    if not arm_batch or arm_batch == setting_batch:
        return rates
    optimizer = value_of("optimizer", cell.overrides) or cell.labels.get("optimizer", "")
    power = 1.0 if optimizer.lower() == "sgd" else 0.5
    steps = round(2 * power * math.log10(float(arm_batch) / float(setting_batch)))
    return tuple(neighbor(rate, steps) for rate in rates)


def neighbor(rate: float, steps: int) -> float:
    """The next rate of 0.001, 0.003, 0.01, 0.03, ... in this direction."""
    power, step = divmod(round(math.log10(rate) * len(STEPS)) + steps, len(STEPS))
    return float(f"{STEPS[step] * 10.0**power:g}")
