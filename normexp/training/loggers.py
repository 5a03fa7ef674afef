"""Where a run's numbers go, also if it is resumed: `metrics.csv`, a row for each number, and Lightning's loggers."""

import contextlib
import csv
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock
from pytorch_lightning.loggers import MLFlowLogger, TensorBoardLogger, WandbLogger
from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.utilities.rank_zero import rank_zero_only

from normexp.config.identity import model_label
from normexp.runs import damaged
from normexp.runs.read import FIRST, METRICS
from normexp.runs.summary import flat, learning_rate
from normexp.training.lightning import own_rank
from normexp.training.screen import mlflow_store, names_of

if TYPE_CHECKING:
    from normexp.training.build import Parts

EVENTS = "events.out.tfevents.*"  # TensorBoard's files
COLUMNS = ("step", "epoch", "seconds", "metric", "value")
MAIN = ("batch_size", "seed", "max_epochs", "max_steps")
# TensorBoard's table of settings shows five columns, by the alphabet with capitals first
COMPARED = ("norm", "model", "batch_size", "lr", "seed")


class MetricsCSV(Logger):
    """A Lightning logger that writes rows `step,epoch,seconds,metric,value`.

    Lightning's own CSV logger has one column per metric. It rewrites the file whenever a new metric appears, and
    deletes it on resume. Rows need neither. `epoch` (passes over the data, a fraction) and `seconds` (of training,
    without validation) belong to the last recorded training step. The recorder keeps `clock` up to date.

    The first process alone has one.

    Args:
        path: the file.
        keep: its length in bytes at the checkpoint from which training resumes; 0 starts an empty file. Rows that a
            killed run wrote after it are cut off, and the resumed run writes them again.

    Raises ValueError with one line if the file is shorter.
    """

    name, version = "metrics", ""

    def __init__(self, path: Path, keep: int = 0):
        super().__init__()
        self.path = Path(path)
        self.clock = {"epoch": 0.0, "seconds": 0.0}
        if keep and (found := self.path.stat().st_size if self.path.exists() else 0) < keep:
            raise damaged(self.path, f"{found} bytes are left of {keep}", self.path.parent)
        self._file = self.path.open("r+" if keep else "w", newline="", encoding="utf-8")
        self._file.seek(keep)
        self._file.truncate()
        self._writer = csv.writer(self._file, lineterminator="\n")
        if not keep:
            self._writer.writerow(COLUMNS)

    @property
    def experiment(self) -> "MetricsCSV":
        """What Lightning and monitors ask each logger for."""
        return self

    def length(self) -> int:
        """The length of the file in bytes."""
        self._file.flush()
        return self._file.tell()

    def log_hyperparams(self, params, *args, **kwargs) -> None:
        """Do nothing: the configuration stands in `summary.json`."""

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        epoch, seconds = f"{self.clock['epoch']:.6g}", f"{self.clock['seconds']:.6g}"
        # repr of a float is the shortest text that reads back as the same number.
        self._writer.writerows((step, epoch, seconds, name, repr(float(x))) for name, x in metrics.items())

    def save(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class TensorBoard(TensorBoardLogger):
    """Lightning's, with the tags that one looks at first in front, and open until the summary is there.

    Args:
        resumed_at: the step from which training resumes. A TensorBoard that is open forgets what came after it.
        keep: the lengths of the event files at that checkpoint. What a killed run wrote after it is cut off, as the
            resumed run writes it again; None, of checkpoints that do not say, cuts nothing.
    """

    def __init__(self, folder: Path, resumed_at: int | None, keep: Mapping[str, int] | None):
        purge = None if resumed_at is None else resumed_at + 1
        super().__init__(folder, name="", version="", purge_step=purge)
        if keep is not None and own_rank() == 0:
            for path in folder.glob(EVENTS):
                if path.name not in keep:
                    path.unlink()
                elif path.stat().st_size > keep[path.name]:
                    os.truncate(path, keep[path.name])

    def lengths(self) -> dict[str, int]:
        """The lengths of the event files in bytes, by name."""
        self.save()
        return {path.name: path.stat().st_size for path in Path(self.log_dir).glob(EVENTS)}

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        super().log_metrics({FIRST.get(name, name): value for name, value in metrics.items()}, step)

    @rank_zero_only
    def save(self) -> None:
        self.experiment.flush()  # and no hparams.yaml: summary.json has them

    @rank_zero_only
    def finalize(self, status: str) -> None:
        self.save()

    def close(self) -> None:
        self.experiment.close()


@contextlib.contextmanager
def open_loggers(parts: "Parts", folder: Path, resumed: Mapping[str, Any] | None) -> Iterator[list[Logger]]:
    """All loggers of a run. `resumed` is the content of the checkpoint from which training resumes."""
    with contextlib.ExitStack() as stack:
        loggers: list[Any] = []
        names = names_of(parts.config["logger"])
        if "tensorboard" in names:
            at, keep = (resumed["global_step"], resumed.get("events")) if resumed else (None, {})
            loggers.append(TensorBoard(folder, at, keep))
            stack.callback(loggers[-1].close)
        if own_rank() == 0:
            loggers.append(MetricsCSV(folder / METRICS, resumed["recorded"] if resumed else 0))
            stack.callback(loggers[-1].close)
            for name in {"wandb", "mlflow"} & set(names):
                loggers.append(_service(name, parts, folder))
                if name == "wandb":
                    stack.callback(loggers[-1].experiment.finish)  # another run of this process opens its own
        yield loggers


def log_results(loggers: list[Logger], summary: Mapping[str, Any]) -> None:
    """Give the loggers the results of a run, with its settings for TensorBoard's table of hyperparameters."""
    results = {f"final/{name.replace('/', '_')}": value for name, value in summary["metrics"].items()}
    results = {"final/diverged": float(summary["status"] == "diverged")} | results
    config, choices = summary["config"], summary["choices"]
    settings = {"lr": learning_rate(config), "status": summary["status"], **choices}
    settings |= {name: config[name] for name in MAIN} | flat(config["model"]) | flat({"norm": config["norm"]})
    settings = {name.capitalize() if name in COMPARED else name: value for name, value in settings.items()}
    for logger in loggers:
        if isinstance(logger, TensorBoardLogger):
            logger.log_hyperparams(settings, results)
        elif not isinstance(logger, MetricsCSV):
            logger.log_metrics(results, summary["steps"])


def _service(name: str, parts: "Parts", folder: Path) -> Logger:
    """Lightning's logger for Weights & Biases or for MLflow. The study is a group or an experiment."""
    label = f"{model_label(parts.config, parts.choices)}/{folder.name}"
    study, outputs = parts.config["name"], Path(parts.config["outputs"])
    logger: WandbLogger | MLFlowLogger
    with FileLock(outputs / ".loggers.lock"):  # one process at a time makes the tables of MLflow's new file
        if name == "wandb":
            project = os.environ.get("WANDB_PROJECT", "normexp")
            logger = WandbLogger(
                name=label, save_dir=folder, project=project, group=study,
                id=parts.spec.digest[:32], resume="allow",  # a resumed run goes on
            )  # fmt: skip
        else:
            logger = MLFlowLogger(experiment_name=study, run_name=label, tracking_uri=mlflow_store(outputs))
        logger.log_hyperparams({**flat(parts.config), **parts.choices, "hash": parts.spec.digest})
    return logger
