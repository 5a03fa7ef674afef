"""The `metrics.csv` of many runs as one table, read in one pass."""

import difflib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

METRICS = "metrics.csv"
HEADER = b"step,epoch,seconds,metric,value\n"


def read_metrics(
    folders: Sequence[Path], steps: Sequence[int], metrics: Iterable[str] | None = None
) -> "pd.DataFrame":
    """Columns `run` (index into `folders`), step, epoch, seconds, metric, value, in the order of the files.

    All files are parsed as one text. So a thousand runs take a second, without an index that could be out of date.

    Args:
        steps: number of steps of each run, from its summary. The last step is always recorded, so a file that ends
            earlier was cut off.

    Raises ValueError for a file that is absent, cut off or of another form, and for a metric that no run recorded.
    """
    import numpy as np

    texts, rows = [], []
    for folder in folders:
        text, count = read_rows(folder / METRICS)
        texts.append(text)
        rows.append(count)
    try:
        frame = _parse(b"".join(texts))
    except ValueError:
        for folder, text in zip(folders, texts, strict=True):
            _blame(folder / METRICS, text)
        raise
    frame.insert(0, "run", np.repeat(np.arange(len(folders)), rows))
    last = frame.groupby("run")["step"].max().reindex(range(len(folders)), fill_value=-1)
    for folder, found, wanted in zip(folders, last, steps, strict=True):
        if found != wanted:
            raise ValueError(
                f"{folder / METRICS}: ends at step {found}, but the run took {wanted} steps; remove the run's folder "
                "and run it again"
            )
    if metrics is None:
        return frame
    for name in (metrics := list(metrics)):
        check_metric(name, frame["metric"].cat.categories)
    return frame[frame["metric"].isin(metrics)].reset_index(drop=True)


def _parse(text: bytes) -> "pd.DataFrame":
    import pandas as pd

    numbers = {"step": "int64", "epoch": "float64", "seconds": "float64", "value": "float64"}
    return pd.read_csv(io.BytesIO(HEADER + text), dtype={**numbers, "metric": "category"})


def _blame(path: Path, text: bytes) -> None:
    try:
        _parse(text)
    except ValueError as error:
        why = str(error).strip().splitlines()[0]
        raise ValueError(f"{path}: damaged ({why}); remove the run's folder and run it again") from None


def check_metric(name: str, known: Iterable[str]) -> None:
    """Raise ValueError, with the nearest names, for a metric that no run recorded."""
    known = sorted(known)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3) or known[:10]
        raise ValueError(f"metric={name}: recorded by none of these runs; the nearest are {', '.join(near)}")


def read_rows(path: Path) -> tuple[bytes, int]:
    """The rows of one file without its header, and their number."""
    try:
        header, _, text = path.read_bytes().partition(b"\n")
    except OSError as error:
        why = "absent" if isinstance(error, FileNotFoundError) else error.strerror
        raise ValueError(
            f"{path}: {why}, though the run has a summary; if its folder was just deleted, read again, otherwise "
            "remove it and run it again"
        ) from None
    count = text.count(b"\n")
    if header + b"\n" != HEADER:
        raise ValueError(
            f"{path}: the columns are not {HEADER.decode().strip()}; written by another version?"
        )
    if (text and not text.endswith(b"\n")) or text.count(b",") != 4 * count:
        raise ValueError(
            f"{path}: cut off or damaged after {count} rows; remove the run's folder and run it again"
        )
    return text, count
