"""The files that a run appends to: one way to write them; `metrics.csv`, one row for every number of a run; and
TensorBoard's events, written without a thread and cut back to the checkpoint from which a run resumes.

The HParams table is as torch's `hparams` writes it, but with short names in our own order.
"""

import csv
import io
import os
import socket
import time
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from lightning_fabric.loggers.logger import rank_zero_experiment
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.utilities.rank_zero import rank_zero_only
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.api_pb2 import (
    DataType,
    Experiment,
    HParamInfo,
    MetricInfo,
    MetricName,
    Status,
)  # fmt: skip
from tensorboard.plugins.hparams.metadata import (
    EXPERIMENT_TAG,
    NULL_TENSOR,
    PLUGIN_DATA_VERSION,
    SESSION_END_INFO_TAG,
    SESSION_START_INFO_TAG,
    create_summary_metadata,
)  # fmt: skip
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard import FileWriter, SummaryWriter

from normexp.config.identity import model_label
from normexp.runs import damaged
from normexp.runs.summary import flat, learning_rate
from normexp.training.lightning import own_rank

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


PREFIX = "events.out.tfevents."
# TensorBoard shows tags by alphabet, capitals first: these are what one looks at first.
FIRST = {
    "train/accuracy": "Accuracy/train",
    "val/accuracy": "Accuracy/val",
    "train/loss": "Loss/train",
    "val/loss": "Loss/val",
}
MAIN = ("norm", "model", "batch_size", "lr", "seed", "status")
DIGITS = 6  # whole numbers are padded to this width, so that their texts sort like numbers


def event_files(folder: Path) -> list[Path]:
    """The event files of a folder, in the order in which TensorBoard reads them."""
    return sorted(folder.glob(f"{PREFIX}*"))


class _EventWriter(FileWriter):
    """The writer behind torch's SummaryWriter. torch's own has a thread, which answers a full disk with a traceback."""

    def __init__(self, file: AppendedFile):
        self.file, self.event_writer, self._records = file, self, RecordWriter(file)
        start = Event(wall_time=time.time(), file_version="brain.Event:2")
        self._records.write(start.SerializeToString())

    def get_logdir(self) -> str:
        return str(self.file.path.parent)

    def add_event(self, event: Event, step: int | None = None, walltime: float | None = None) -> None:
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self._records.write(event.SerializeToString())

    def flush(self) -> None:
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class _Summaries(SummaryWriter):
    def __init__(self, writer: _EventWriter):
        self._writer = writer
        super().__init__(writer.get_logdir())

    def _get_file_writer(self) -> _EventWriter:
        # By `vars`, since torch declares both as None.
        vars(self).update(file_writer=self._writer, all_writers={self.log_dir: self._writer})
        return self._writer


class EventFile(TensorBoardLogger):
    """Lightning's logger for TensorBoard with one event file per launch.

    Each launch makes a new file: an open TensorBoard would lose its place in a file that was cut.

    Args:
        folder: of the run.
        keep: name -> length in bytes of each event file at the checkpoint from which training resumes. The files are
            cut to this length, and others are removed.
    """

    def __init__(self, folder: Path, keep: Mapping[str, int]):
        super().__init__(folder, name="", version="", default_hp_metric=False)
        self._folder, self._keep = Path(folder), dict(keep)
        self._files: dict[str, int] = {}
        if own_rank() == 0:
            self._open()

    def _open(self) -> None:
        before = event_files(self._folder)
        for path in before:
            if path.name in self._keep:
                AppendedFile(path, self._keep[path.name]).close()
                self._files[path.name] = self._keep[path.name]
            else:
                path.unlink()
        # TensorBoard sorts by name. Keep the order when two launches share a second, or when clocks differ.
        last = max((int(path.name.removeprefix(PREFIX).split(".")[0]) for path in before), default=0)
        name = f"{PREFIX}{max(int(time.time()), last + 1):010d}.{socket.gethostname()}"
        self._writer = _EventWriter(AppendedFile(self._folder / name))
        self._summaries = _Summaries(self._writer)
        try:
            self._writer.flush()
        except OSError:  # the disk is full, and nobody has this object yet to close it
            self._writer.close()
            raise

    @property
    @rank_zero_experiment
    def experiment(self) -> SummaryWriter:
        return self._summaries

    def sizes(self) -> dict[str, int]:
        """File -> its present length in bytes."""
        self.save()
        return {**self._files, self._writer.file.path.name: self._writer.file.size()}

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        # In one event: torch's `add_scalar` makes one per number, which takes more than twice as long.
        scalars = [
            Summary.Value(tag=FIRST.get(name, name), simple_value=float(value))
            for name, value in metrics.items()
        ]
        self._writer.add_summary(Summary(value=scalars), step)
        self._writer.file.flush_if_due()

    @rank_zero_only
    def log_hyperparams(self, params: Any, metrics: Any = None, step: int | None = None) -> None:
        """A row of the HParams table, and its metrics as scalars."""
        metrics = metrics or {}
        for summary in rows(params, metrics):
            self._writer.add_summary(summary)
        self.log_metrics(metrics, 0 if step is None else step)

    @rank_zero_only
    def save(self) -> None:
        self._writer.flush()

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Do nothing. `open_records` closes the file after the final numbers are written."""

    @rank_zero_only
    def close(self) -> None:
        self._writer.close()


def hyperparameters(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The values by which the table filters and sorts: the main settings, then all others under their short names.

    Whole numbers are texts, because TensorBoard would show a batch size of 64 as 64.000.
    """
    config, choices = summary["config"], summary["choices"]
    row = {name: config.get(name, summary["status"]) for name in MAIN} | {
        "lr": learning_rate(config),
        "model": model_label(config, choices),
        "norm": choices["norm"],
    }
    settings = {key: config[key] for key in ("max_epochs", "max_steps")} | {
        key: choices[key] for key in choices
    }
    settings |= flat(config["model"]) | flat({"norm": config["norm"]})
    row |= {key: value for key, value in settings.items() if key not in row and value is not None}
    return {key: _text(value) for key, value in row.items()}


def _text(value: Any) -> Any:
    return f"{value:>{DIGITS}}" if isinstance(value, int) and not isinstance(value, bool) else value


def hyperparameter_metrics(summary: Mapping[str, Any]) -> dict[str, float]:
    """The result columns of the table, tag -> value, equal for every run, diverged ones too. By default TensorBoard
    shows the first five, so the status and the accuracies come before the losses."""
    metrics = sorted(summary["metrics"].items(), key=lambda item: item[0].endswith("loss"))
    diverged = {"final/diverged": float(summary["status"] == "diverged")}
    return diverged | {f"final/{name.replace('/', '_')}": value for name, value in metrics}


def rows(params: Mapping[str, Any], metrics: Mapping[str, float]) -> list[Summary]:
    """The three summaries that add a run to the table."""
    infos = [
        # TensorBoard sorts by `differs`, then by name, and shows the first five by default.
        HParamInfo(name=f"{_place(name)}{name}", display_name=name, type=_type(value), differs=name in MAIN)
        for name, value in params.items()
    ]
    names = [
        MetricInfo(name=MetricName(tag=tag), display_name=tag.removeprefix("final/").replace("_", " "))
        for tag in metrics
    ]
    start = SessionStartInfo()
    for info, value in zip(infos, params.values(), strict=True):
        field = {DataType.DATA_TYPE_BOOL: "bool_value", DataType.DATA_TYPE_FLOAT64: "number_value"}
        setattr(start.hparams[info.name], field.get(info.type, "string_value"), value)
    return [
        _summary(EXPERIMENT_TAG, experiment=Experiment(hparam_infos=infos, metric_infos=names)),
        _summary(SESSION_START_INFO_TAG, session_start_info=start),
        _summary(SESSION_END_INFO_TAG, session_end_info=SessionEndInfo(status=Status.STATUS_SUCCESS)),
    ]


def _place(name: str) -> str:
    return f"{MAIN.index(name)} " if name in MAIN else ""


def _type(value: Any) -> Any:
    if isinstance(value, bool):
        return DataType.DATA_TYPE_BOOL
    return DataType.DATA_TYPE_FLOAT64 if isinstance(value, int | float) else DataType.DATA_TYPE_STRING


def _summary(tag: str, **content: Any) -> Summary:
    data = HParamsPluginData(version=PLUGIN_DATA_VERSION, **content)
    return Summary(value=[Summary.Value(tag=tag, metadata=create_summary_metadata(data), tensor=NULL_TENSOR)])
