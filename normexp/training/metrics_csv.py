"""`metrics.csv`: one row for every number of a run, appended during training."""

import csv
import io
from pathlib import Path

from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.utilities.rank_zero import rank_zero_only

from normexp.runs import damaged
from normexp.training.appended_file import AppendedFile

NAME = "metrics.csv"
COLUMNS = ("step", "epoch", "seconds", "metric", "value")


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
