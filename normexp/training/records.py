"""What a run writes down while it trains: `metrics.csv` and TensorBoard's events."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.utilities.rank_zero import rank_zero_only

from normexp.training.event_file import EventFile
from normexp.training.metrics_csv import NAME, MetricsCSV


@contextlib.contextmanager
def open_records(folder: Path | None, resumed: dict[str, Any] | None) -> Iterator[list[Logger]]:
    """Both as they were at the checkpoint that training resumes from, or empty.

    Args:
        folder: of the run; None records nothing.
        resumed: the checkpoint's content.
    """
    if folder is None:
        yield []
        return
    sizes = resumed["recorded"] if resumed else {}
    loggers: list[Logger] = []
    try:
        loggers.append(EventFile(folder, sizes))
        if rank_zero_only.rank == 0:
            loggers.append(MetricsCSV(folder / NAME, sizes.get(NAME, 0)))
        yield loggers
    except BaseException:
        with contextlib.suppress(OSError):  # a full disk, which is the error already
            close(loggers)
        raise
    close(loggers)


def close(loggers: list[Logger]) -> None:
    """Close every logger, also where closing one fails."""
    with contextlib.ExitStack() as stack:
        for logger in loggers:
            stack.callback(logger.close)


def sizes_now(loggers: list[Logger]) -> dict[str, int]:
    """File -> its length in bytes, with all that was recorded: what a checkpoint notes."""
    return {name: size for logger in loggers for name, size in logger.sizes().items()}
