"""A run in MLflow. The study is its experiment."""

import contextlib
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlflow
from filelock import FileLock
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException
from pytorch_lightning.loggers import MLFlowLogger

from normexp.config.settings import mlflow_store
from normexp.training.loggers.services import Row, Sent, ServiceLogger, settings_of, title
from normexp.training.survive import Interrupted

if TYPE_CHECKING:
    from normexp.training.parts import Parts

MOST = 1000  # metrics in one call, MLflow's limit
SQLITE = "sqlite:///"


class MlflowRun(ServiceLogger, MLFlowLogger):
    """Lightning's logger for MLflow. A resumed run continues under its id.

    MLFLOW_TRACKING_URI names the store; without it, it is the file `<outputs>/mlflow.db`.

    Raises ValueError with one line if the store cannot be used.
    """

    service = "mlflow"

    def __init__(self, parts: "Parts", folder: Path):
        sent = Sent(folder / ".mlflow.json")
        uri = mlflow_store(parts.config["outputs"])
        place = Path(uri.removeprefix(SQLITE)).parent / "mlruns" if uri.startswith(SQLITE) else None
        try:
            with _opening(uri):
                super().__init__(
                    sent,
                    experiment_name=parts.config["name"],
                    run_name=title(parts, folder),
                    tracking_uri=uri,
                    tags={
                        "model": parts.choices["model"],
                        "norm": parts.choices["norm"],
                        "folder": str(folder),
                    },
                    artifact_location=place.as_uri() if place else None,
                    run_id=sent.run_id,
                )
                sent.run_id = self.run_id
            sent.write()
            self.experiment.update_run(sent.run_id, status="RUNNING")
            self.log_hyperparams(settings_of(parts))
        except (MlflowException, OSError) as error:
            reason = " ".join(str(error).split())[:200].rstrip(".")
            raise ValueError(
                f"logger=mlflow: {uri} cannot be used ({reason}); set MLFLOW_TRACKING_URI to another store"
            ) from None

    def send(self, rows: list[Row]) -> None:
        """All rows in one call, which takes as long as a call for one number (Lightning makes a call for each row)."""
        metrics = [
            Metric(key=name, value=float(value), timestamp=int(row.time * 1000), step=row.step)
            for row in rows
            for name, value in row.metrics.items()
        ]
        for first in range(0, len(metrics), MOST):
            self.experiment.log_batch(run_id=self.run_id, metrics=metrics[first : first + MOST])

    def end(self) -> None:
        stopped = isinstance(self.error, (Interrupted, KeyboardInterrupt, SystemExit))
        status = "FINISHED" if self.error is None else "KILLED" if stopped else "FAILED"
        self.experiment.set_terminated(self.run_id, status)


@contextlib.contextmanager
def _opening(uri: str) -> Iterator[None]:
    """Only one process at a time makes the tables of a new SQLite file. MLflow's notes about that are not shown.
    Lightning makes the store MLflow's own default, which a notebook may have set, so the default is put back."""
    default = mlflow.get_tracking_uri() if mlflow.is_tracking_uri_set() else None
    names = ("mlflow", "alembic", "pytorch_lightning.loggers.mlflow")
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.ERROR)
    lock: contextlib.AbstractContextManager[Any] = (
        FileLock(_beside(Path(uri.removeprefix(SQLITE))))
        if uri.startswith(SQLITE)
        else contextlib.nullcontext()
    )
    try:
        with lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        mlflow.set_tracking_uri(default)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _beside(store: Path) -> Path:
    store.parent.mkdir(parents=True, exist_ok=True)
    return store.with_name(f".{store.name}.lock")
