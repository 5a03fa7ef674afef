"""What a report says in words: the largest difference, where it was seen, what limits it, and its source; and what a
terminal or a notebook shows of it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from normexp.format import pluralize, printable, say
from normexp.report import tables
from normexp.report.study import Study, as_text, label, open_study
from normexp.report.tables import how_many, number
from normexp.report.tensorboard_means import FOLDER, look_at, write_mean_runs
from normexp.runs.columns import networks
from normexp.runs.summary import NEAR_CHANCE
from normexp.runs.table import FEWEST_FOR_INTERVAL, FEWEST_SEEDS, find_runs

WHERE = ("outputs=", "run_dir=", "data.root=", "hydra.")  # arguments that say where and how, but not what


def finding(study: Study, table: pd.DataFrame) -> str:
    """A few sentences that claim no more than the intervals show: the largest difference between arms, what was
    compared, and where. Fewer than five seeds rank nothing, as for the judge."""
    rows = study.differences.dropna(subset=["low"])
    if rows.empty:
        needs = "that takes two arms with equal seeds, whose results differ"
        few = of_few_seeds(study) or f"No difference between arms can be given: {needs}."
        return f"{few} {scope(study)}"
    most, count = int(rows["pairs"].max()), len(study.differences)
    few = most < FEWEST_SEEDS
    rows = rows[rows["pairs"] >= min(most, FEWEST_SEEDS)]
    clear = rows[(rows["low"] > 0) | (rows["high"] < 0)]
    seeds, what = how_many(rows["pairs"]), label(study.metric)
    many = f", corrected for {count} comparisons" if count > 1 else ""
    how = f"{tables.over_examples(study)}, 95% interval{many}"  # behind the number of seeds
    if clear.empty and not few:
        widest = number(float(np.maximum(-rows["low"], rows["high"]).max()), study)
        return (
            f"No arm differs from another in {what} beyond its interval; differences of up to {widest}{study.unit} "
            f"remain possible (paired over {seeds}{how}). {scope(study)}"
        )
    shown = rows if few else clear
    row = shown.loc[shown["difference"].abs().idxmax()]
    how = f"paired over {how_many([row['pairs']])}{how}"
    text = f"{in_a_sentence(study, row, set(table['baseline']), how)}."
    if few:
        chance = " The interval contains zero: this may be chance." if row["low"] <= 0 <= row["high"] else ""
        text = f"In these runs {text}{chance} With {seeds} no arms are ranked; {FEWEST_SEEDS} are needed."
    elif len(rows) > 1:
        others, more = pluralize(len(rows) - 1, "interval"), len(clear) - 1
        text += f" Of the other {others}, {more or 'none'} {'exclude' if more > 1 else 'excludes'} zero."
    return f"{text} {scope(study)}"


def of_few_seeds(study: Study) -> str:
    """The largest difference where no pair of arms has seeds for an interval: each seed's."""
    rows = study.differences
    rows = rows[[len(set(few)) > 1 for few in rows["few"]]]
    if rows.empty:
        return ""
    row = rows.loc[rows["difference"].abs().idxmax()]
    first, second, values = row["first"], row["second"], row["few"]
    if first == "none":
        first, second, values = second, first, [-value for value in values]
    each = " and ".join(number(value, study, signed=True) for value in values)
    return (
        f"In these runs {label(study.metric)} of {first}{study.at_level(row['level'])} minus that of {second} is"
        f" {each}{study.unit} in {pluralize(len(values), 'seed')}: fewer than {FEWEST_FOR_INTERVAL} have no interval,"
        f" and arms are ranked from {FEWEST_SEEDS} on."
    )


def in_a_sentence(study: Study, row: pd.Series, baselines: set[str], how: str) -> str:
    """A difference in words, from the side of the arm that is no baseline."""
    first, second, difference = row["first"], row["second"], row["difference"]
    low, high = (-row["high"], -row["low"]) if difference < 0 else (row["low"], row["high"])
    if first in baselines or (second not in baselines and difference < 0):
        first, second, difference = second, first, -difference
    word = "higher" if difference > 0 else "lower"
    size, *ends = (number(value, study) for value in (abs(difference), low, high))
    at = study.at_level(row["level"])
    other = "the network without a norm" if second == "none" else second
    what = label(study.metric)
    return f"{first}{at} has a {what} {size}{study.unit} {word} than {other} ({ends[0]} to {ends[1]}; {how})"


def edges(study: Study) -> Iterator[str]:
    """A sentence for each learning rate that is the best of a point and the smallest or largest tried there."""
    if not study.rate_varies:
        return
    arms_at: dict[float, list[str]] = {}
    best = study.chosen.groupby(["arm", "level"], sort=False)["lr"].first()
    for (arm, level), runs in study.summaries.groupby(["arm", "level"], sort=False):
        tried = sorted(runs["lr"].unique())
        if len(tried) > 1 and best[arm, level] in (tried[0], tried[-1]):
            arms_at.setdefault(best[arm, level], []).append(arm)
    for rate, arms in arms_at.items():
        yield f"The best learning rate of {', '.join(dict.fromkeys(arms))}, {rate:g}, lies at the edge of those tried."


def near_chance(study: Study) -> Iterator[str]:
    """A sentence for each arm with runs that learned almost nothing."""
    runs = study.chosen
    if "train/loss" not in runs:
        return
    guessed = ~runs["failed"] & (runs["train/loss"] > NEAR_CHANCE * pd.to_numeric(runs["chance_loss"]))
    for arm, count in runs[guessed].groupby("arm", sort=False).size().items():
        of = f"{count} of {pluralize((runs['arm'] == arm).sum(), 'run')} of {arm}"
        yield f"{of} {'ends' if count == 1 else 'end'} with a training loss near that of guessing."


def scope(study: Study) -> str:
    """A sentence on where the difference was seen, and that other settings were not tried."""
    rows = study.summaries
    where = f"{', '.join(networks(rows).unique())} on {', '.join(map(str, rows['data'].unique()))}"
    rate = (
        "each point at its best learning rate" if study.rate_varies
        else f"one learning rate ({rows['lr'].iloc[0]:g})" if rows["lr"].nunique() == 1 else "several learning rates"
    )  # fmt: skip
    sizes = rows["batch_size"].unique()
    size = f", batch size {sizes[0]}" if len(sizes) == 1 else ""
    return f"Seen with {where}{size}, {rate}; other settings were not tried."


def source(study: Study) -> str:
    """Command, hash of the configuration and version, for every file and once for the page."""
    command = " ".join(part for part in study.command.split(" ") if not part.startswith(WHERE))
    versions = ", ".join(sorted(study.summaries["versions.normexp"].dropna().unique()))
    return f"{command}  ·  configuration {study.digest}  ·  normexp {versions}"


def goes_with(study: Study, name: str, by: str) -> str:
    """A sentence on a value that differs between the arms or levels beside what names them."""
    values = study.summaries.groupby(by, sort=False)[name].first()
    examples = "; ".join(
        f"{'none' if value != value else as_text(value)} with {as_text(of)}"
        for of, value in list(values.items())[:4]
    )
    return f"{label(name).capitalize()} goes with {label(by)} ({examples}), so a difference may be its doing."


def cautions(study: Study) -> list[str]:
    """The limits of the comparison, one sentence each."""
    return [*limits(study), *edges(study), *near_chance(study)]


def stops_early(runs: pd.DataFrame) -> bool:
    """Whether some of these runs may end before their length."""
    return bool(runs.filter(regex=r"^early_stopping").notna().any(axis=None))


MIXED = {
    "numerics": "versions of the arithmetic",
    "execution.threads": "numbers of threads",
    "versions.torch": "versions of torch",
}


def limits(study: Study) -> Iterator[str]:
    """A sentence for each way in which runs are missing, differ in more than their arms, or failed."""
    chosen = study.chosen
    seeds = chosen.groupby(["arm", "level"])["seed"].nunique()
    if seeds.min() < FEWEST_FOR_INTERVAL:
        yield f"Some points rest on fewer than {FEWEST_FOR_INTERVAL} seeds and have no interval."
    if seeds.min() != seeds.max():
        yield f"The points rest on unequal numbers of seeds, {seeds.min()} to {seeds.max()}: runs are missing."
    if stops_early(chosen):
        steps = " to ".join(f"{end:,}" for end in sorted({chosen["steps"].min(), chosen["steps"].max()}))
        yield f"Runs may stop early, here after {steps} steps; a curve ends where its first run did."
    grid = len(study.arms) * len(study.levels)
    if empty := grid - len(seeds):
        yield f"{empty} of {grid} combinations of arm and {label(study.x)} have no run."
    for column, what in MIXED.items():
        if column in chosen and len(kinds := sorted(chosen[column].dropna().unique())) > 1:
            yield f"The runs mix {what} ({', '.join(map(as_text, kinds))}): one seed then gives other last digits."
    kinds = chosen["key"].map(lambda key: key[1]).unique()
    if len(kinds) > 1:
        yield f"The runs were computed in different ways ({'; '.join(kinds)}); only runs of one way are paired."
    for name, by in study.goes_with.items():
        yield goes_with(study, name, by)
    if failed := int(chosen["failed"].sum()):
        yield f"{pluralize(failed, 'run')} failed. Means are over the others, so they flatter the arms that fail."
    if empty := int((~np.isfinite(chosen[study.metric]) & ~chosen["failed"]).sum()):
        runs = f"{'Of the others, ' if failed else ''}{pluralize(empty, 'run')}"
        yield f"{runs} had no finite {label(study.metric)}, and no place in its means."


MOST_RUNS = 500  # that a sweep reads at its end, in about three seconds


def show_answer(study: Study, console: Console, baseline: str | None = None) -> None:
    """Print the comparison, arms by levels, and under it the report's finding and cautions."""
    table = tables.comparison(study, baseline)
    grid = Table(show_edge=False, pad_edge=False)
    for index, name in enumerate(tables.heads(study)):
        grid.add_column(Text(printable(name)), justify="right" if index else "left", no_wrap=not index)
    for arm, arm_cells in tables.cells_of(study, table).items():
        texts = (Text(tables.in_words(cell), "bold" if cell["best"] else "") for cell in arm_cells)
        grid.add_row(Text(printable(arm)), *texts)
    console.print()
    console.print(grid, highlight=False)
    for line in (tables.how_to_read(study, table), "", finding(study, table), *cautions(study)):
        console.print(printable(line), highlight=False, markup=False)


def show_folder(
    folder: Path, console: Console, *, metric: str, better: str | None, events: bool
) -> list[str]:
    """Print what the study in a folder says now, and write its means over seeds for TensorBoard there. Returns the
    lines that lead to them. Where the study is large or cannot be read as one, one line says so, and older means go,
    because they would be those of other runs. `metric` and `better` are those of `open_study`."""
    try:
        if (runs := len(find_runs(folder).finished)) > MOST_RUNS:
            raise ValueError(f"{runs:,} runs take a while to read")
        study = open_study(folder, metric, better=better)
        show_answer(study, console)
        if events and (means := write_mean_runs(study, folder)):
            return look_at(means, study)
    except (ValueError, OSError) as error:
        say(console, f"\nno table: {error}")
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
    return []
