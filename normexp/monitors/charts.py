"""TensorBoard pages of the monitors' values: charts of all layers, percentile bands, heat maps of layer x time."""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.loggers import Logger, TensorBoardLogger

from normexp.monitors.base import Monitor, Recorded

# `Loss/val` of this project, `val_loss` and the like of others; not the same values over another axis, and not those
# that monitors measure on one batch, `accuracy_val_batch`, which have charts of their own.
FIRST = "(?i)^(?!(by_samples|final{})/)(?=.*val).*{}"


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
    measured = {tag.split("/", 1)[0] for tags in recorded.values() for tag in tags if "val" in tag.lower()}
    others = "".join(f"|{statistic}" for statistic in sorted(measured))
    first = {
        "validation accuracy": ["Multiline", [FIRST.format(others, "acc")]],
        "validation loss": ["Multiline", [FIRST.format(others, "loss")]],
    }
    bands: dict[str, list] = {}
    for name, tags in recorded.items():
        statistics = by_statistic(tags)
        whole = {
            s: ["Multiline", [f"^{s}/network$"]] for s, layers in statistics.items() if "network" in layers
        }
        first |= whole
        pages[name] = {statistic: ["Multiline", [f"^{statistic}/"]] for statistic in statistics}
        for statistic, layers in statistics.items():
            place, _, percentile = statistic.rpartition("_")
            if percentile == "p50" and {f"{place}_p15", f"{place}_p85"} <= statistics.keys():
                for layer in layers:
                    band = [f"{place}_{p}/{layer}" for p in ("p50", "p15", "p85")]
                    bands[f"{place}/{layer}"] = ["Margin", band]
    # TensorBoard draws margin charts in reverse order, and the others as given.
    shown = {"Percentile bands": dict(reversed(bands.items()))} if bands else {}
    return {"First": first, **shown, **pages}


def heat_map(statistic: str, recorded: Recorded) -> Any:
    """A matplotlib figure of one statistic over steps, with one row per layer and the input on top. Values that are not
    finite stay white."""
    from matplotlib.figure import Figure  # imported here, since it takes half a second and few want figures

    layers = [layer for layer in by_statistic(recorded)[statistic] if layer != "network"]
    rows = [{s: v for s, v in recorded[f"{statistic}/{layer}"] if isfinite(v)} for layer in layers]
    steps = sorted({step for layer in layers for step, _ in recorded[f"{statistic}/{layer}"]})
    values = [[row.get(step, float("nan")) for step in steps] for row in rows]
    figure = Figure(figsize=(8, 1.2 + 0.3 * len(layers)))
    figure.subplots_adjust(
        left=0.25, right=0.99, bottom=0.5 / figure.get_figheight(), top=1 - 0.4 / figure.get_figheight()
    )
    axes = figure.subplots()
    image = axes.pcolormesh(values, norm=scale_of(values))
    axes.set_yticks([i + 0.5 for i in range(len(layers))], layers)
    axes.invert_yaxis()
    shown = range(0, len(steps), max(1, len(steps) // 8))
    axes.set_xticks([i + 0.5 for i in shown], [str(steps[i]) for i in shown])
    axes.set(title=statistic, xlabel="step")
    figure.colorbar(image)
    return figure


def scale_of(values: Sequence[Sequence[float]]) -> str:
    """`log` if positive values span more than two decades, for the scale of colors."""
    finite = [v for row in values for v in row if isfinite(v)]
    return "log" if finite and min(finite) > 0 and max(finite) > 100 * min(finite) else "linear"


class Charts(Callback):
    """Writes the custom-scalar layout when the first values are there. Writes it again at the end, with the figures.

    Args:
        heat_maps: statistics to draw at the end as figures `heat_map/<statistic>`, a tenth of a second each. A
            statistic that this model or norm does not have is omitted.
    """

    def __init__(self, *, heat_maps: Sequence[str] = ()) -> None:
        self.heat_maps = list(heat_maps)
        self._laid_out = False

    def write(self, loggers: Sequence[Logger], callbacks: Sequence[Callback], step: int) -> None:
        """Write the layout and the figures of all values that the monitors among `callbacks` recorded."""
        recorded = {type(c).__name__: c.recorded for c in callbacks if isinstance(c, Monitor) and c.recorded}
        for logger in loggers:
            if isinstance(logger, TensorBoardLogger):
                logger.experiment.add_custom_scalars(layout(recorded))
                for tags in recorded.values():
                    for statistic, layers in by_statistic(tags).items():
                        if statistic in self.heat_maps and layers != ["network"]:
                            logger.experiment.add_figure(
                                f"heat_map/{statistic}", heat_map(statistic, tags), step
                            )

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        self._laid_out = False
        known = set().union(
            *(callback.keys() for callback in callbacks_of(trainer) if isinstance(callback, Monitor))
        )
        if unknown := sorted(set(self.heat_maps) - known):
            raise ValueError(f"heat_maps={unknown}: no monitor of this run measures it; see docs/monitors.md")

    def state_dict(self) -> dict[str, bool]:
        return {"laid_out": self._laid_out}

    def load_state_dict(self, state: dict[str, bool]) -> None:
        self._laid_out = state["laid_out"]

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        if not self._laid_out and trainer.global_step:
            self._laid_out = True
            Charts().write(trainer.loggers, callbacks_of(trainer), trainer.global_step)

    def on_fit_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.write(trainer.loggers, callbacks_of(trainer), trainer.global_step)


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
            measured = monitor.measure(module, data, step=step)
            monitor.record(loggers, measured, step)
            values |= measured
    for charts in callbacks:
        if isinstance(charts, Charts):
            charts.write(loggers, callbacks, step)
    return values


def callbacks_of(trainer: Trainer) -> Sequence[Callback]:
    """The trainer's callbacks. Lightning sets them but declares no type."""
    return vars(trainer)["callbacks"]
