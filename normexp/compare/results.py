"""`normexp.compare(table, arm="norm", value="mAP", margin=0.3)`: an answer about results that exist."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, Field

from normexp.compare.answer import Answer
from normexp.compare.columns import STATE_KEYS, column, is_metric, labels, matching, numbers, states, stripped
from normexp.compare.judged import RUN, Design, Metric, guess_of, look, metric_of
from normexp.compare.read import in_hand, opened, typed
from normexp.config.errors import checked
from normexp.format import pluralize
from normexp.runs.metrics import HIGHER, LOWER, higher_is_better, last_word

SHARES = {*HIGHER, "error", "err", "wer", "cer"} - {"psnr", "elo", "reward", "return", "r2"}
HUGE = 1e150  # its square is no number
SHARED = ("batch_size", "lr", "numerics")  # of all arms, or a difference may be that of these
LARGE = 0.1  # a margin between shares that is more often meant in points
Size = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Asked(BaseModel):
    """The values that arguments of `compare` can have."""

    arm: str | None
    value: str | None
    seed: str | None
    setting: str | None
    tune: str | None
    better: Literal["higher", "lower"] | None
    margin: Size | Literal["practical"] | None
    guess: Annotated[float, Field(allow_inf_nan=False)] | None
    spread: Size
    paired: bool
    looks: Annotated[int, Field(ge=1)]
    arms: tuple[Any, ...]


def compare(
    data: Any,
    *,
    arm: str | None = None,
    value: str | None = None,
    seed: str | None = None,
    setting: str | None = None,
    better: str | None = None,
    margin: float | str | None = None,
    arms: Sequence[str] = (),
    tune: str | None = None,
    guess: float | None = None,
    per_example: Any = None,
    spread: float = 0.0,
    paired: bool = True,
    looks: int = 1,
    name: str = "",
) -> Answer:
    """Judge results that exist: the difference of each arm to the first, with interval and word.

    Args:
        data: a DataFrame with a row for each run; a csv, parquet or json file; an export of W&B or MLflow; a folder of
            runs of normexp, or of TensorBoard, whose names say arm and seed; or {arm: values}.
        arm: the column of what is compared; else `arm` or `norm`.
        value: the column of the metric.
        seed: the column that pairs runs; else `seed`, if there is one.
        setting: columns, with commas, that tell settings apart, such as a data set.
        better: higher or lower; else as the name of the metric says.
        margin: the smallest difference that matters, in the unit of the values.
        arms: those that are compared, the baseline first; else all, `none` first.
        tune: a column of validation by which each arm and seed takes its best run.
        guess: what a run that learned nothing counts as; else failed runs are left out and counted.
        per_example: a table of single test examples with the columns of arm, seed and value, and `example`.
        spread: standard deviation over seeds of one arm, where too few runs say it; else the margin.
        paired: whether equal seeds pair.
        looks: how often you will look: 2 if you add seeds once. They share an error rate of 5%.
        name: the title of the page.

    Raises ValueError with one line for what cannot be used.
    """
    asked = checked(Asked, {key: given for key, given in locals().items() if key in Asked.model_fields})
    margin, guess, paired = asked.margin, asked.guess, asked.paired  # also of texts and numpy's numbers
    spread, looks = asked.spread, asked.looks
    if isinstance(data, (dict, list, tuple)):
        if not (value or better):
            raise ValueError(
                "value: which way are these numbers better? Name them, value=accuracy, or write better=higher or"
                " better=lower"
            )
        data = in_hand([*data.items()] if isinstance(data, dict) else typed(data), value or "value")
    table, curves, notes = opened(data, value)
    if value and not arm:
        others = {seed or usual(table, "seed"), *(setting or "").split(","), *STATE_KEYS}
        table, arms_note = one_row_a_run(table, value, others)
        notes += arms_note
    if not (arm := arm or usual(table, "arm", "norm")):
        offered = ", ".join(map(str, table.columns[:12]))
        raise ValueError(
            f"arm: no column is called arm or norm; write arm=NAME, one of {offered}, or value=METRIC where each column"
            " is an arm"
        )
    arm = column(table, arm, "arm")
    settings = [column(table, part, "setting") for part in (setting or "").split(",") if part]
    seed = column(table, seed, "seed") if seed else usual(table, "seed")
    value, table = value_of(table, value, {arm, seed, setting})
    roles = [arm, value, *settings, *([seed] if seed else [])]
    if twice := [role for index, role in enumerate(roles) if role in roles[:index]]:
        raise ValueError(f"{twice[0]}: is one column; name another for each of arm, value, seed and setting")
    metric = metric_of(value, better, margin)
    if guess is None and metric.measure != "value" and "chance_loss" in table:  # of runs of normexp
        guess = float(guess_of(metric, table["chance_loss"].max()))
    (failed, running), nameless = states(table), stripped(table[arm]).eq("").to_numpy(bool)
    for what, left_out in {"not finished": running, f"with an empty {arm}": nameless}.items():
        notes += [f"left out: {pluralize(int(left_out.sum()), 'run')} {what}"] if left_out.any() else []
    table, failed = table[~running & ~nameless], failed[~running & ~nameless]
    values = numbers(table[value], value)
    runs = pd.DataFrame(
        {"arm": stripped(table[arm]), "value": values, "failed": failed | ~np.isfinite(values)}
    )
    names = named_arms(runs, [*map(str, arms)], int(nameless.sum()))
    kept = runs["arm"].isin(names)
    runs, table = runs[kept], table[kept]
    seed = None if seed and table[seed].isna().all() else seed
    for argument, key in (("seed", seed), *(("setting", key) for key in settings)):
        if key and (lacking := int(table[key].isna().sum())):
            raise ValueError(f"{argument}={key}: {pluralize(lacking, 'run')} without one; write it for each")
    runs["level"] = labels(table, settings)
    runs["seed"] = labels(table, [seed]) if seed else runs.groupby(["arm", "level"]).cumcount().astype(str)
    if tune:
        runs, passed = tuned(runs, table, tune, metric)
        notes += passed
    check_runs(runs, table, metric, names)
    if per_example is not None:
        single = examples(per_example, runs, arm, value, seed, settings)
        runs["examples"] = pd.Series(single, runs.index, dtype=object)
    if curves:
        signs = [1, -1 if metric.higher else 1]  # the lower the better
        runs["curve"] = pd.Series({index: curve * signs for index, curve in curves.items()}, dtype=object)
    few = int(runs.groupby(["arm", "level"]).size().min())
    design = Design(
        name=name or (Path(data).stem if isinstance(data, (str, Path)) else "results"), norms=names, metric=metric,
        margin="practical" if margin is None else margin, looks=(few,) * looks,
        levels=tuple(dict.fromkeys(runs["level"])), level_name=setting or "batch size", paired=paired and bool(seed),
        spread=spread, curve=value,
    )  # fmt: skip
    for other in [col for name in SHARED for col in matching(table, name) if col not in roles and not tune]:
        if labels(table, [other]).groupby(runs["arm"]).agg(frozenset).nunique() > 1:
            notes += [f"arms differ in {other}, too"]
    present = {*zip(runs["arm"], runs["level"], strict=True)}
    if absent := [design.named(*cell) for cell in product(names, design.levels) if cell not in present]:
        notes += [f"no run, so not compared: {', '.join(absent)}"]
    shares = last_word(value) in SHARES and runs["value"].max() <= 1
    if shares and isinstance(margin, (int, float)) and margin > LARGE:
        notes += [f"margin={margin:g} is {100 * margin:g} points, as {value} is a share"]
    notes += [] if seed or table.shape[1] == 2 else ["not paired: no column says the seeds"]
    judged = look(runs, design, guess)
    if spread and (known := [diff.arm.name for diff in judged.differences if not diff.assumed]):
        notes += [f"spread={spread:g} is not used for {', '.join(known)}: the runs say it themselves"]
    return Answer(judged, runs, notes)


def usual(table: pd.DataFrame, *names: str) -> str | None:
    """The column of the first of these names that the table has once."""
    return next((found[0] for name in names if len(found := matching(table, name)) == 1), None)


def one_row_a_run(table: pd.DataFrame, value: str, others: set[str | None]) -> tuple[pd.DataFrame, list[str]]:
    """A table that has a column of numbers for each arm, `seed,none,batchnorm`, with a row for each run; else as it
    is. With notes that say so."""
    arms = [name for name in map(str, table.columns) if name not in others and is_metric(name)]
    if usual(table, "arm", "norm", value) or len(table[arms].select_dtypes("number").columns) < max(
        len(arms), 2
    ):
        return table, []
    runs = table.melt([name for name in table.columns if name not in arms], arms, "arm", value)
    return runs, [f"each column is an arm: {', '.join(arms)}"]


def value_of(table: pd.DataFrame, value: str | None, others: set[str | None]) -> tuple[str, pd.DataFrame]:
    """(the column of the metric, the table, which has it). `test/error` is made of `test/accuracy`."""
    if value is None:
        filled = table.select_dtypes("number").dropna(axis=1, how="all")
        known = [name for name in filled if name not in others and str(name).lower() not in STATE_KEYS]
        known = [name for name in known if is_metric(str(name))] or known
        value = "test/error" if "test/accuracy" in known else str(known[0]) if len(known) == 1 else None
    if value is None:
        raise ValueError(
            f"value: name the column of the metric; choose from {', '.join(map(str, (known or [*table])[:12]))}"
        )
    if value not in table and (accuracy := value.replace("error", "accuracy")) in table:
        table = table.assign(**{value: 1 - numbers(table[accuracy], accuracy)})
        if (table[value] < 0).any():
            raise ValueError(f"value={value}: {accuracy} is in percent; compare it itself, value={accuracy}")
    return column(table, value, "value"), table


def tuned(
    runs: pd.DataFrame, table: pd.DataFrame, tune: str, metric: Metric
) -> tuple[pd.DataFrame, list[str]]:
    """(the best run of each arm and seed by a column of validation, of those that did not fail, and what is to be said
    of that). Raises ValueError where that column has no number."""
    name = column(table, tune, "tune")
    higher = higher_is_better(name) if last_word(name) in LOWER | HIGHER else metric.higher
    values = numbers(table[name], name)
    ordered = runs.assign(tune=-values if higher else values).sort_values(["failed", "tune"], kind="stable")
    best = ordered.drop_duplicates(RUN).sort_index()
    if len(lacking := best[best["tune"].isna() & ~best["failed"]]):
        first = lacking.iloc[0]
        raise ValueError(f"tune={name}: no run of arm={first['arm']} seed={first['seed']} has a number there")
    notes = [f"tune={name}: is what is judged, so the best of several draws counts"] * (name == metric.name)
    if count := int((ordered["tune"].isna() & ~ordered["failed"]).sum()):
        notes += [f"passed over: {pluralize(count, 'run')} without a number of {name}"]
    return best.drop(columns="tune"), notes


def named_arms(runs: pd.DataFrame, asked: Sequence[str], nameless: int) -> tuple[str, ...]:
    """The arms, the baseline first. Raises ValueError for one without a run, and if there are fewer than two."""
    found = list(dict.fromkeys(runs["arm"]))
    if lacking := [arm for arm in asked if arm not in found]:
        raise ValueError(f"arms={lacking[0]}: no run has it; choose from {', '.join(found) or 'none'}")
    arms = list(asked) or sorted(found, key=lambda arm: arm.lower() != "none")
    if len(set(arms)) < len(arms):
        raise ValueError(f"arms={','.join(arms)}: one stands twice; name each once")
    if len(arms) < 2:
        alone = [f"{arms[0]} alone"] if arms else []
        empty = [f"{pluralize(nameless, 'run')} whose arm is empty"] if nameless else []
        raise ValueError(
            f"arm: {', beside '.join(alone + empty) or 'no run'}; two or more are compared, name their column"
        )
    return tuple(arms)


def check_runs(runs: pd.DataFrame, table: pd.DataFrame, metric: Metric, arms: Sequence[str]) -> None:
    """Raise ValueError with one line for runs that no table of seeds can hold, or that lie in different units."""
    for (arm, _, seed), rows in runs[runs.duplicated(RUN, keep=False)].groupby(RUN):
        texts, repeated = table.astype(str), table.loc[rows.index].astype(str)
        differing = [name for name in repeated if repeated[name].nunique() > 1]
        differing.sort(key=lambda name: texts[name].nunique())  # no names of runs first
        which = ", ".join(map(str, differing[:4])) or "no column"
        remedy = (
            "keep the last row of each run"  # of a curve
            if {"step", "epoch"} & {str(name).lower() for name in differing}
            else "write setting=COLUMN, tune=COLUMN of validation to take the best, or a seed of each run's own"
        )
        raise ValueError(f"arm={arm} seed={seed}: {len(rows)} runs, which differ in {which}; {remedy}")
    for arm in arms:
        if runs.loc[runs["arm"] == arm, "value"].isna().all():
            raise ValueError(
                f"arm={arm}: none of its runs has a value of {metric.name}; if it has another name there, rename it"
            )
    ended = runs[~runs["failed"]]
    if (most := ended["value"].abs().max()) > HUGE:
        raise ValueError(f"value={metric.name}: {most:g} is too large; leave the value of a failed run empty")
    if metric.measure == "error" and ended["value"].max() > 1:
        raise ValueError(
            f"value={metric.name}: practice knows shares of wrong answers, up to 1; write margin=NUMBER"
        )
    if last_word(metric.name) in SHARES:
        if (least := ended["value"].min()) < 0:
            raise ValueError(
                f"value={metric.name}: {least:g} is below 0; leave the value of a failed run empty"
            )
        for _, rows in ended.groupby("level"):
            check_units(rows["value"].to_numpy(), metric)


def check_units(values: np.ndarray, metric: Metric) -> None:
    """Raise ValueError for a share whose percent lies near the percents beside it, as .783 beside 78.2: a percent that
    is as small stays one, .8 beside 25, and an error of .98 beside one of 90."""
    most = 1.0 if metric.higher else 0.5
    shares, percents = values[(values > 0) & (values <= most)], values[values > 1.5]
    for share in shares:
        near = percents[(percents < 200 * share) & (percents > 50 * share)]
        if len(near):
            raise ValueError(
                f"value={metric.name}: {share:g} beside {near[0]:g} is a share beside a percent; write all in one unit,"
                " and leave the value of a failed run empty"
            )


def examples(
    source: Any, runs: pd.DataFrame, arm: str, value: str, seed: str | None, settings: list[str]
) -> list[np.ndarray | None]:
    """The values of each run's test examples, in its unit; None of one without a value. Raises ValueError if a run has
    another mean, or other examples than the others."""
    where = f"per_example={source if isinstance(source, (str, Path)) else 'table'}"
    if seed is None:
        raise ValueError(f"{where}: pairs runs, so name the column of their seeds")
    table = opened(source, value).table
    names = (arm, seed, value, "example", *settings)
    arm, seed, value, example, *settings = (column(table, name, "per_example") for name in names)
    rows = pd.DataFrame({"arm": stripped(table[arm]), "level": labels(table, settings)})
    rows["seed"], rows["example"] = labels(table, [seed]), table[example]
    rows["value"] = numbers(table[value], value)
    if rows.duplicated([*RUN, "example"]).any():
        raise ValueError(f"{where}: an example of a run stands there twice; give each once")
    wide = rows.dropna().pivot(index=RUN, columns="example", values="value")
    values = wide.reindex(pd.MultiIndex.from_frame(runs[RUN])).to_numpy()
    known = runs["value"].notna().to_numpy()
    means, found = runs["value"][known], values[known].mean(1)
    # Tables are rounded.
    scales = [scale for scale in (1.0, 100.0) if np.allclose(means, scale * found, rtol=2e-3, atol=1e-6)]
    if not scales:  # nor of nan, where an example is missing
        raise ValueError(
            f"{where}: its means over examples are not the values of the runs; give all examples of each"
        )
    return [scales[0] * row if fine else None for row, fine in zip(values, known, strict=True)]
