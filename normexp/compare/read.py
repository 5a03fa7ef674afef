"""Results that exist, whoever made them, as a table of runs: csv, parquet or json, exports of W&B and MLflow, folders
of TensorBoard and of normexp, numbers that somebody typed."""

import difflib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from normexp.compare.judged import Curve

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
TYPED = re.compile(rf"(?:(?P<arm>[^:=/\\]+):)?(?P<values>{NUMBER}(?:,{NUMBER})*)")
FUNCTION = re.compile(r"[\w./\\~-]+:[A-Za-z_]\w*")
SEED = re.compile(r"(?<![a-z])s(?:eed)?[-_= ]?(\d+)(?![.\d])", re.I)
LAST = re.compile(r"(?:(?:run|version|trial|fold|rep)[-_ ]?|[-_/ ])(\d+)$", re.I)
CHART = re.compile(
    r"(?P<run>.+) - (?P<metric>.+?)(?P<end>__MIN|__MAX)?"
)  # a column of a chart that W&B exports
READERS: dict[str, Callable[..., pd.DataFrame]] = {
    ".csv": pd.read_csv,
    ".tsv": partial(pd.read_csv, sep="\t"),
    ".parquet": pd.read_parquet,
    ".json": pd.read_json,
    ".jsonl": partial(pd.read_json, lines=True),
}
OPEN_STATES = {"running", "pending", "queued", "scheduled", "unfinished", "preempting"}
ENDED_WELL = {"finished", "completed", "complete", "success", "succeeded", "ok", "done"}


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
    known = Path(first).suffix in READERS and ("=" not in first or os.path.exists(first))
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


def typed(words: Sequence[str], value: str) -> pd.DataFrame:
    """The table of numbers in hand, `none:78 batchnorm:78.2,78.4`; arms without a name are A, B, ... Raises ValueError
    for one arm alone, and for a name that stands twice."""
    found = [match for match in map(TYPED.fullmatch, words) if match]
    names = [own["arm"] or chr(ord("A") + place) for place, own in enumerate(found)]
    if len(names) < 2 or len(set(names)) < len(names):
        often = Counter(names).most_common(1)[0][0]
        raise ValueError(f"{words[-1]}: name two arms or more, each once, as {often}:1,2 other:3,4")
    numbers = zip(names, (own["values"].split(",") for own in found), strict=True)
    return pd.DataFrame([{"arm": arm, value: float(own)} for arm, values in numbers for own in values])


def opened(source: Any, value: str | None) -> tuple[pd.DataFrame, dict[Any, Curve]]:
    """(one row a run, place of a row -> its curve) of a source. Raises ValueError with one line for no source."""
    if isinstance(source, pd.DataFrame):
        check_names(source.columns)
        return charted(source.reset_index(drop=True))
    path = Path(source)
    if path.is_dir():
        return of_folder(path, value)
    if path.suffix not in READERS:
        raise ValueError(f"{path}: cannot be read; write one of {', '.join(READERS)}, or a folder of runs")
    try:
        table = READERS[path.suffix](path)
        plain = path.suffix in (".csv", ".tsv")  # pandas calls the second of equal names name.1
        names = READERS[path.suffix](path, header=None, nrows=1).iloc[0] if plain else table.columns
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except (ValueError, OSError) as error:  # of pandas and pyarrow
        raise ValueError(f"{path}: {' '.join(str(error).split())[:120]}; write it anew") from None
    if len(table.columns) == 1 and re.search(r"[;\t]", name := str(table.columns[0])):
        raise ValueError(f"{path}: has one column, {name}; separate columns by commas")
    check_names(names, f"{path}: ")
    return charted(table)


def check_names(names: Iterable[Any], where: str = "") -> None:
    """Raise ValueError with one line if two columns have one name."""
    known = pd.Index(names).dropna()
    if known.has_duplicates:
        raise ValueError(f"{where}two columns are named {known[known.duplicated()][0]}; rename one")


def charted(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[Any, Curve]]:
    """A table as it is, or the last value of each run of a chart that W&B exports, with its curve."""
    steps, *columns = table.columns
    found = [CHART.fullmatch(str(name)) for name in columns]
    if not found or not all(found) or str(steps).lower() not in ("step", "epoch", "time"):
        return table, {}
    rows: list[dict[str, Any]] = []
    curves: dict[Any, Curve] = {}
    for name, own in zip(columns, found, strict=True):
        if own and not own["end"]:
            curve = table[[steps, name]].dropna().to_numpy(float)
            arm, seed = parted(own["run"])
            curves[len(rows)] = curve
            rows.append({"arm": arm, "seed": seed, own["metric"]: curve[-1, 1] if len(curve) else np.nan})
    return pd.DataFrame(rows), curves


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

    rows: list[dict[str, Any]] = []
    curves: dict[Any, Curve] = {}
    for folder in folders:
        events = EventAccumulator(str(folder), {"scalars": 0, "tensors": 0}).Reload()
        tags = events.Tags()
        arm, seed = parted(folder.relative_to(path).as_posix())
        row: dict[str, Any] = {"arm": arm, "seed": seed}
        points = {tag: [(own.step, own.value) for own in events.Scalars(tag)] for tag in tags["scalars"]}
        for tag in tags["tensors"]:
            arrays = [(own.step, make_ndarray(own.tensor_proto)) for own in events.Tensors(tag)]
            if all(array.size == 1 and array.dtype.kind in "fiu" for _, array in arrays):
                points[tag] = [(step, array.item()) for step, array in arrays]
        row |= {tag: own[-1][1] for tag, own in points.items()}
        if value in points:
            curves[len(rows)] = np.array(points[value], float)
        rows.append(row)
    return pd.DataFrame(rows), curves


def column(table: pd.DataFrame, name: str, argument: str) -> str:
    """The column of a name: as it is written, or `params.norm`, `config/norm` for norm, whatever its case. Raises
    ValueError with the nearest names."""
    names = [str(own) for own in table.columns]
    if name in names:
        return name
    ends = [own for own in names if re.split(r"^(?:params|metrics|config|summary|tags)[./]", own)[-1] == name]
    ends = ends or [own for own in names if own.lower() == name.lower()]
    ends = ends or [own for own in names if own.replace("/", ".").endswith(f".{name}")]
    if len(ends) == 1:
        return ends[0]
    near = ends or difflib.get_close_matches(name, names, n=3, cutoff=0.4) or names[:12]
    raise ValueError(f"{argument}={name}: no such column; write {argument}=NAME, one of {', '.join(near)}")


def numbers(column: pd.Series, name: str) -> np.ndarray:
    """Numbers of a column, also as text, `78.2%`; else nan. Raises ValueError for digits that are no
    number, as 78,2 or 78.2 ± 0.3, and for percents beside others."""
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(float, na_value=np.nan)
    texts = column.astype("string").str.strip()
    percent = texts.str.endswith("%").fillna(False)
    values = pd.to_numeric(texts.str.rstrip("% "), errors="coerce").to_numpy(float, na_value=np.nan)
    if len(wrong := texts[np.isnan(values) & texts.str.contains(r"\d").fillna(False)]):
        raise ValueError(f"value={name}: {wrong.iloc[0]!r} is no number; write it as 78.2, or leave it empty")
    if percent.any() and (~percent & np.isfinite(values)).any():
        raise ValueError(f"value={name}: some values are percents and some are not; write all in one unit")
    return values


def states(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """(which runs failed, which still run), by the columns `state`, `status` and `failed`, if there are any."""
    failed, still = np.zeros(len(table), bool), np.zeros(len(table), bool)
    for name in table.columns:
        if str(name).lower() in ("state", "status"):
            words = table[name].astype("string").str.lower().fillna("")
            still |= words.isin(OPEN_STATES).to_numpy(bool)
            failed |= ~words.isin([*ENDED_WELL, *OPEN_STATES, ""]).to_numpy(bool)
        if str(name).lower() == "failed":
            failed |= table[name].astype("string").str.lower().isin(["true", "1"]).to_numpy(bool)
    return failed, still


def labels(table: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    """The values of columns as one text each row, `digits 8`; empty without a column."""
    found = pd.Series("", table.index)
    for name in names:
        found = (found + " " + table[name].astype(str)).str.strip()
    return found


def texts(column: pd.Series) -> pd.Series:
    """Seeds as text: 3 of 3.0, too, as a column with a gap reads."""
    return column.map("{:g}".format) if pd.api.types.is_numeric_dtype(column) else column.astype(str)
