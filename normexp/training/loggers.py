"""Where the numbers of a run go: `metrics.csv`, one row for every number, and Lightning's loggers, each of which goes
on where the run is resumed."""

import contextlib
import csv
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock
from pytorch_lightning.loggers import MLFlowLogger, TensorBoardLogger, WandbLogger
from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.utilities.rank_zero import rank_zero_only

from normexp.config.identity import model_label
from normexp.config.loggers import mlflow_store, names_of
from normexp.format import printable
from normexp.runs import damaged
from normexp.runs.summary import flat, learning_rate
from normexp.training.lightning import own_rank

if TYPE_CHECKING:
    from normexp.training.build import Parts

NAME = "metrics.csv"
COLUMNS = ("step", "epoch", "seconds", "metric", "value")
# TensorBoard shows tags by alphabet, capitals first: these are what one looks at first.
FIRST = {
    "train/accuracy": "Accuracy/train",
    "val/accuracy": "Accuracy/val",
    "train/loss": "Loss/train",
    "val/loss": "Loss/val",
}
MAIN = ("norm", "model", "batch_size", "lr", "seed", "status")


class MetricsCSV(Logger):
    """A Lightning logger that writes rows `step,epoch,seconds,metric,value`.

    Lightning's own CSV logger has one column per metric. It rewrites the file whenever a new metric appears, and
    deletes it on resume. Rows need neither. `epoch` (passes over the data, a fraction) and `seconds` (of training,
    without validation) belong to the last recorded training step. The recorder keeps `clock` up to date.

    Args:
        path: the file.
        keep: its length in bytes at the checkpoint from which training resumes; 0 starts an empty file. Rows that a
            killed run wrote after it are cut off, and the resumed run writes them again.

    Raises ValueError with one line if the file is shorter.
    """

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
    def name(self) -> str:
        return "metrics"

    @property
    def version(self) -> str:
        return ""

    @property
    def save_dir(self) -> str:
        return str(self.path.parent)

    @property
    def experiment(self) -> "MetricsCSV":
        """What Lightning and monitors ask each logger for."""
        return self

    def length(self) -> int:
        """The length of the file in bytes."""
        self._file.flush()
        return self._file.tell()

    @rank_zero_only
    def log_hyperparams(self, params, *args, **kwargs) -> None:
        """Do nothing: the configuration stands in `summary.json`."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        epoch, seconds = f"{self.clock['epoch']:.6g}", f"{self.clock['seconds']:.6g}"
        # repr of a float is the shortest text that reads back as the same number.
        self._writer.writerows((step, epoch, seconds, name, repr(float(x))) for name, x in metrics.items())

    @rank_zero_only
    def save(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class TensorBoard(TensorBoardLogger):
    """Lightning's, with the tags that one looks at first in front, and open until the summary is there."""

    def __init__(self, folder: Path, resumed_at: int | None):
        purge = None if resumed_at is None else resumed_at + 1
        super().__init__(folder, name="", version="", default_hp_metric=False, purge_step=purge)

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
def open_loggers(
    parts: "Parts", folder: Path | None, resumed: Mapping[str, Any] | None
) -> Iterator[list[Logger]]:
    """All loggers of a run.

    Args:
        folder: of the run; None records nothing.
        resumed: the content of the checkpoint from which training resumes.

    Raises ValueError with one line if a service cannot be used.
    """
    with contextlib.ExitStack() as stack:
        loggers: list[Any] = []
        names = names_of(parts.config["logger"]) if folder else []
        if folder and "tensorboard" in names:
            loggers.append(TensorBoard(folder, resumed["global_step"] if resumed else None))
            stack.callback(loggers[-1].close)
        if folder and own_rank() == 0:
            loggers.append(MetricsCSV(folder / NAME, resumed["recorded"] if resumed else 0))
            stack.callback(loggers[-1].close)
            for name, opening in (("wandb", _wandb), ("mlflow", _mlflow)):
                if name in names:
                    loggers.append(stack.enter_context(opening(parts, folder)))
        yield loggers


def log_results(loggers: list[Logger], summary: Mapping[str, Any]) -> None:
    """Give the loggers the results of a run, with its settings for TensorBoard's table of hyperparameters."""
    results = {f"final/{name.replace('/', '_')}": value for name, value in summary["metrics"].items()}
    results = {"final/diverged": float(summary["status"] == "diverged")} | results
    for logger in loggers:
        if isinstance(logger, TensorBoardLogger):
            # By default it shows the first five results: the status and the accuracies come before the losses.
            ordered = dict(sorted(results.items(), key=lambda item: item[0].endswith("loss")))
            logger.log_hyperparams(hyperparameters(summary), ordered)
        elif not isinstance(logger, MetricsCSV):
            logger.log_metrics(results, summary["steps"])


def hyperparameters(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The values by which the table filters and sorts: the main settings, then all others under their short names."""
    config, choices = summary["config"], summary["choices"]
    row = {name: config.get(name, summary["status"]) for name in MAIN} | {
        "lr": learning_rate(config),
        "model": model_label(config, choices),
        "norm": choices["norm"],
    }
    settings = {key: config[key] for key in ("max_epochs", "max_steps")} | dict(choices)
    settings |= flat(config["model"]) | flat({"norm": config["norm"]})
    return row | {key: value for key, value in settings.items() if key not in row and value is not None}


def _name_of(parts: "Parts", folder: Path) -> str:
    return f"{model_label(parts.config, parts.choices)}/{folder.name}"


@contextlib.contextmanager
def _wandb(parts: "Parts", folder: Path) -> Iterator[Logger]:
    """Lightning's logger for Weights & Biases. The study is a group; a resumed run continues under its id, which a file
    in the folder keeps. wandb's own variables say where and how: WANDB_MODE=offline, WANDB_PROJECT, WANDB_ENTITY."""
    import wandb

    known = folder / ".wandb_id"
    if not known.exists():
        known.write_text(secrets.token_hex(4))
    tags = [parts.choices[key] for key in ("model", "norm", "data")]
    try:
        logger = WandbLogger(
            name=_name_of(parts, folder), save_dir=os.environ.get("WANDB_DIR", folder), id=known.read_text(),
            resume="allow", project=os.environ.get("WANDB_PROJECT", "normexp"), group=parts.config["name"], tags=tags,
            settings=wandb.Settings(console="off", quiet=True),
        )  # fmt: skip
        logger.log_hyperparams({**flat(parts.config), **parts.choices, "hash": parts.digest})
    except (wandb.Error, OSError) as error:
        reason = printable(" ".join(str(error).split()).rstrip("."))
        raise ValueError(f"logger=wandb: {reason}; run `wandb login`, or set WANDB_MODE=offline") from None
    status = 1
    try:
        yield logger
        status = 0
    finally:
        logger.experiment.finish(exit_code=status)


@contextlib.contextmanager
def _mlflow(parts: "Parts", folder: Path) -> Iterator[Logger]:
    """Lightning's logger for MLflow. The study is an experiment; a resumed run continues under its id, which a file in
    the folder keeps. MLFLOW_TRACKING_URI names the store; without it, it is the file `<outputs>/mlflow.db`."""
    from mlflow.exceptions import MlflowException

    known, outputs = folder / ".mlflow_id", Path(parts.config["outputs"])
    uri = mlflow_store(outputs)
    tags = {**{key: parts.choices[key] for key in ("model", "norm")}, "folder": str(folder)}
    try:
        with FileLock(outputs / ".mlflow.lock"):  # one process at a time makes the tables of a new file
            logger = MLFlowLogger(
                experiment_name=parts.config["name"], run_name=_name_of(parts, folder), tracking_uri=uri, tags=tags,
                run_id=known.read_text() if known.exists() else None,
                artifact_location=(outputs.absolute() / "mlruns").as_uri() if "sqlite" in uri else None,
            )  # fmt: skip
            known.write_text(str(logger.run_id))
        logger.log_hyperparams({**flat(parts.config), **parts.choices, "hash": parts.digest})
    except (MlflowException, OSError) as error:
        reason = printable(" ".join(str(error).split())[:200].rstrip("."))
        remedy = "set MLFLOW_TRACKING_URI to another store"
        raise ValueError(f"logger=mlflow: {uri} cannot be used ({reason}); {remedy}") from None
    yield logger
