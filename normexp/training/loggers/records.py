"""The records of a run in training: `metrics.csv`, TensorBoard's events, and the loggers of services."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normexp.config.settings import names_of
from normexp.training.lightning import own_rank
from normexp.training.loggers.files import NAME, MetricsCSV
from normexp.training.loggers.service import ServiceLogger
from normexp.training.loggers.tensorboard import EventFile

if TYPE_CHECKING:
    from normexp.training.train import Parts

Record = EventFile | MetricsCSV | ServiceLogger


@contextlib.contextmanager
def open_records(
    parts: "Parts", folder: Path | None, resumed: dict[str, Any] | None
) -> Iterator[list[Record]]:
    """All records of a run. Files are cut back to the checkpoint from which training resumes, or empty.

    Args:
        folder: of the run; None records nothing.
        resumed: the content of the checkpoint.
    """
    if folder is None:
        yield []
        return
    sizes = resumed["recorded"] if resumed else {}
    # A run that began with TensorBoard keeps its events, whatever it is resumed with.
    events = "tensorboard" in names_of(parts.config["logger"]) or sizes.keys() - {NAME}
    loggers: list[Record] = []
    try:
        if events:
            loggers.append(EventFile(folder, sizes))
        if own_rank() == 0:
            loggers.append(MetricsCSV(folder / NAME, sizes.get(NAME, 0)))
            loggers += open_services(parts, folder)
        yield loggers
    except BaseException as error:
        for logger in loggers:
            if isinstance(logger, ServiceLogger):
                logger.error = error
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


def open_services(parts: "Parts", folder: Path) -> list[ServiceLogger]:
    """The loggers of services. The service's packages are imported only if they are asked for.

    Raises ValueError with one line if a service cannot be reached.
    """
    found: list[ServiceLogger] = []
    names = names_of(parts.config["logger"])
    if "wandb" in names:
        from normexp.training.loggers.wandb_run import WandbRun

        found.append(WandbRun(parts, folder))
    if "mlflow" in names:
        from normexp.training.loggers.mlflow_run import MlflowRun

        try:
            found.append(MlflowRun(parts, folder))
        except BaseException as error:
            for logger in found:
                logger.error = error
                logger.close()
            raise
    return found
