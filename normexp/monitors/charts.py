"""TensorBoard pages of the monitors' values: charts of all layers, and percentile bands."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.loggers import Logger, TensorBoardLogger

from normexp.monitors.base import Monitor, Recorded

# `Loss/val` of this project, `val_loss` and the like of others; not the same values over another axis, and not those
# that monitors measure on one batch, `accuracy_val_batch/network`, which have charts of their own.
FIRST = "(?i)^(?!final/)(?!.*/network$)(?=.*val).*"


def by_statistic(tags: Iterable[str]) -> dict[str, list[str]]:
    """Statistic -> its layers in order, from tags `<statistic>/<layer>`."""
    found: dict[str, list[str]] = {}
    for tag in sorted(tags):
        statistic, layer = tag.split("/", 1)
        found.setdefault(statistic, []).append(layer)
    return found


def layout(recorded: Mapping[str, Recorded]) -> dict[str, dict[str, list]]:
    """The argument of `SummaryWriter.add_custom_scalars`. `recorded` is monitor name -> its values.

    First comes what has one line per run, so that it can be read with many: accuracy, loss, statistics of the whole
    network. Then percentile bands, one chart per layer: the median within the range from the 15th to the 85th
    percentile. Then one category per monitor with one chart per statistic, which shows all layers.
    """
    pages: dict[str, dict[str, list]] = {}
    first = {
        "validation accuracy": ["Multiline", [f"{FIRST}acc"]],
        "validation loss": ["Multiline", [f"{FIRST}loss"]],
    }
    bands: dict[str, list] = {}
    for name, tags in recorded.items():
        statistics = by_statistic(tags)
        whole = [statistic for statistic, layers in statistics.items() if "network" in layers]
        first |= {statistic: ["Multiline", [f"^{statistic}/network$"]] for statistic in whole}
        pages[name] = {statistic: ["Multiline", [f"^{statistic}/"]] for statistic in statistics}
        for statistic, layers in statistics.items():
            prefix, _, percentile = statistic.rpartition("_")
            if percentile == "p50" and {f"{prefix}_p15", f"{prefix}_p85"} <= statistics.keys():
                for layer in layers:
                    band = [f"{prefix}_{p}/{layer}" for p in ("p50", "p15", "p85")]
                    bands[f"{prefix}/{layer}"] = ["Margin", band]
    # TensorBoard draws margin charts in reverse order, and the others as given.
    band_page = {"Percentile bands": dict(reversed(bands.items()))} if bands else {}
    return {"First": first, **band_page, **pages}


class Charts(Callback):
    """Writes the custom-scalar layout when the first values are there, and again at the end."""

    def __init__(self) -> None:
        self._laid_out = False

    def write(self, loggers: Sequence[Logger], callbacks: Sequence[Callback]) -> None:
        """Write the layout of all values that the monitors among `callbacks` recorded."""
        recorded = {type(c).__name__: c.recorded for c in callbacks if isinstance(c, Monitor) and c.recorded}
        for logger in loggers:
            if isinstance(logger, TensorBoardLogger):
                logger.experiment.add_custom_scalars(layout(recorded))

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        self._laid_out = False

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        if not self._laid_out and trainer.global_step:
            self._laid_out = True
            self.write(trainer.loggers, callbacks_of(trainer))

    def on_fit_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.write(trainer.loggers, callbacks_of(trainer))


def measure_without_fit(
    callbacks: Sequence[Callback],
    module: LightningModule,
    data: Any,
    loggers: Sequence[Logger],
    *,
    step: int = 0,
) -> dict[str, float]:
    """Let every monitor among `callbacks` measure once and log. Returns all values, tag -> value.

    `data` is a LightningDataModule, a batch or `Batches`. The module stays as it is.
    """
    values: dict[str, float] = {}
    for monitor in callbacks:
        if isinstance(monitor, Monitor):
            with monitor.attempt():
                measured = monitor.measure(module, data, step=step)
                monitor.record(loggers, measured, step)
                monitor.say_if_nothing()
                values |= measured
    for charts in callbacks:
        if isinstance(charts, Charts):
            charts.write(loggers, callbacks)
    return values


def callbacks_of(trainer: Trainer) -> Sequence[Callback]:
    """The trainer's callbacks. Lightning sets them but declares no type."""
    return vars(trainer)["callbacks"]
