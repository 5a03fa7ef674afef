"""The records of a run in training: `metrics.csv` and TensorBoard's events."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from normexp.training.event_file import EventFile
from normexp.training.lightning import own_rank
from normexp.training.metrics_csv import NAME, MetricsCSV

Record = EventFile | MetricsCSV


@contextlib.contextmanager
def open_records(folder: Path | None, resumed: dict[str, Any] | None) -> Iterator[list[Record]]:
    """Both records, cut back to the checkpoint from which training resumes, or empty.

    Args:
        folder: of the run; None records nothing.
        resumed: the content of the checkpoint.
    """
    if folder is None:
        yield []
        return
    sizes = resumed["recorded"] if resumed else {}
    loggers: list[Record] = []
    try:
        loggers.append(EventFile(folder, sizes))
        if own_rank() == 0:
            loggers.append(MetricsCSV(folder / NAME, sizes.get(NAME, 0)))
        yield loggers
    except BaseException:
        with contextlib.suppress(OSError):  # the disk is full, and that error is already on its way
            close(loggers)
        raise
    close(loggers)


def close(loggers: list[Record]) -> None:
    """Close every logger, even if closing one fails."""
    with contextlib.ExitStack() as stack:
        for logger in loggers:
            stack.callback(logger.close)


def sizes_now(loggers: list[Record]) -> dict[str, int]:
    """File -> its length in bytes after a flush. Checkpoints keep this."""
    return {name: size for logger in loggers for name, size in logger.sizes().items()}
