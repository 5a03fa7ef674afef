"""Results that exist, whoever made them, as a table of runs: csv, parquet or json, exports of W&B and MLflow, folders
of TensorBoard and of normexp, numbers that somebody typed."""

import difflib
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from normexp.compare.judged import Curve
from normexp.format import pluralize

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
TYPED = re.compile(rf"(?:(?P<arm>[^:=/\\]+):)?(?P<values>{NUMBER}(?:,{NUMBER})*)")
FUNCTION = re.compile(r"[\w./\\~-]+:[A-Za-z_]\w*")
SEED = re.compile(r"(?<![a-z])s(?:eed)?[-_= ]?(\d+)(?![.\d])", re.I)
LAST = re.compile(r"(?:(?:run|version|trial|fold|rep)[-_ ]?|(?<!\de)[-_/ ])(\d+)$", re.I)  # not the 3 of 1e-3
CHART = re.compile(r"(?P<run>.+) - (?P<metric>.+?)(?P<end>__MIN|__MAX)?")  # a column of a chart of W&B
PREFIX = re.compile(r"(?:params|metrics|config|summary|tags)[./]")
# What pandas takes for an empty cell, but None, which names the arm without a norm.
EMPTY = ["", "nan", "NaN", "NAN", "NA", "N/A", "n/a", "<NA>", "#N/A", "null", "NULL"]
CSV = partial(pd.read_csv, keep_default_na=False, na_values=EMPTY, index_col=False)
READERS: dict[str, Callable[..., Any]] = {
    ".csv": CSV,
    ".tsv": partial(CSV, sep="\t"),
    ".parquet": pd.read_parquet,
    ".json": pd.read_json,
    ".jsonl": partial(pd.read_json, lines=True),
}
# What the columns `state`, `status` and `failed` of exports say of a run.
STATES = {
    "open": "running pending queued scheduled unfinished preempting waiting paused created in_progress inprogress",
    "ended": "finished completed complete success succeeded ok done terminated published false no n 0 0.0 none",
    "failed": "failed fail crashed killed error errored diverged oom out_of_memory timeout timed_out cancelled canceled"
    " aborted interrupted stopped preempted pruned node_fail nan true yes y 1 1.0",
}
SAID = {"": "ended"} | {word: kind for kind, words in STATES.items() for word in words.split()}


def kind_of(words: Sequence[str]) -> str:
    """What words name: `numbers` in hand, a `file` or folder of results, a `function`, else a `network`. Raises
    ValueError with one line for a word that fits none."""
    first, *more = words or ("",)
    in_hand = [word for word in words if TYPED.fullmatch(word)]
    if in_hand:
        if wrong := [word for word in words if word not in in_hand]:
            raise ValueError(
                f"{wrong[0]}: neither an option nor numbers beside {in_hand[0]}; write NAME:1,2,3"
            )
        return "numbers"
    known = Path(first).suffix.lower() in READERS and ("=" not in first or os.path.exists(first))
    if os.path.isdir(first) or known:
        if more:
            raise ValueError(f"{more[0]}: is no option for results, as {first} has them; --help lists those")
        return "file"
    module = first.partition(":")[0]
    top = module.partition(".")[0]
    if FUNCTION.fullmatch(first) and (module.endswith(".py") or (top and find_spec(top))):
        return "function"
    if wrong := [word for word in words if "=" not in word and not word.startswith("~")]:
        raise ValueError(
            f"{wrong[0]}: no file or folder of results, no numbers such as ours:78.2, and no function that Python"
            " finds, such as my.py:train"
        )
    return "network"


def typed(words: Sequence[str]) -> list[tuple[str, list[float]]]:
    """(arm, values) of numbers in hand, `none:78 batchnorm:78.2,78.4`; arms without a name are A, B, ..."""
    found = [match for match in map(TYPED.fullmatch, words) if match]
    names = [own["arm"] or chr(ord("A") + place) for place, own in enumerate(found)]
    return [(arm, list(map(float, own["values"].split(",")))) for arm, own in zip(names, found, strict=True)]


def in_hand(arms: Sequence[tuple[str, Any]], value: str) -> pd.DataFrame:
    """The table of (arm, its values). Raises ValueError for one arm alone, and for one that stands twice or has no
    list of numbers."""
    names = [str(arm) for arm, _ in arms]
    if len(names) < 2 or len(set(names)) < len(names):
        often = max(names, key=names.count, default="A")
        raise ValueError(f"{' '.join(names)}: name two arms or more, each once, as {often}:1,2 other:3,4")
    lists = {arm: np.atleast_1d(values) for arm, values in zip(names, (own for _, own in arms), strict=True)}
    if wrong := [arm for arm, values in lists.items() if values.ndim > 1 or not len(values)]:
        raise ValueError(f"{wrong[0]}: write a list of its numbers, one for each run")
    return pd.DataFrame([{"arm": arm, value: own} for arm, values in lists.items() for own in values])


def opened(source: Any, value: str | None) -> tuple[pd.DataFrame, dict[Any, Curve]]:
    """(one row a run, place of a row -> its curve) of a source. Raises ValueError with one line for no source."""
    if isinstance(source, pd.DataFrame):
        table = source.reset_index(drop=source.index.names == [None])  # groupby().mean() puts names there
        return charted(table, table.columns, value)
    path = Path(source)
    if path.is_dir():
        return of_folder(path, value)
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise ValueError(f"{path}: cannot be read; write one of {', '.join(READERS)}, or a folder of runs")
    read = READERS[suffix]
    try:
        with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
            table = read(path)
        # pandas calls the second of equal names name.1.
        names = read(path, header=None, nrows=1).iloc[0] if suffix in (".csv", ".tsv") else table.columns
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except pd.errors.ParserWarning:  # it would drop the last ones
        table = read(path, nrows=0)
        if not _one_column(table):  # of which a decimal comma makes two
            line = "a row has more fields than the first line has names; name each"
            raise ValueError(f"{path}: {line}") from None
    except UnicodeError:
        raise ValueError(f"{path}: is no text in UTF-8; save it as that") from None
    except (ValueError, OSError) as error:  # of pandas and pyarrow
        raise ValueError(f"{path}: {' '.join(str(error).split())[:120]}; write it anew") from None
    if _one_column(table):
        raise ValueError(f"{path}: has one column, {table.columns[0]}; separate columns by commas")
    return charted(table, names, value, f"{path}: ")


def _one_column(table: pd.DataFrame) -> bool:
    """Whether columns are separated by what is no comma."""
    return len(table.columns) == 1 and bool(re.search(r"[;\t]", str(table.columns[0])))


def charted(
    table: pd.DataFrame, names: Any, value: str | None, where: str = ""
) -> tuple[pd.DataFrame, dict[Any, Curve]]:
    """A table as it is, or the value of each run at the last step of a chart that W&B exports, with its curve. Raises
    ValueError with one line for a table without rows, or with two columns of one name."""
    known = pd.Index(names).dropna()
    if known.has_duplicates:
        raise ValueError(f"{where}two columns are named {known[known.duplicated()][0]}; rename one")
    if table.empty:
        raise ValueError(f"{where or 'table: '}holds no run; write a row for each")
    steps, *columns = table.columns
    found = [CHART.fullmatch(str(name)) for name in columns]
    if not found or not all(found) or not pd.api.types.is_numeric_dtype(table[steps]):
        return table, {}
    runs: dict[str, dict[str, Any]] = {}
    curves: dict[Any, Curve] = {}
    for name, own in zip(columns, found, strict=True):
        if own and not own["end"] and own["metric"] != "_step":
            curve = table[[steps, name]].dropna().sort_values(steps, kind="stable").to_numpy(float)
            runs.setdefault(own["run"], {})[own["metric"]] = curve[-1, 1] if len(curve) else np.nan
            if value in (None, own["metric"]) and str(steps).lower().endswith("step"):  # not of time
                curves[list(runs).index(own["run"])] = curve
    return of_names(runs), curves


def of_names(runs: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """The table of runs by their names, which say arm and seed; a note says how they were read."""
    parts = {name: parted(name) for name in runs}
    table = pd.DataFrame([{"arm": arm, "seed": seed, **runs[name]} for name, (arm, seed) in parts.items()])
    told = [f"{name} is {arm}, seed {seed}" for name, (arm, seed) in parts.items() if seed is not None]
    table.attrs["notes"] = [f"seeds are read from the names of runs: {told[0]}"] if told else []
    return table


def parted(name: str) -> tuple[str, int | None]:
    """(arm, seed) of a run's name: `batchnorm/seed_3`, `bn-lr0.1-s3`, `ln_3`. Without a seed, None."""
    found = SEED.search(name) or LAST.search(name)
    if found is None:
        return name, None
    rest = re.sub(r"([-_/ ,])[-_/ ,]+", r"\1", name[: found.start()] + name[found.end() :]).strip("-_/ ,")
    return rest or name, int(found[1])


def of_folder(path: Path, value: str | None) -> tuple[pd.DataFrame, dict[Any, Curve]]:
    """The runs below a folder: finished runs of normexp, else one of each folder with events of TensorBoard."""
    from normexp.runs.metrics import with_metric
    from normexp.runs.table import find_runs, load_summaries

    if find_runs(path)[0]:
        table = load_summaries(path)
        return (with_metric(table, path, value) if value and "/" in value else table), {}
    folders = sorted({file.parent for file in path.rglob("events.out.tfevents*")})
    if not folders:
        raise ValueError(f"{path}: holds neither runs of normexp nor events of TensorBoard; check the name")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    runs: dict[str, dict[str, Any]] = {}
    curves: dict[Any, Curve] = {}
    inner = 0
    for folder in folders:
        events = EventAccumulator(str(folder), {"scalars": 0, "tensors": 0}).Reload()
        tags = events.Tags()
        points = {tag: [(own.step, own.value) for own in events.Scalars(tag)] for tag in tags["scalars"]}
        for tag in tags["tensors"]:
            arrays = [(own.step, make_ndarray(own.tensor_proto)) for own in events.Tensors(tag)]
            if all(array.size == 1 and array.dtype.kind in "fiu" for _, array in arrays):
                points[tag] = [(step, array.item()) for step, array in arrays]
        if value and not any(tag.endswith(value) for tag in points) and set(folder.parents) & set(folders):
            inner += 1  # such as that of add_hparams
            continue
        if value in points:
            curves[len(runs)] = np.array(points[value], float)
        name = folder.relative_to(path).as_posix()
        runs[name] = {tag: own[-1][1] for tag, own in points.items()}
    table = of_names(runs)
    if inner:
        table.attrs["notes"] += [
            f"left out: {pluralize(inner, 'folder')} inside those of runs, without {value}"
        ]
    return table, curves


def named(table: pd.DataFrame, name: str) -> list[str]:
    """The columns of a name: as it is written, else `params.norm` or `config/norm` for norm, else in another case."""
    names = [str(own) for own in table.columns]
    return (
        [own for own in names if own == name]
        or [own for own in names if PREFIX.match(own) and PREFIX.sub("", own, count=1) == name]
        or [own for own in names if own.lower() == name.lower()]
    )


def column(table: pd.DataFrame, name: str, argument: str) -> str:
    """The one column of a name, or whose path ends with it. Raises ValueError with the nearest names."""
    names = [str(own) for own in table.columns]
    found = named(table, name) or [own for own in names if own.replace("/", ".").endswith(f".{name}")]
    if len(found) == 1:
        return found[0]
    near = found or difflib.get_close_matches(name, names, n=3, cutoff=0.4) or names[:12]
    raise ValueError(f"{argument}={name}: no such column; write {argument}=NAME, one of {', '.join(near)}")


def numbers(column: pd.Series, name: str) -> np.ndarray:
    """Numbers of a column, also as text, `78.2%`; nan where it is empty, or says a state such as crashed. Raises
    ValueError for other texts, and for percents beside others."""
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(float, na_value=np.nan)
    texts = column.astype("string").str.strip().fillna("")
    percent = texts.str.endswith("%").to_numpy(bool)
    values = pd.to_numeric(texts.str.rstrip("% "), errors="coerce").to_numpy(float, na_value=np.nan)
    wrong = texts[np.isnan(values) & ~texts.str.lower().isin({*SAID, "-", "–", "null", "na", "n/a"})]
    if len(wrong):
        place, text = wrong.index[0] + 1, wrong.iloc[0]
        raise ValueError(
            f"{name}={text} (row {place}): is no number; write digits and a point alone, or leave it empty"
        )
    if percent.any() and (~percent & np.isfinite(values)).any():
        raise ValueError(f"value={name}: some values are percents and some are not; write all in one unit")
    return values


def states(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """(which runs failed, which still run), by the columns `state`, `status` and `failed`, if there are any. Raises
    ValueError for a word that says neither."""
    failed, still = np.zeros(len(table), bool), np.zeros(len(table), bool)
    for name in table.columns:
        if str(name).lower() in ("state", "status", "failed"):
            said = table[name].astype("string").str.strip().str.lower().fillna("").map(SAID)
            if said.isna().any():
                word = table[name][said.isna()].iloc[0]
                known = "finished, running, failed, ... (failed: true, false)"
                raise ValueError(
                    f"{name}={word}: is no known state of a run; write {known}, or rename the column"
                )
            failed |= said.eq("failed").to_numpy(bool)
            still |= said.eq("open").to_numpy(bool)
    return failed, still


def labels(table: pd.DataFrame, names: list[str]) -> pd.Series:
    """The values of columns as one text each row, `digits 8`; empty without a column."""
    return table[names].astype(str).agg(" ".join, axis=1) if names else pd.Series("", table.index)


def texts(column: pd.Series) -> pd.Series:
    """Seeds as text: 3 of 3.0, too, as a column with a gap reads."""
    return column.map(lambda own: str(int(own)) if isinstance(own, float) and own.is_integer() else str(own))
