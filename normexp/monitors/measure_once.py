"""Run monitors on a network that takes no step. Lightning's fit with `max_steps=0` would call no hook."""

from collections.abc import Sequence
from typing import Any

from pytorch_lightning import Callback, LightningModule
from pytorch_lightning.loggers import Logger

from normexp.monitors.base import Monitor
from normexp.monitors.charts import Charts


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
