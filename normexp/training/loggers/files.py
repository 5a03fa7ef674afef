"""The files that a run appends to: one way to write them, and `metrics.csv`, one row for every number of a run."""

import csv
import io
import os
import time
from io import FileIO
from pathlib import Path

from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.utilities.rank_zero import rank_zero_only

from normexp.runs import damaged

NAME = "metrics.csv"
COLUMNS = ("step", "epoch", "seconds", "metric", "value")
FLUSH_SECONDS, FLUSH_BYTES = 10.0, 2**20  # at most so late and so much


class AppendedFile:
    """Collects bytes in memory and appends them at a flush. So a full disk is an error only at a flush.

    Bytes that a killed run wrote after its checkpoint are cut off. The resumed run writes them again, so no number is
    missing or stands there twice.

    Args:
        path: a symbolic link is refused, because the folder may come from a stranger.
        keep: continue after so many bytes; 0 starts an empty file.

    Raises ValueError with one line if the file is shorter.
    """

    def __init__(self, path: Path, keep: int = 0):
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        # Unbuffered, so that closing the file after a failed write does not try again.
        self._file = FileIO(os.open(path, flags, 0o644), "r+b")
        found = os.fstat(self._file.fileno()).st_size
        if found < keep:
            self._file.close()
            raise damaged(path, f"{found} bytes are left of {keep}", path.parent)
        if found > keep:
            self._file.truncate(keep)
        self._file.seek(keep)
        self._pending: list[bytes] = []
        self._bytes = 0  # that are pending
        self._next_flush = 0.0

    def write(self, content: bytes) -> None:
        self._pending.append(content)
        self._bytes += len(content)

    def flush_if_due(self) -> None:
        if time.monotonic() > self._next_flush or self._bytes > FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        content = memoryview(b"".join(self._pending))
        self._pending, self._bytes = [], 0
        while content:
            content = content[self._file.write(content) :]
        self._next_flush = time.monotonic() + FLUSH_SECONDS

    def size(self) -> int:
        """Length of the file with all flushed bytes."""
        return self._file.tell()

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._file.close()


class MetricsCSV(Logger):
    """A Lightning logger that writes rows `step,epoch,seconds,metric,value`.

    Lightning's own CSV logger has one column per metric. It rewrites the file whenever a new metric appears, and
    deletes it on resume. Rows need neither. `epoch` (passes over the data, a fraction) and `seconds` (of training,
    without validation) belong to the last recorded training step. The recorder keeps `clock` up to date.

    Args:
        path: the file.
        keep: its length in bytes at the checkpoint from which training resumes; 0 starts an empty file.
    """

    def __init__(self, path: Path, keep: int = 0):
        super().__init__()
        self.path = Path(path)
        self.clock = {"epoch": 0.0, "seconds": 0.0}
        if keep:
            self._check(keep)
        self._file = AppendedFile(self.path, keep)
        if not keep:
            self._write([COLUMNS])

    def _check(self, keep: int) -> None:
        try:
            with self.path.open("rb") as file:
                text = file.read(keep).decode()
            header, *rows = list(csv.reader(io.StringIO(text, newline="")))
            if tuple(header) != COLUMNS or any(len(row) != len(COLUMNS) for row in rows):
                raise ValueError(f"not all rows have the columns {','.join(COLUMNS)}")
            for row in rows:
                int(row[0])
        except FileNotFoundError:
            raise damaged(self.path, "it is gone", self.path.parent) from None
        except (ValueError, csv.Error) as error:
            raise damaged(self.path, str(error), self.path.parent) from None

    def _write(self, rows) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        self._file.write(text.getvalue().encode())

    @property
    def name(self) -> str:
        return "metrics"

    @property
    def version(self) -> str:
        return ""

    @property
    def experiment(self) -> AppendedFile:
        """The file. Lightning asks each logger for it before it starts worker processes."""
        return self._file

    @property
    def save_dir(self) -> str:
        return str(self.path.parent)

    def sizes(self) -> dict[str, int]:
        """File -> its present length in bytes."""
        self.save()
        return {self.path.name: self._file.size()}

    @rank_zero_only
    def log_hyperparams(self, params, *args, **kwargs) -> None:
        """Do nothing: the configuration stands in `summary.json`."""

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        epoch, seconds = f"{self.clock['epoch']:.6g}", f"{self.clock['seconds']:.6g}"
        # repr of a float is the shortest text that reads back as the same number.
        self._write((step, epoch, seconds, metric, repr(float(value))) for metric, value in metrics.items())
        self._file.flush_if_due()

    @rank_zero_only
    def save(self) -> None:
        self._file.flush()

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Do nothing. `open_records` closes the file after the final numbers are written."""

    def close(self) -> None:
        self._file.close()
