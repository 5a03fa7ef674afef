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
from normexp.runs.summary import damaged

if TYPE_CHECKING:  # they take a while to import, and reading a summary does not need them
    import numpy as np
    import pandas as pd

METRICS = "metrics.csv"
# TensorBoard shows tags by alphabet, capitals first: these are what one looks at first.
FIRST = {
    f"{split}/{name}": f"{name.capitalize()}/{split}"
    for split in ("train", "val")
    for name in ("accuracy", "loss")
}
TEST_EXAMPLES = "test_examples.npz"


def read_metrics(folders: Sequence[Path], metrics: Iterable[str] | None = None) -> "pd.DataFrame":
    """Columns `run` (index into `folders`), step, epoch, seconds, metric, value, in the order of the files.

    Raises ValueError for a file that is absent or of another form, and for a metric that no run recorded.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    number = pa.float64()
    types = {"step": pa.int64(), "epoch": number, "seconds": number, "metric": pa.string(), "value": number}
    names = None if metrics is None else [metrics] if isinstance(metrics, str) else list(metrics)
    tables, recorded = [], set()
    for run, folder in enumerate(folders):
        path = folder / METRICS
        try:
            table = csv.read_csv(
                path,
                read_options=csv.ReadOptions(use_threads=False),
                convert_options=csv.ConvertOptions(column_types=types, include_columns=list(types)),
            )
        except (OSError, pa.ArrowInvalid, KeyError) as error:
            raise damaged(path, str(error).splitlines()[0]) from None
        if names is not None:  # now, so that memory need not hold all that runs recorded
            recorded.update(pc.unique(table["metric"]).to_pylist())
            table = table.filter(pc.is_in(table["metric"], pa.array(names, pa.string())))
        tables.append(table.add_column(0, "run", pa.array([run] * len(table), pa.int64())))
    for name in names or ():
        check_metric(name, recorded)
    frame = pa.concat_tables(tables).to_pandas()
    return frame.assign(metric=frame["metric"].astype("category"))


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
    """The test examples of a run; None if it kept none. Raises ValueError with one line for a file that was cut."""
    import numpy as np

    path = Path(folder) / TEST_EXAMPLES
    if not path.is_file():
        return None
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            shape = tuple(arrays["shape"].tolist())
            right = np.unpackbits(arrays["right"], count=int(np.prod(shape))).astype(bool).reshape(shape)
            return TestExamples(right, arrays["loss"], str(arrays["test_set"]))
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise damaged(path, str(error) or type(error).__name__) from None
