"""Results that exist, whoever made them, as a table of runs: csv, parquet or json, exports of W&B and MLflow, folders
of TensorBoard and of normexp, numbers that somebody typed."""

import csv
import difflib
import io
import os
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from normexp.compare.logged import Opened, charted, of_folder

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
TYPED = re.compile(rf"(?:(?P<arm>[^:=/\\]+):)?(?P<values>{NUMBER}(?:,{NUMBER})*)")
FUNCTION = re.compile(r"[\w./\\~-]+:[A-Za-z_]\w*")
COMMENTS = re.compile(r"(?:#.*\n|\s*\n)*")  # before the names of a csv
# What pandas takes for an empty cell, but None, which names the arm without a norm.
EMPTY = ["", "nan", "NaN", "NAN", "NA", "N/A", "n/a", "<NA>", "#N/A", "null", "NULL"]


def of_csv(path: Path) -> pd.DataFrame:
    """The table of a text: its first line that is no comment has the names, separated by commas, tabs or semicolons."""
    text = COMMENTS.sub("", path.read_text("utf-8-sig"), count=1)
    head = text.partition("\n")[0]
    separator = max(",\t;", key=head.count)
    with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
        table = pd.read_csv(
            io.StringIO(text), sep=separator, keep_default_na=False, na_values=EMPTY, index_col=False
        )
    # pandas renames the second of equal ones.
    table.columns = pd.Index([name.strip() for name in next(csv.reader([head], delimiter=separator))])
    return table.loc[:, table.columns != ""]  # such as the index that pandas wrote


READERS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys((".csv", ".tsv"), of_csv),
    ".parquet": pd.read_parquet,
    ".json": pd.read_json,
    ".jsonl": partial(pd.read_json, lines=True),
}


def kind_of(arguments: Sequence[str], options: Iterable[str] = ()) -> str:
    """What arguments name: `numbers` in hand, a `file` or folder of results, a `function`, else a `network`. Raises
    ValueError with one line for an argument that fits none; it names the nearest of the `options`."""

    def near(word: str, otherwise: str) -> str:
        found = difflib.get_close_matches(word.partition("=")[0], [*options], n=1) if "=" in word else []
        return f"did you mean {found[0]}?" if found else otherwise

    first, *more = arguments or ("",)
    others = [word for word in arguments if not TYPED.fullmatch(word)]
    if len(others) < len(arguments):
        if others:
            number = next(word for word in arguments if word not in others)
            remedy = near(others[0], "write NAME:1,2,3")
            raise ValueError(f"{others[0]}: neither an option nor numbers beside {number}; {remedy}")
        return "numbers"
    known = Path(first).suffix.lower() in READERS and ("=" not in first or os.path.exists(first))
    if os.path.isdir(first) or known:
        if more:
            remedy = near(more[0], "--help lists those")
            raise ValueError(f"{more[0]}: is no option for results, as {first} has them; {remedy}")
        return "file"
    module = first.partition(":")[0]
    top = module.partition(".")[0]
    if FUNCTION.fullmatch(first) and (module.endswith(".py") or (top and find_spec(top))):
        return "function"
    if wrong := [word for word in arguments if "=" not in word and not word.startswith("~")]:
        raise ValueError(
            f"{wrong[0]}: no file or folder of results, no numbers such as ours:78.2, and no function that Python"
            " finds, such as my.py:train"
        )
    return "network"


def typed(arguments: Sequence[str]) -> list[tuple[str, list[float]]]:
    """(arm, values) of numbers in hand, `none:78 batchnorm:78.2,78.4`; arms without a name are A, B, ... Raises
    ValueError for another word."""
    found = [match for word in arguments if isinstance(word, str) and (match := TYPED.fullmatch(word))]
    if wrong := [word for word in arguments if word not in [m.string for m in found]]:
        raise ValueError(f"{wrong[0]}: is no arm with its numbers; write none:78,79, or {{'none': [78, 79]}}")
    names = [m["arm"] or chr(ord("A") + index) for index, m in enumerate(found)]
    return [(arm, list(map(float, m["values"].split(",")))) for arm, m in zip(names, found, strict=True)]


def in_hand(arms: Sequence[tuple[Any, Any]], value: str) -> pd.DataFrame:
    """The table of (arm, its values). Raises ValueError for one arm alone, and for one that stands twice or has no
    list of numbers."""
    names = [str(arm) for arm, _ in arms]
    if len(names) < 2 or len(set(names)) < len(names):
        often = max(names, key=names.count, default="A")
        raise ValueError(f"{' '.join(names)}: name two arms or more, each once, as {often}:1,2 other:3,4")
    for arm, values in arms:
        if np.ndim(values) > 1 or not np.size(values):
            raise ValueError(f"{arm}: write a list of its numbers, one for each run")
    table = pd.DataFrame({"arm": names, value: [values for _, values in arms]})
    return table.explode(value, ignore_index=True).infer_objects()


def opened(source: Any, value: str | None) -> Opened:
    """The runs of a source. Raises ValueError with one line for no source, a table without rows, or with two columns of
    one name."""
    where = "table"
    if isinstance(source, pd.DataFrame):
        table = source
    elif not isinstance(source, (str, Path)):
        raise ValueError(
            f"table: is of type {type(source).__name__}; give a DataFrame, a file, a folder or {{arm: values}}"
        )
    elif Path(source).is_dir():
        return of_folder(Path(source), value)
    else:
        table, where = of_file(Path(source)), str(source)
    if table.columns.nlevels > 1:
        raise ValueError(f"{where}: its columns have {table.columns.nlevels} names each; give each one")
    if table.index.names != [None]:  # as groupby().mean() puts them there
        table = table.reset_index()
    if table.columns.has_duplicates:
        name = table.columns[table.columns.duplicated()][0]
        raise ValueError(f"{where}: two columns are named {name}; rename one")
    if table.empty:
        raise ValueError(f"{where}: holds no run; write a row for each")
    return charted(table, value)


def of_file(path: Path) -> pd.DataFrame:
    """The table of a file. Raises ValueError with one line for one that cannot be read."""
    if path.suffix.lower() not in READERS:
        raise ValueError(f"{path}: cannot be read; write one of {', '.join(READERS)}, or a folder of runs")
    try:
        return READERS[path.suffix.lower()](path)
    except FileNotFoundError:
        why = "no such file"
    except pd.errors.ParserWarning:  # pandas would drop the last ones
        why = "a row has more fields than the first line has names; name each"
    except UnicodeError:
        why = "is no text in UTF-8; save it as that"
    except (ValueError, OSError) as error:  # of pandas and pyarrow
        why = f"{' '.join(str(error).split())[:120]}; write it anew"
    raise ValueError(f"{path}: {why}")
