"""`metrics.csv`: every number of a run as one row, appended as it comes."""

import csv
from pathlib import Path
from typing import TextIO

from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.utilities.rank_zero import rank_zero_only

from normexp.runs import damaged

COLUMNS = ("step", "epoch", "seconds", "metric", "value")


class MetricsCSV(Logger):
    """A Lightning logger that writes rows `step,epoch,seconds,metric,value`.

    Lightning's own CSV logger has a column a metric: it rewrites the file whenever a new metric appears and deletes
    it on resume. Rows need neither. `epoch` (passes over the data, a fraction) and `seconds` (of training, without
    validation) are those of the last recorded training step: whoever records keeps `clock` up to date.

    Args:
        path: the file; rows already there are kept up to `resume_step`, so that a resumed run has no row twice.
        resume_step: the optimizer step of the checkpoint that training resumes from; None starts afresh.
    """

    def __init__(self, path: Path, resume_step: int | None = None):
        super().__init__()
        self.path = Path(path)
        self.clock = {"epoch": 0.0, "seconds": 0.0}
        rows = self._rows_until(resume_step) if resume_step is not None and self.path.exists() else []
        self._file: TextIO = self.path.open("w", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow(COLUMNS)
        self._writer.writerows(rows)

    def _rows_until(self, step: int) -> list[list[str]]:
        try:
            with self.path.open(newline="") as file:
                header, *rows = list(csv.reader(file)) or [list(COLUMNS)]
            if rows and len(rows[-1]) != len(COLUMNS):
                rows.pop()  # a run that was killed can leave half a line at the end
            if tuple(header) != COLUMNS or any(len(row) != len(COLUMNS) for row in rows):
                raise ValueError(f"not all rows have the columns {','.join(COLUMNS)}")
            return [row for row in rows if int(row[0]) <= step]
        except (ValueError, csv.Error) as error:
            raise damaged(self.path, str(error), self.path.parent) from None

    @property
    def name(self) -> str:
        return "metrics"

    @property
    def version(self) -> str:
        return ""

    @property
    def experiment(self) -> TextIO:
        """Lightning asks each logger for what it writes to before it starts worker processes."""
        return self._file

    @property
    def save_dir(self) -> str:
        return str(self.path.parent)

    @rank_zero_only
    def log_hyperparams(self, params, *args, **kwargs) -> None:
        """Nothing: the configuration stands in `summary.json`."""

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        epoch, seconds = f"{self.clock['epoch']:.6g}", f"{self.clock['seconds']:.6g}"
        # repr of a float is the shortest text that reads back as the same number.
        self._writer.writerows(
            (step, epoch, seconds, metric, repr(float(value))) for metric, value in metrics.items()
        )

    @rank_zero_only
    def save(self) -> None:
        self._file.flush()

    @rank_zero_only
    def finalize(self, status: str) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()
