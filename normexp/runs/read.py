"""The files beside a run's summary: `metrics.csv`, and `test_examples.npz`, the loss on each test example and whether
its answer was right, which intervals over test examples need.
"""

import difflib
import io
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from normexp.runs.files import atomic_write
from normexp.runs.summary import Damaged, damaged, remedy

if TYPE_CHECKING:  # they take a while to import, and reading a summary does not need them
    import numpy as np
    import pandas as pd
    import pyarrow as pa

METRICS = "metrics.csv"
HEADER = b"step,epoch,seconds,metric,value\n"
TEST_EXAMPLES = "test_examples.npz"


def read_metrics(
    folders: Sequence[Path], steps: Sequence[int], metrics: Iterable[str] | None = None
) -> "pd.DataFrame":
    """Columns `run` (index into `folders`), step, epoch, seconds, metric, value, in the order of the files.

    Args:
        steps: number of steps of each run, from its summary. The last step is always recorded, so a file that ends
            earlier was cut off.

    Raises ValueError for a file that is absent, cut off or of another form, and for a metric that no run recorded.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names = None if metrics is None else list(metrics)
    tables, recorded = [], set()
    for run, (folder, taken) in enumerate(zip(folders, steps, strict=True)):
        table = read_rows(folder / METRICS)
        end = pc.max(table["step"]).as_py() if len(table) else -1
        if end != taken:
            why = f"ends at step {end}, but the run took {taken} steps"
            raise Damaged(f"{folder / METRICS}: {why}; {remedy(folder)}")
        if names is not None:  # now, so that memory need not hold all that runs recorded
            recorded.update(pc.unique(table["metric"]).to_pylist())
            table = table.filter(pc.is_in(table["metric"], pa.array(names, pa.string())))
        tables.append(table.add_column(0, "run", pa.array([run] * len(table), pa.int64())))
    for name in names or ():
        check_metric(name, recorded)
    frame = pa.concat_tables(tables).to_pandas()
    return frame.assign(metric=frame["metric"].astype("category"))


def read_rows(path: Path) -> "pa.Table":
    """The rows of one file. Raises ValueError with one line for one that is absent, cut off or of another form."""
    import pyarrow as pa
    from pyarrow import csv

    try:
        text = path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"{path}: {error.strerror}, though the run has a summary; {remedy(path.parent)}"
        ) from None
    if not text.startswith(HEADER):
        raise ValueError(
            f"{path}: its columns are not {HEADER.decode().strip()}; written by another version?"
        )
    if not text.endswith(b"\n"):
        raise damaged(path, "cut off")
    number = pa.float64()
    types = {"step": pa.int64(), "epoch": number, "seconds": number, "metric": pa.string(), "value": number}
    try:
        return csv.read_csv(
            pa.BufferReader(text),
            read_options=csv.ReadOptions(use_threads=False),
            convert_options=csv.ConvertOptions(column_types=types),
        )
    except pa.ArrowInvalid as error:
        raise damaged(path, str(error).splitlines()[0]) from None


def check_metric(name: str, recorded: Iterable[str]) -> None:
    """Raise ValueError, with the nearest names, for a metric that no run recorded."""
    recorded = sorted(recorded)
    if name not in recorded:
        near = difflib.get_close_matches(name, recorded, n=3) or recorded[:10]
        raise ValueError(f"metric={name}: recorded by none of these runs; the nearest are {', '.join(near)}")


@dataclass(frozen=True, eq=False)
class TestExamples:
    """The final weights on each test example, in the order of the test split.

    Attributes:
        right: bool, (N,) for images; (N, T) for windows of a text, one answer per token.
        loss: cross-entropy in nats, float32 (N,); for a window, the mean over its tokens.
        test_set: digest of the examples and their order. Runs with the same digest can be compared example by example.
            Empty if the data has no digest.
    """

    __test__ = False  # tells pytest that this is no test

    right: "np.ndarray"
    loss: "np.ndarray"
    test_set: str


def write_test_examples(folder: Path, examples: TestExamples) -> None:
    """Write the file whole or not at all. `right` takes one bit per answer (10,000 answers: 1.25 KB)."""
    import numpy as np

    with atomic_write(folder / TEST_EXAMPLES) as file:
        np.savez_compressed(
            file,
            right=np.packbits(examples.right),
            shape=np.array(examples.right.shape),
            loss=examples.loss.astype(np.float32),
            test_set=np.array(examples.test_set),
        )


def load_test_examples(folder: str | Path) -> TestExamples | None:
    """The test examples of a run; None if it kept none, such as a run of an earlier version.

    Raises ValueError with one line for a file that cannot be read or was cut.
    """
    import numpy as np

    path = Path(folder) / TEST_EXAMPLES
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            shape = tuple(arrays["shape"].tolist())
            right = np.unpackbits(arrays["right"], count=int(np.prod(shape))).astype(bool).reshape(shape)
            examples = TestExamples(right, arrays["loss"], str(arrays["test_set"]))
        if len(examples.loss) != len(right):
            raise ValueError(f"{len(examples.loss)} losses of {len(right)} examples")
        return examples
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise damaged(path, reason) from None
